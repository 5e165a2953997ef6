package judge

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// flipped rounds numbers to the other side of an edge if they are within mostFlip deviations of it. A
// deviation is that of the simulated kernels' errors, element by element, and that of the bound, scaled to
// them, together: a few kernels alone say little of one element. One such flip is as large as the format is
// coarse, and rare: simulated kernels seldom have the one that an output has.
func flipped(f rounding, t *tensor.Tensor, sims []simulation, v int, b ball) *tensor.Tensor {
	squares := make([]float64, len(t.Data))
	var all, bound float64
	for i, r := range b.r.Data {
		for _, s := range sims {
			if d := s.of[v].Data[i] - b.v.Data[i]; d-d == 0 {
				squares[i] += d * d / float64(len(sims))
			}
		}
		if r-r == 0 {
			all += squares[i]
			bound += r * r
		}
	}
	out := fresh(fp16.Float64, t.Shape...)
	f.RoundSlice(out.Data, t.Data)
	for i, x := range t.Data {
		r := b.r.Data[i]
		if r-r != 0 || bound == 0 {
			continue
		}
		s := mostFlip * math.Sqrt(squares[i]+r*r*all/bound)
		if other := f.Round(x + s); other != out.Data[i] {
			out.Data[i] = other
		} else {
			out.Data[i] = f.Round(x - s)
		}
	}
	return out
}
