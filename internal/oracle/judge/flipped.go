package judge

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// flipped rounds numbers to the other side of an edge if they are within mostFlip deviations of it. A
// deviation is that of the simulated kernels' errors, element by element, and that of the bound, scaled to
// them, together: a few kernels alone say little of one element. One such flip is as large as the format is
// coarse, and rare: simulated kernels seldom have the one that an output has.
func flipped(round func(float64) float64, t *tensor.Tensor, sims []simulation, v int, b ball) *tensor.Tensor {
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
	for i, x := range t.Data {
		out.Data[i] = round(x)
		r := b.r.Data[i]
		if r-r != 0 || bound == 0 {
			continue
		}
		s := mostFlip * math.Sqrt(squares[i]+r*r*all/bound)
		if other := round(x + s); other != out.Data[i] {
			out.Data[i] = other
		} else {
			out.Data[i] = round(x - s)
		}
	}
	return out
}

// jump returns the function of a step that makes whole numbers, or signs, of what it reads; nil of any other step.
// Beside an edge, to be on the other side is as rare and as large as a flip.
func jump(op graph.Op) func(float64) float64 {
	switch op.Name() {
	case "floor":
		return math.Floor
	case "ceil":
		return math.Ceil
	case "round":
		return math.RoundToEven
	case "trunc":
		return math.Trunc
	case "sign":
		return func(x float64) float64 {
			if x == 0 {
				return 0
			}
			return math.Copysign(1, x)
		}
	case "cast":
		if f, err := fp16.ParseFormat(op.(graph.Cast).Dtype); err != nil || f == fp16.Int64 {
			return math.Trunc
		}
	}
	return nil
}

// jumps reports whether a step is one of those.
func (b *builder) jumps() bool {
	return slices.ContainsFunc(b.Nodes, func(n graph.Node) bool { return jump(n.Op) != nil })
}

// usualFlip is the square of what one inner rounding that goes the other way does to a float32 result: the median of
// what simulated kernels are off by, where that is more than float32 roundings are. Such errors are rare and
// large, and are counted in themselves.
func (t *trial) usualFlip(f fp16.Format) float64 {
	all := t.flippedBy(f)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)/2]
}

// largestFlip is the largest of them: in a chain that of the last step is far more than what is left of others.
func (t *trial) largestFlip(f fp16.Format) float64 {
	all := t.flippedBy(f)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

// flippedBy are squares of what simulated kernels are off by, where that is more than float32 roundings are.
func (t *trial) flippedBy(f fp16.Format) (all []float64) {
	if !t.fine(f) || len(t.round) == 0 {
		return nil
	}
	for _, k := range t.right {
		for i, v := range k {
			if d := math.Abs(v - t.stored[i]); d > leastFlip*f.Ulp(t.stored[i]) && d-d == 0 {
				all = append(all, float64(d*d))
			}
		}
	}
	slices.Sort(all)
	return all
}
