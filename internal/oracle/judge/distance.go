package judge

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
)

// Distance is how far an output is from what a contract stores.
type Distance struct {
	Mean float64
	bits []float32 // of each number
}

// distance is that of a question's output.
func (q *Question) distance(results ...[]float64) Distance {
	return distanceOf(q.Output.Format, q.Output.Data, results...)
}

// coarser is the format of steps or of the output, whichever has fewer numbers.
func (q *Question) coarser() fp16.Format {
	if q.Narrow.Half() {
		return q.Narrow
	}
	return q.Output.Format
}

// distanceOf is the distance of an output from results: of each number log2(1 + d^2), d in places of a format. Where
// several roundings are missing, most numbers are off, by what the narrow format's roundings are, and each rounding
// that is put right makes that a little less: in bits that shows, where squares would show the largest alone and a
// count nothing. The storing itself is no part of it: it has 1/12 under every contract, which would hide what a rare
// rounding does. Of several results the nearest counts. What is smaller than a place of the output counts as that
// place: what cancels to 0 is in right kernels as large as float32's errors, which is more places of 0 than any wrong
// number has.
func distanceOf(f fp16.Format, out []float64, results ...[]float64) (far Distance) {
	return distanceIn(f, math.Inf(1), f, out, results...)
}

// distanceIn is distanceOf with d in places of another format, or in most, if that is less.
func distanceIn(unit fp16.Format, most float64, f fp16.Format, out []float64, results ...[]float64) (far Distance) {
	for i, got := range out[:len(results[0])] {
		near := math.Inf(1)
		for _, y := range results {
			stored := f.Round(y[i])
			ulp := max(unit.Ulp(stored), unit.Ulp(unit.Ulp(got)))
			if !(ulp > 0) {
				ulp = unit.Smallest()
			}
			if d := math.Abs(got-stored) / min(ulp, most); d == d {
				near = min(near, d)
			}
		}
		bits := 0.0
		if near-near == 0 {
			bits = elem.Log1p(float64(near*near)) / math.Ln2
		}
		far.bits = append(far.bits, float32(bits))
		far.Mean += bits / float64(len(results[0]))
	}
	return far
}

// and is the distance of two outputs together.
func (a Distance) and(b Distance) Distance {
	if a.bits == nil {
		return b
	}
	n, m := float64(len(a.bits)), float64(len(b.bits))
	return Distance{(n*a.Mean + m*b.Mean) / (n + m), slices.Concat(a.bits, b.bits)}
}

// Plainly reports whether a contract is nearer than another by more than chance: by a tenth, where few numbers are off,
// or by more than chance does to the mean of all differences.
func (a Distance) Plainly(b Distance) bool {
	var sum, squares float64
	for i := range a.bits {
		d := float64(b.bits[i]) - float64(a.bits[i])
		sum += d
		squares += float64(d * d)
	}
	return a.Mean < plainly*b.Mean || sum > byChance*math.Sqrt(squares)
}
