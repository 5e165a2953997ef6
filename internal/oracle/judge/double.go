package judge

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Kernels of float64 are those of float32 in another unit: the same sums, the same functions, each step off by the same
// number of units. All bounds here are of float32's unit. What they have of the first order scales with it, and what
// they have of higher orders is less in a smaller one. But exact numbers are made in float64 here, by steps that are as
// far off as a kernel's: that is added.
//
// An operation of float32 numbers alone is computed in float32, as a softmax of x.float() is. Where a graph has such,
// bounds are float32's, and simulated kernels tell how far that reaches.

// singlesOf are the values of a graph that kernels in float64 have in float32, nil if there are none. The type of a
// result is that of its widest operand, of which integers, single numbers and float32 parameters are none.
func (f Form) singlesOf(g *graph.Graph, types []graph.Type) []bool {
	if !f.Double {
		return nil
	}
	singles, some := make([]bool, len(g.Values)), false
	for _, v := range g.Inputs {
		singles[v] = types[v].Format == fp16.Float32
	}
	single := func(v int) bool { return singles[v] }
	double := func(v int) bool {
		c := g.Values[v].Const
		return !singles[v] && types[v].Format != fp16.Int64 && (c == nil || c.Format == fp16.Float64 && len(c.Data) > 1)
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		is := slices.ContainsFunc(n.In, single) && !slices.ContainsFunc(n.In, double)
		if op, cast := n.Op.(graph.Cast); cast {
			is = op.Dtype == fp16.Float32.String() || is && op.Dtype != fp16.Float64.String()
		}
		for _, v := range n.Out {
			singles[v], some = is, some || is
		}
	}
	if !some {
		return nil
	}
	return singles
}

func isSingle(singles []bool, v int) bool { return v < len(singles) && singles[v] }

// steps is the format of a kernel's steps.
func (q *Question) steps() fp16.Format {
	if q.Double {
		return fp16.Float64
	}
	return fp16.Float32
}

// in is a contract in that format.
func (q *Question) in(c Contract) Contract {
	c.Double = q.Double
	return c
}

// fine reports whether an output is stored in the format of the steps, so that its errors are those of the steps.
func (t *trial) fine(f fp16.Format) bool {
	return f == fp16.Float32 && !t.Double || f == fp16.Float64 && t.Double
}

// inexact reports whether right kernels have to round an element, so that one number shows something.
func (t *trial) inexact(i int) bool { return t.y[i] != t.stored[i] || t.Double && t.r[i] > 0 }

// inDouble makes the bound of a result that of a kernel in float64 beside a number that is made in float64.
func (b *ball) inDouble() {
	if b.r != nil {
		for i := range b.r.Data {
			b.r.Data[i] *= 2 * doubleUnit
		}
	}
	if b.sigma != nil {
		for i := range b.sigma.Data {
			b.sigma.Data[i] *= math.Sqrt2 * doubleUnit
		}
	}
}

// inDouble sets dst to what a kernel in float64 makes of a step: src with its errors, less those of src itself.
func inDouble(dst, src []float64, like ball, errs errorsOf) {
	for i, v := range src {
		if dst[i] = v; v == 0 || v-v != 0 {
			continue
		}
		r := errs.sum(i, v)
		off := float64((r.Float64() - r.Float64()) * fp16.Float64.Ulp(v))
		if like.sigma != nil {
			s := doubleUnit * like.sigma.Data[i]
			if like.sum {
				off += float64(s * (wandering(r) - wandering(r)))
			} else {
				off += float64(s * (r.NormFloat64() - r.NormFloat64()))
			}
		}
		dst[i] = v + off
	}
}

// smallest is the distance of subnormal numbers, in the unit of bounds.
func (a accumulator) smallest() float64 {
	if a.double {
		return fp16.Float64.Smallest() / doubleUnit
	}
	return fp16.Float32.Smallest()
}

// narrower are the formats that are narrower than that of the steps.
func (q *Question) narrower() []fp16.Format {
	all := []fp16.Format{fp16.BFloat16, fp16.Float16}
	if q.Double {
		all = append(all, fp16.Float32)
	}
	return all
}

// asSingle is the question whether a kernel in float32 made the output, of inputs and constants that it has rounded.
func (q Question) asSingle() Question {
	rounded := func(t *tensor.Tensor) *tensor.Tensor {
		if t == nil || t.Format != fp16.Float64 {
			return t
		}
		y := tensor.New(fp16.Float32, t.Shape...)
		fp16.Float32.RoundSlice(y.Data, t.Data)
		return y
	}
	g := *q.Graph
	g.Values, g.Kept = slices.Clone(g.Values), new(graph.Kept)
	for v := range g.Values {
		g.Values[v].Const = rounded(g.Values[v].Const)
	}
	q.Graph, q.Inputs = &g, slices.Clone(q.Inputs)
	for k, x := range q.Inputs {
		q.Inputs[k] = rounded(x)
	}
	q.Double, q.Narrow = false, fp16.Float32
	return q
}

// inSingle is the cause of errors beside exact numbers that are those of a kernel in float32, nil if they are not.
func (q *Question) inSingle(exact []float64) (*cause, error) {
	if !q.Double {
		return nil, nil
	}
	s := q.asSingle()
	s.Brief, s.kept = true, new(again)
	t, err := s.search()
	if err != nil || !t.passes() || !asFloat32(q.Output.Data, exact) {
		return nil, err
	}
	f := named(singleSteps)
	return &cause{f.ID, f.Title, f.Advice}, nil
}

// InSingle reports whether the evaluation of kernels in float64 that is wrong first is one in float32.
func (m *Many) InSingle(of *Joint) (bool, error) {
	i := of.Seen
	single := *m
	single.N, single.Memory, single.Progress = 1, nil, nil
	single.At = func(int) (Question, error) {
		q, err := m.At(i)
		return q.asSingle(), err
	}
	j, err := single.Under(of.Contract)
	if err != nil || !j.Passes() {
		return false, err
	}
	q, err := m.At(i)
	return err == nil && asFloat32(q.Output.Data, of.Exact), err
}

// asFloat32 reports whether numbers are about as far from exact ones as float32 has to be: each rounding is off by
// storing, in squares of a place.
func asFloat32(got, exact []float64) bool {
	sum, n := 0.0, 0.0
	for i, y := range exact {
		if d := (got[i] - y) / fp16.Float32.Ulp(y); d-d == 0 {
			sum, n = sum+float64(d*d), n+1
		}
	}
	return sum >= leastNarrow*storing*n && n > 0
}

// IsDouble reports whether tensors say of a kernel that it computes in float64: an output and an input have that
// format, one number beside tensors of another one aside, and not all such numbers are float32's, as where float64 only
// holds them.
func IsDouble(inputs []*tensor.Tensor, outputs ...*tensor.Tensor) bool {
	double := func(t *tensor.Tensor) bool { return t != nil && t.Format == fp16.Float64 }
	single := func(t *tensor.Tensor) bool { return t.Format != fp16.Int64 && t.Format != fp16.Float64 }
	given := slices.ContainsFunc(inputs, func(t *tensor.Tensor) bool { return double(t) && len(t.Data) > 1 }) ||
		slices.ContainsFunc(inputs, double) && !slices.ContainsFunc(inputs, single)
	return given && slices.ContainsFunc(outputs, double) &&
		slices.ContainsFunc(slices.Concat(inputs, outputs), func(t *tensor.Tensor) bool {
			wide := func(v float64) bool { return v == v && !fp16.Float32.Holds(v) }
			return double(t) && slices.ContainsFunc(t.Data, wide)
		})
}
