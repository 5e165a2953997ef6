package judge

import (
	"math"
	"math/rand/v2"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// simulation is a right kernel: each step in float32, with random errors as large as those of sums in the
// worst usual order and of a library's functions; if it cuts, products are those of units that truncate.
type simulation struct {
	m    int              // which it is
	of   []*tensor.Tensor // by value
	r    *rand.Rand
	errs errorsOf
	cuts bool
	// double is set if it computes in float64, all but the values of singles.
	double  bool
	singles []bool
	// flips is a kernel without errors of its own but that, wherever another's errors could move a number
	// over the edge between two roundings, rounds to the other one.
	flips bool
	// flushes is a kernel whose only errors are flushes.
	flushes bool
	wide    bool // it is evaluated nearly, see nearly
	// turns, if not nil, are the only errors of a kernel: its flips.
	turns []flip
	// fused are the products that this kernel does not round, as they are one instruction with what adds them; nil is
	// none.
	fused []bool
}

// step is one of the kernel's; out are the results without its errors, of inputs without any.
func (s simulation) step(n *graph.Node, balls, out []ball) error {
	in := make([]*tensor.Tensor, len(n.In))
	op, changed := scalarsIn(n.Op, fp16.Float32)
	s.double = s.double && !isSingle(s.singles, n.Out[0])
	if s.turns != nil || s.double {
		op, changed = n.Op, false
	}
	same, errs := !changed, !s.flips && !s.flushes && s.turns == nil
	flushes := s.flushes && computes(op)
	for k, v := range n.In {
		if in[k] = s.of[v]; flushes {
			in[k] = flush(in[k])
		}
		same = same && in[k] == balls[v].v
	}
	if made := out[0].made; made != nil && errs {
		y, err := made(in, s)
		if err == nil {
			s.of[n.Out[0]] = noisy(y, out[0], s.errs.step(n.Out[0]), s, true)
		}
		return err
	}
	if !same {
		given, err := evaluator(s.wide)(op, in...)
		if err != nil {
			return err
		}
		for k, v := range n.Out {
			s.of[v] = given[k]
		}
	}
	for k, v := range n.Out {
		if same {
			s.of[v] = out[k].v
		}
		switch {
		case flushes:
			s.of[v] = less(flush(s.of[v]), out[k].lost)
		case s.fused != nil && s.fused[v]:
		case errs:
			s.of[v] = noisy(s.of[v], out[k], s.errs.step(v), s, !same)
		}
	}
	return nil
}

// roundAll rounds a step of all kernels.
func roundAll(f rounding, sims []simulation, v int, b ball) {
	if n := len(sims); n > 0 && sims[n-1].flips && b.r != nil {
		last := sims[n-1]
		exact := last.of[v]
		last.of[v] = flipped(f.Round, exact, sims[:len(sims)-1], v, b)
		if !shared(exact, b.v) {
			release(exact)
		}
		sims = sims[:len(sims)-1]
	}
	for _, s := range sims {
		if s.turns != nil {
			continue
		}
		wide := s.of[v]
		if s.of[v] = roundTo(f, wide, s.r); wide != s.of[v] && !shared(wide, b.v) {
			release(wide)
		}
	}
}

// noisy adds a kernel's errors to a step's result and rounds it to float32, or as in float64: in its place, if nobody
// else has it.
func noisy(t *tensor.Tensor, like ball, errs errorsOf, of simulation, own bool) *tensor.Tensor {
	if t.Format == fp16.Int64 || like.exact {
		return t
	}
	out := t
	if !own {
		out = fresh(fp16.Float64, t.Shape...)
	}
	if of.double {
		inDouble(out.Data, t.Data, like, errs)
		return out
	}
	if like.sigma == nil {
		fp16.Float32.RoundSlice(out.Data, t.Data)
		return out
	}
	if of.cuts && like.cut != nil {
		for i, v := range t.Data {
			out.Data[i] = v - math.Copysign(like.drift.Data[i], v) + float64(like.cut.Data[i]*wandering(errs.sum(i, v)))
		}
		fp16.Float32.RoundSlice(out.Data, out.Data)
		return out
	}
	for i, v := range t.Data {
		if s := like.sigma.Data[i]; s > 0 {
			if like.sum {
				v += float64(s * wandering(errs.sum(i, v)))
			} else {
				v += float64(s * errs.number(v).NormFloat64())
			}
		}
		out.Data[i] = v
	}
	fp16.Float32.RoundSlice(out.Data, out.Data)
	return out
}

// wandering is a random error of a sum in units of its deviation. The variance of such an error is that of
// the partial sums, whose way is random too: the square of a bridge, integrated, has the mean 1/6 and the
// variance 1/45, so that in proportion to its mean it varies by 0.9. This has 0.85.
func wandering(r *rand.Rand) float64 {
	z := r.NormFloat64()
	return math.Sqrt(steadyPart+wanderingPart*z*z) * r.NormFloat64()
}

// fused reports which products a kernel may leave unrounded: those that only additions read and no contract rounds.
// Compilers make one instruction of a product and a sum, and PyTorch's lerp is one. Where the two cancel, the product's
// rounding is all that is left.
func (b *builder) fused(round rounded) []bool {
	fused := make([]bool, len(b.Values))
	for i := range b.Nodes {
		n := &b.Nodes[i]
		if op, is := n.Op.(graph.Binary); is && op.Of == pointwise.Mul {
			_, stored := round[n.Out[0]]
			fused[n.Out[0]] = !stored
		}
	}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		op, is := n.Op.(graph.Binary)
		for _, v := range n.In {
			fused[v] = fused[v] && is && (op.Of == pointwise.Add || op.Of == pointwise.Sub)
		}
	}
	for _, v := range b.Graph.Outputs {
		fused[v] = false
	}
	return fused
}
