package judge

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// scatters reports whether an operation adds numbers to others at places that an index names.
func scatters(op graph.Op) bool {
	switch o := op.(type) {
	case graph.IndexAdd, graph.ScatterAdd:
		return true
	case graph.IndexPut:
		return o.Accumulate
	case graph.ScatterND:
		return o.Reduce == "sum"
	case graph.ScatterReduce:
		return o.Reduce == "sum"
	case graph.IndexReduce:
		return o.Reduce == "sum"
	}
	return false
}

// without reports whether a sum is without the old number where others come.
func without(op graph.Op) bool {
	switch o := op.(type) {
	case graph.ScatterReduce:
		return !o.Include
	case graph.IndexReduce:
		return !o.Include
	}
	return false
}

// stepwise reports whether kernels may round each addition of an operation to a half format: PyTorch's running sums on
// GPUs, in whatever order, and JAX's too.
func stepwise(op graph.Op) bool { return scatters(op) || op.Name() == "cumsum" }

// added bounds sums whose terms are the numbers of the first and the last input, at places that the inputs between
// say. Devices add them in any order; of half numbers some round each sum to their format, as atomic additions
// do. Sums stand still there where a term is below half a place of them: no more than all terms are lost.
func added(op graph.Op, in []ball, v *tensor.Tensor, acc accumulator) ([]ball, error) {
	last := len(in) - 1
	on := func(of func(b ball) *tensor.Tensor) (*tensor.Tensor, error) {
		given := make([]*tensor.Tensor, len(in))
		for k, b := range in {
			if given[k] = b.v; k == 0 || k == last {
				given[k] = of(b)
			}
		}
		return one(op, given...)
	}
	size, err := on(magnitudes)
	if err != nil {
		return nil, err
	}
	square, err := on(func(b ball) *tensor.Tensor { return squares(b.v) })
	if err != nil {
		return nil, err
	}
	count, err := on(func(b ball) *tensor.Tensor {
		ones := fresh(fp16.Float64, b.v.Shape...)
		for i := range ones.Data {
			ones.Data[i] = 1
		}
		return ones
	})
	if err != nil {
		return nil, err
	}
	out := ball{v: v, r: fresh(fp16.Float64, v.Shape...), sigma: fresh(fp16.Float64, v.Shape...), sum: true}
	grid := min(gridOf(in[0].v), gridOf(in[last].v))
	if in[0].r != nil || in[last].r != nil {
		moved, err := on(ball.radius)
		if err != nil {
			return nil, err
		}
		out.r, grid = moved, 0
	}
	for i, all := range size.Data {
		n := count.Data[i]
		if n <= 1 || all < grid/acc.u { // every partial sum is a number of the accumulator
			continue
		}
		base := in[0].v.Data[i]
		if without(op) {
			base = 0
		}
		off := min(n*acc.u, 1) * all
		if acc.narrow != fp16.Float32 { // each sum but that onto 0 by half a place at most, of no more than all terms
			rounded := n - 1
			if base == 0 {
				rounded--
			}
			off = min(rounded*acc.narrow.Ulp(all*(1+n*acc.u))/2, all)
		}
		out.r.Data[i] += off + acc.least(n)
		out.sigma.Data[i] = addedTo(n-1, base, v.Data[i], square.Data[i]-base*base)
	}
	if acc.narrow != fp16.Float32 {
		out.sigma = nil // the device that adds one after the other has all of its errors
		out.made, err = adder(op, in, acc.narrow)
	}
	return []ball{out}, err
}

// addedTo is the deviation of n float32 sums, one after the other, from a base to an end, of terms whose squares add up
// to q. A rounding has the variance of a twelfth of its place's square, and the sums on the way go straight but for a
// bridge, whose square in the middle is q/4: the mean over the way is Simpson's.
func addedTo(n, base, end, q float64) float64 {
	place := func(s float64) float64 { p := fp16.Float32.Ulp(s); return p * p }
	half := (base + end) / 2
	return math.Sqrt(n / 12 * (place(base) + 4*place(math.Sqrt(half*half+q/4)) + place(end)) / 6)
}

// adder is a device that adds one number after the other, in an order of its own, and rounds each sum.
func adder(op graph.Op, in []ball, f fp16.Format) (
	func(x []*tensor.Tensor, s simulation) (*tensor.Tensor, error), error,
) {
	to, err := places(op, in)
	if err != nil {
		return nil, err
	}
	return func(x []*tensor.Tensor, s simulation) (*tensor.Tensor, error) {
		from, err := seen(op, x[len(x)-1], to.Shape)
		if err != nil {
			return nil, err
		}
		y := fresh(fp16.Float64, x[0].Shape...)
		copy(y.Data, x[0].Data)
		if without(op) {
			for _, at := range to.Data {
				y.Data[int(at)] = 0
			}
		}
		for _, i := range order(len(to.Data), s.m, s.r) {
			at := int(to.Data[i])
			y.Data[at] = f.Round(y.Data[at] + from.Data[i])
		}
		return y, nil
	}, nil
}

// seen is a source as an index of that shape sees it: spread, or the first of it.
func seen(op graph.Op, source *tensor.Tensor, shape []int) (*tensor.Tensor, error) {
	if _, is := op.(graph.IndexPut); is {
		return spreadTo(source, shape)
	}
	part := graph.Slice{}
	for a, n := range shape {
		part.Axes, part.Start, part.End = append(part.Axes, a), append(part.Start, 0), append(part.End, n)
	}
	return one(part, source)
}

// places are where the numbers of the last input go in the first.
func places(op graph.Op, in []ball) (*tensor.Tensor, error) {
	at := tensor.New(fp16.Int64, in[0].v.Shape...)
	for i := range at.Data {
		at.Data[i] = float64(i)
	}
	var take graph.Op
	switch o := op.(type) {
	case graph.IndexAdd:
		take = graph.IndexSelect(o)
	case graph.ScatterAdd:
		take = graph.Gather(o)
	case graph.ScatterReduce:
		take = graph.Gather{Axis: o.Axis, FromEnd: o.FromEnd}
	case graph.IndexReduce:
		take = graph.IndexSelect{Axis: o.Axis, FromEnd: o.FromEnd}
	case graph.ScatterND:
		take = graph.GatherND{}
	case graph.IndexPut:
		take = graph.Index{}
	default:
		return nil, fmt.Errorf("%s: %w", op.Name(), errNotJudged)
	}
	given := []*tensor.Tensor{at}
	for _, b := range in[1 : len(in)-1] {
		given = append(given, b.v)
	}
	return one(take, given...)
}
