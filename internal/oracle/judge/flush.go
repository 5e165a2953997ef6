package judge

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// Units may flush: take a subnormal number of float32, as an operand or as a result, for 0. GPUs do it with fast math,
// and CPUs where a library says so. It is no small error where what is subnormal is all there is, or is scaled up
// afterwards. What only moves numbers keeps them.

func subnormal(v float64) bool { return v != 0 && math.Abs(v) < leastNormal }

func hasSubnormal(t *tensor.Tensor) bool {
	if t.Format == fp16.Int64 {
		return false
	}
	for _, v := range t.Data {
		if subnormal(v) {
			return true
		}
	}
	return false
}

// computes reports whether an operation is arithmetic on numbers, near which its results are near.
func computes(op graph.Op) bool {
	switch op := op.(type) {
	case graph.Binary:
		switch op.Of {
		case pointwise.Add, pointwise.Sub, pointwise.Mul, pointwise.Div, pointwise.Pow, pointwise.Atan2,
			pointwise.Maximum, pointwise.Minimum, pointwise.FMax, pointwise.FMin:
			return true
		}
	case graph.Unary, graph.Act:
		_, is := kernels[nameOf(op)]
		return is
	}
	return sums[op.Name()] || products[op.Name()]
}

// loses is how far a number is off by what units do with a subnormal one: they flush it, or round it in the last place.
func (a accumulator) loses(v float64) float64 {
	if a.keeps {
		return a.smallest()
	}
	return min(math.Abs(v), leastNormal)
}

// flushable are balls that have the 0 of a flush in them, if units flush.
func flushable(in []ball, acc accumulator) []ball {
	out := in
	for k, b := range in {
		if !hasSubnormal(b.v) {
			continue
		}
		if &out[0] == &in[0] {
			out = append([]ball(nil), in...)
		}
		r := fresh(fp16.Float64, b.v.Shape...)
		for i, v := range b.v.Data {
			if b.r != nil {
				r.Data[i] = b.r.Data[i]
			}
			if subnormal(v) {
				r.Data[i] = max(r.Data[i], acc.loses(v))
			}
		}
		out[k].r = r
	}
	return out
}

// flush is a tensor without its subnormal numbers; itself if it has none.
func flush(t *tensor.Tensor) *tensor.Tensor {
	if !hasSubnormal(t) {
		return t
	}
	out := fresh(t.Format, t.Shape...)
	for i, v := range t.Data {
		if !subnormal(v) {
			out.Data[i] = v
		}
	}
	return out
}

// flushing begins the simulation of a kernel that flushes and has no other errors, where the first subnormal number
// is met; nil before.
func flushing(n *graph.Node, balls, out []ball) *simulation {
	met := false
	for _, v := range n.In {
		met = met || hasSubnormal(balls[v].v)
	}
	for _, b := range out {
		met = met || hasSubnormal(b.v)
	}
	if !met || !computes(n.Op) {
		return nil
	}
	s := &simulation{of: make([]*tensor.Tensor, len(balls)), flushes: true}
	for v, b := range balls {
		s.of[v] = b.v
	}
	return s
}

// lost is the deviation of what n flushes on the way to a sum lose: each up to the least normal number, of either sign.
func lost(n float64) float64 { return math.Sqrt(n) * leastNormal }

// less is a tensor whose numbers are less by that.
func less(t *tensor.Tensor, by float64) *tensor.Tensor {
	if by == 0 {
		return t
	}
	out := fresh(t.Format, t.Shape...)
	for i, v := range t.Data {
		out.Data[i] = v - by
	}
	return out
}

// flushes counts results that show whether units flush: those that they do, and those that they keep.
type flushes struct{ gone, kept int }

// flushes counts them among results that are subnormal and among others. A unit flushes all that it computes, or
// nothing; where an output shows both it is not known whether the zeros in it were ever computed. Units that flush what
// they store alone keep the others.
func (q *Question) flushes(t *trial) (n [2]flushes) {
	if t.flushed == nil {
		return n
	}
	for i, y := range t.stored {
		off := 0.0 // of kernels that keep them
		for _, k := range t.right {
			off = max(off, math.Abs(k[i]-y))
		}
		if !(math.Abs(t.flushed[i]-y) > 2*off+q.Output.Format.Ulp(y)) {
			continue
		}
		of := &n[0]
		if !subnormal(y) {
			of = &n[1]
		}
		switch got := q.Output.Data[i]; {
		case got == t.flushed[i]:
			of.gone++
		case got == y, subnormal(got): // which units that flush do not return
			of.kept++
		}
	}
	return n
}

// keeps reports whether an output has subnormal results, and none that shows a flush.
func (q *Question) keeps(t *trial) bool {
	n := q.flushes(t)
	return n[0].kept > 0 && n[0].gone+n[1].gone == 0
}

// mixed reports whether some results are flushed, and others of the same kind are kept.
func (t *tally) mixed() bool {
	return slices.ContainsFunc(t.units[:], func(n flushes) bool { return n.gone > 0 && n.kept > 0 })
}
