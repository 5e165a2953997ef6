package index

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// before is the judge's order: a NaN is the greatest, zeros are equal, and of equal
// numbers the first comes first.
func before(line []float64, i, j int, descending bool) bool {
	key := func(v float64) float64 {
		if v != v {
			return math.Inf(1)
		}
		return max(min(v, math.MaxFloat64), -math.MaxFloat64) + 0 // infinities below NaN
	}
	a, b := key(line[i]), key(line[j])
	if a == b {
		return i < j
	}
	return (a < b) != descending
}

// TestOrder: the rank of each number is how many come before it.
func TestOrder(t *testing.T) {
	trials(t, 30, 1, func(o *outputs, r *rand.Rand, shape []int) {
		axis := r.IntN(len(shape))
		shape[axis] = 1 + r.IntN(9)
		src := tensor.New(someFormat(r), shape...)
		for i := range src.Data {
			src.Data[i] = []float64{
				1, 1, 2, 3, 0, math.Copysign(0, -1), fp16.NaN, math.Inf(1), math.Inf(-1), -2,
			}[r.IntN(4+r.IntN(7))]
		}
		n := shape[axis]
		k, descending := r.IntN(n+1), r.IntN(2) == 0
		out := append([]int(nil), shape...)
		out[axis] = k
		values, places := tensor.New(someFormat(r), out...), tensor.New(fp16.Int64, out...)
		Sort(values, places, src, axis, descending)
		flat := append(append([]int(nil), shape[:axis]...), shape[axis+1:]...)
		most, least := tensor.New(fp16.Int64, flat...), tensor.New(fp16.Int64, flat...)
		ArgMax(most, src, axis, false)
		ArgMax(least, src, axis, true)
		if o.add(values, places, most, least); !o.Judge {
			return
		}
		each(t, src, func(at []int) float64 {
			v := src.Data[place(shape, at)]
			line := make([]float64, n)
			mine := at[axis]
			for i := range line {
				at[axis] = i
				line[i] = src.Data[place(shape, at)]
			}
			rank, first, last := 0, true, true
			nan := false
			for i := range line {
				if i != mine && before(line, i, mine, descending) {
					rank++
				}
				first = first && (i == mine || before(line, mine, i, true))
				last = last && (i == mine || before(line, mine, i, false))
				nan = nan || line[i] != line[i]
			}
			if nan {
				last = first // the NaN is the least too
			}
			at[axis] = rank
			if rank < k {
				if p := place(out, at); places.Data[p] != float64(mine) ||
					math.Float64bits(values.Data[p]) != math.Float64bits(values.Format.Round(v)) {
					t.Fatalf("%v: rank %d is %v at %v, want %v at %d", line, rank, values.Data[p], places.Data[p], v, mine)
				}
			}
			rest := place(flat, append(append([]int(nil), at[:axis]...), at[axis+1:]...))
			if got := most.Data[rest] == float64(mine); got != first {
				t.Fatalf("%v: the greatest is at %v", line, most.Data[rest])
			}
			if got := least.Data[rest] == float64(mine); got != last {
				t.Fatalf("%v: the least is at %v", line, least.Data[rest])
			}
			return v
		})
	})
}
