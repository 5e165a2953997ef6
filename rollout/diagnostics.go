package rollout

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/elem"
)

// Diagnostics are five numbers that sum up a state: the C*H*W numbers x of one
// realization at one step, and those of the state before it.
//
// They are Spinlock's metrics with one difference: Spinlock takes float32
// reductions of PyTorch, these are float64 sums in the order of the elements,
// the same bits everywhere. They describe a run and are in no digest of it.
//
// What is not finite follows IEEE arithmetic. A NaN in x makes every number NaN
// that depends on x; an infinity makes energy and mean magnitude infinite and
// the others NaN. Sums of squares beyond float64, of numbers above 1e150 or so,
// are infinite, and a correlation made of them is NaN. A NaN is always
// [fp16.NaN].
type Diagnostics struct {
	Energy          float64 // sum x^2
	Entropy         float64 // -sum p ln p over the non-empty of 50 bins, p the share of a bin
	Autocorrelation float64 // Pearson's correlation with the state before: 0 at t = 0, NaN if either is constant
	Variance        float64 // sum (x-mean)^2 / (n-1): NaN for a single number
	MeanMagnitude   float64 // mean |x|
}

// DiagnosticNames names the diagnostics in the order of [Diagnostics.Values],
// as files name them.
var DiagnosticNames = [...]string{"energy", "entropy", "autocorrelation", "variance", "mean_magnitude"}

// Values returns the diagnostics in the order of [DiagnosticNames].
func (d Diagnostics) Values() [len(DiagnosticNames)]float64 {
	return [...]float64{d.Energy, d.Entropy, d.Autocorrelation, d.Variance, d.MeanMagnitude}
}

// Diagnose returns the diagnostics of a state x, given the state before it:
// nil at t = 0. It panics if x is empty or prev is of another length.
//
// In units of u = 2^-53 and for n numbers of which no square leaves float64's
// normal range, energy, variance and mean magnitude have relative errors of
// about n u, however large the mean is beside the spread; that of the
// autocorrelation is about 4 n u in absolute terms.
func Diagnose(x, prev []float64) Diagnostics {
	if len(x) == 0 || prev != nil && len(prev) != len(x) {
		panic("rollout: diagnostics of an empty state, or of states of two sizes")
	}
	n := float64(len(x))
	// Sums that do not wait for each other share a loop: each has its own order.
	var energy, magnitude, sum, sumWas float64
	lo, hi := x[0], x[0]
	was := prev
	if prev == nil {
		was = x // for its numbers, of which nothing is made
	}
	was = was[:len(x)]
	first, firstWas := x[0], was[0]
	for i, v := range x {
		energy += float64(v * v)
		magnitude += math.Abs(v)
		sum += v - first
		sumWas += was[i] - firstWas
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	if energy != energy { // as a number is NaN
		lo = energy
	}
	xx, xy, yy := comoments(x, was, first+sum/n, firstWas+sumWas/n)
	d := Diagnostics{
		Energy:        energy,
		Entropy:       entropy(x, lo, hi),
		Variance:      xx / (n - 1), // 0/0 for a single number
		MeanMagnitude: magnitude / n,
	}
	if prev != nil {
		d.Autocorrelation = correlation(xy, xx, yy)
	}
	// Machines differ in the sign and payload of the NaN that arithmetic makes.
	for _, v := range []*float64{&d.Energy, &d.Entropy, &d.Autocorrelation, &d.Variance, &d.MeanMagnitude} {
		*v = fp16.Float64.Round(*v)
	}
	return d
}

// comoments returns the sums of (x-mean x)^2, (x-mean x)(y-mean y) and (y-mean y)^2, given
// numbers a, b close to the means. For each pair,
//
//	sum (x-mean x)(y-mean y) = sum (x-a)(y-b) - sum (x-a) sum (y-b) / n,
//
// which holds for all a and b: their errors cost nothing. Every distance is
// rounded once, relative to its own size, so no error grows with the mean
// (Chan, Golub and LeVeque, The American Statistician 37, 1983). A mean that is summed as
// distances from the first number is exact if all are equal, and then the comoments of a
// constant field are exactly zero.
func comoments(x, y []float64, a, b float64) (xx, xy, yy float64) {
	var sx, sy float64
	y = y[:len(x)]
	for i, v := range x {
		dx, dy := v-a, y[i]-b
		sx += dx
		sy += dy
		xx += float64(dx * dx)
		xy += float64(dx * dy)
		yy += float64(dy * dy)
	}
	n := float64(len(x))
	return xx - float64(sx*sx)/n, xy - float64(sx*sy)/n, yy - float64(sy*sy)/n
}

// correlation returns xy / sqrt(xx yy), within [-1,1]. It is NaN if a field is
// constant, or if xx or yy is not finite.
func correlation(xy, xx, yy float64) float64 {
	d := math.Sqrt(xx) * math.Sqrt(yy)
	if !(d > 0 && d <= math.MaxFloat64) {
		return fp16.NaN
	}
	return max(-1, min(1, xy/d))
}

// bins is the number of bins of the histogram behind the entropy.
const bins = 50

// histogram counts the numbers of x, all within [lo,hi], in bins of equal
// width. Bin k holds lo + k w <= x < lo + (k+1) w with w = (hi-lo)/50, and the
// last one holds hi too. If lo = hi, the range is [lo-1,hi+1], whose middle is
// in bin 25. ok is false if lo, hi or 50 (hi-lo) is not finite.
//
// The bin is that of (x-lo) 50/(hi-lo), truncated: the rule of torch.histc,
// which evaluates it in the type of the state, this in float64. In float32 its
// four roundings amount to 4 * 2^-24 = 2^-22 of the result, two ulp of a power
// of two, so PyTorch may count a number one bin off, but only one whose
// distance from lo is within 2^-22 of an edge's. In float64 that is 2^-51.
func histogram(x []float64, lo, hi float64) (counts [bins]int, ok bool) {
	span := hi - lo
	if !(bins*span <= math.MaxFloat64) { // NaN for equal infinities too
		return counts, false
	}
	if span == 0 {
		counts[bins/2] = len(x)
		return counts, true
	}
	// Neighbours are often in one bin: four counters of it do not wait for each other. A
	// product in place of the quotient is within 2^-44 of it, 50 (5 u and a bit), which
	// decides the bin unless that near to an edge, or not finite.
	const near = 0x1p-40
	var apart [4][64]int32
	each := bins / span
	for i, v := range x {
		d := v - lo
		q := float64(d * each)
		k := int(q)
		if f := q - float64(k); !(f > near && f < 1-near) {
			k = int(d * bins / span)
		}
		apart[i%4][uint(k)%64]++
	}
	for _, c := range apart {
		for k, n := range c {
			counts[min(k, bins-1)] += int(n)
		}
	}
	return counts, true
}

// entropy returns Shannon's entropy, in nats, of the histogram of x over its
// range [lo,hi]; NaN if there is no histogram.
func entropy(x []float64, lo, hi float64) float64 {
	counts, ok := histogram(x, lo, hi)
	if !ok {
		return fp16.NaN
	}
	var h float64
	for _, c := range counts {
		if c > 0 {
			p := float64(c) / float64(len(x))
			h -= float64(p * elem.Log(p))
		}
	}
	return h
}
