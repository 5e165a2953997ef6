package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// bounder bounds an operation whose results are out.
type bounder func(op graph.Op, in []ball, out []*tensor.Tensor) ([]ball, error)

// others are the operations of whole networks whose bounds are of a kind of their own.
var others = map[string]bounder{
	"fft_fft": transform, "fft_ifft": transform, "fft_rfft": transform, "fft_irfft": transform,
	"complex_mul": complexProduct,
	"scatter_nd":  scatter, "index_put": scatter, "scatter_reduce": scatter, "index_reduce": scatter, "cast": cast,
	"max": ordered, "min": ordered, "topk": ordered, "sort": ordered, "grid_sampler": sampled,
}

// otherSteps adds the steps of operations that consist of several, or nothing.
func (b *builder) otherSteps(n *graph.Node, in []int) ([]int, bool) {
	shape := b.types[n.In[0]].Shape
	switch op := n.Op.(type) {
	case graph.Binary:
		if x := b.besideSmall(op, in); x >= 0 && b.is("kernel.small-term-missing") {
			return []int{b.step("output", same, in[x])}, true
		}
		if n := factors(op, in, b.Values); n != 0 && b.form.Powers != "" {
			return []int{b.power(n, in[0])}, true
		}
		if x := b.quotient(op, n, in); x >= 0 {
			return []int{x}, true
		}
		if x, is := b.withoutTerm(op, n, in); is {
			return []int{x}, true
		}
		if op.Alpha == nil || b.types[n.Out[0]].Format == fp16.Int64 {
			return nil, false
		}
		by := graph.Binary{Of: pointwise.Mul, Other: op.Alpha}
		op.Alpha = nil
		if op.Other != nil {
			of := *op.Other * *by.Other
			op.Other = &of
		} else {
			in = slices.Clone(in)
			in[len(in)-1] = b.may(true, b.step("scaled", by, in[len(in)-1])) // PyTorch rounds the last numbers', on a CPU
			b.points[len(b.points)-1].some = true
		}
		return []int{b.step("output", op, in...)}, true
	case graph.QuantizeLinear:
		v, is := b.quantize(op, in)
		return []int{v}, is
	case graph.DequantizeLinear:
		return []int{b.dequantize(op, in)}, true
	case graph.DynamicQuantizeLinear:
		return b.quantizeDynamic(in[0]), true
	case graph.VectorNorm:
		return b.vectorNorm(op, in[0])
	case graph.Var:
		return []int{b.variance(op, shape, in[0])}, true
	case graph.ScatterReduce:
		if op.Reduce != "mean" {
			return nil, false
		}
		op.Reduce = "sum"
		return []int{b.scatteredMean(op, in)}, true
	case graph.IndexReduce:
		if op.Reduce != "mean" {
			return nil, false
		}
		of := graph.IndexReduce{Axis: op.Axis, Reduce: "sum", Include: op.Include, FromEnd: op.FromEnd}
		return []int{b.scatteredMean(of, in)}, true
	case graph.GLU:
		half := b.AddNode(graph.Chunk{Chunks: 2, Axis: op.Axis}, b.prefix+"halves", 2, in[0])
		of, x := unary("sigmoid"), half[1]
		if b.form.Composed {
			of, x = unary("reciprocal"), b.logistic(x)
		}
		return []int{b.step("output", mul, half[0], b.may(true, b.step("gate", of, x)))}, true
	}
	return nil, false
}

// vectorNorm is the root of the sum of squares, the sum of sizes, or the greatest or least size.
func (b *builder) vectorNorm(op graph.VectorNorm, x int) ([]int, bool) {
	over := func(of string, x int) int {
		return b.step(of, graph.Reduction{Of: of, Axes: op.Axes, Keep: op.Keep}, x)
	}
	size := func() int { return b.step("size", unary("abs"), x) }
	if b.form.ByGreater && ofTwoNumbers(op, b.in[0].Shape) {
		greater, less := over("amax", size()), over("amin", size())
		finite := b.step("finite", graph.Binary{Of: pointwise.LessEqual, Other: real(math.MaxFloat64)}, greater)
		some := b.step("some", graph.Binary{Of: pointwise.Greater, Other: real(0)}, greater)
		divides := b.step("divides", mul, finite, some)
		by := b.step("divisor", graph.Where{}, divides, greater, b.number(1))
		square := b.may(true, b.step("square", unary("square"), b.may(true, b.step("quotient", div, less, by))))
		root := b.may(true, b.step("root", unary("sqrt"), b.may(true, b.step("one_more", plus, square, b.number(1)))))
		return []int{b.step("output", mul, greater, root)}, true
	}
	switch float64(op.Order) {
	case 2:
		square := b.step("square", unary("square"), x)
		if b.form.Composed { // of bfloat16 alone: squares of float16 overflow
			sum := b.may(true, over("sum", b.may(true, square)))
			return []int{b.squareRoot("output", sum)}, true
		}
		return []int{b.squareRoot("output", over("sum", square))}, true
	case 1:
		return []int{over("sum", size())}, true
	case math.Inf(1):
		return []int{over("amax", size())}, true
	case math.Inf(-1):
		return []int{over("amin", size())}, true
	}
	return nil, false
}

// ofTwoNumbers reports whether a norm is the length of pairs, as hypot is.
func ofTwoNumbers(op graph.VectorNorm, shape []int) bool {
	return op.Order == 2 && len(op.Axes) == 1 && shape[(op.Axes[0]+len(shape))%len(shape)] == 2
}

// besideSmall returns which input of a sum a small constant is added to, -1 of others.
func (b *builder) besideSmall(op graph.Binary, in []int) int {
	small := func(v float64) bool { return v != 0 && math.Abs(v) <= mostSmall }
	if op.Of != pointwise.Add {
		return -1
	}
	if op.Other != nil && small(*op.Other) || op.Self != nil && small(*op.Self) {
		return 0
	}
	for k, v := range in {
		if c := b.Values[v].Const; len(in) == 2 && c != nil && len(c.Data) == 1 && small(c.Data[0]) {
			return 1 - k
		}
	}
	return -1
}

// variance is the sum of (x - mean)^2 over n - correction, or its root.
func (b *builder) variance(op graph.Var, shape []int, x int) int {
	axes, n := []int(op.Axes), 1
	if len(axes) == 0 {
		axes = lastAxes(shape, len(shape))
	}
	for _, a := range axes {
		if len(shape) > 0 { // a number alone has one number along any axis
			n *= shape[(a+len(shape))%len(shape)]
		}
	}
	correction := 1
	if op.Correction != nil {
		correction = *op.Correction
	}
	switch {
	case correction == 1 && b.is("kernel.variance-n"):
		correction = 0
	case correction == 0 && b.is("kernel.variance-n-minus-1"):
		correction = 1
	}
	centered := b.step("centered", sub, x, b.step("mean", over("mean", axes...), x))
	s := b.step("sum", graph.Reduction{Of: "sum", Axes: axes, Keep: op.Keep}, b.step("square", unary("square"), centered))
	s = b.step("variance", mul, s, b.number(1/float64(max(n-correction, 0))))
	if op.Root {
		if b.form.Composed {
			b.together(eachOperation, s)
		}
		s = b.squareRoot("output", s)
	}
	return s
}

// scatteredMean is a sum at places that an index names, over how many numbers came there; what none came to stays.
func (b *builder) scatteredMean(sum graph.Op, in []int) int {
	ones := func(k int) int {
		t := tensor.New(fp16.Float64, b.in[k].Shape...)
		for i := range t.Data {
			t.Data[i] = 1
		}
		return b.Constant("", t)
	}
	count := b.step("count", sum, ones(0), in[1], ones(2))
	return b.step("output", div, b.may(true, b.step("sum", sum, in...)), count)
}

// cast bounds a cast to whole ones, which cuts off what is behind the point: it never falls, so that the ends of an
// interval say which numbers are right, as those of trunc do. Beyond what the type has devices differ. Truth values
// are not followed.
func cast(op graph.Op, in []ball, out []*tensor.Tensor) ([]ball, error) {
	x, y := in[0], ball{v: out[0], exact: true}
	if x.r == nil || !slices.ContainsFunc(x.r.Data, func(r float64) bool { return r > 0 }) {
		return []ball{y}, nil
	}
	if op.(graph.Cast).Dtype == "bool" {
		return nil, fmt.Errorf("%s of numbers that are not exact to truth values: %w", op.Name(), errNotJudged)
	}
	var ends [2]*tensor.Tensor
	for k, way := range []float64{-1, 1} {
		end := moved(x, way)
		defer release(end)
		var err error
		if ends[k], err = one(op, end); err != nil {
			return nil, err
		}
	}
	y.r = fresh(fp16.Float64, y.v.Shape...)
	for i, r := range x.r.Data {
		lo, hi := math.Trunc(x.v.Data[i]-r), math.Trunc(x.v.Data[i]+r)
		switch {
		case r == 0:
		case ends[0].Data[i] != lo || ends[1].Data[i] != hi:
			y.r.Data[i] = math.Inf(1)
		default:
			y.r.Data[i] = max(hi-y.v.Data[i], y.v.Data[i]-lo)
		}
	}
	return []ball{y}, nil
}

// ordered bounds the greatest and least numbers along an axis, and those in order. None of these functions falls where
// an input grows: the ends of their intervals are what the inputs' ends make.
func ordered(op graph.Op, in []ball, out []*tensor.Tensor) ([]ball, error) {
	y := ball{v: out[0], exact: true}
	if in[0].r == nil {
		return withPlaces(y, out), nil
	}
	var ends [2]*tensor.Tensor
	for k, way := range []float64{-1, 1} {
		end := moved(in[0], way)
		defer release(end)
		of, err := apply(op, end)
		if err != nil {
			return nil, err
		}
		ends[k] = of[0]
	}
	y.r = fresh(fp16.Float64, y.v.Shape...)
	for i, v := range y.v.Data {
		if y.r.Data[i] = max(ends[1].Data[i]-v, v-ends[0].Data[i]); v-v != 0 {
			y.r.Data[i] = 0
		} else if y.r.Data[i] != y.r.Data[i] {
			y.r.Data[i] = math.Inf(1)
		}
	}
	return withPlaces(y, out), nil
}

// withPlaces are the numbers and, as further outputs, their places.
func withPlaces(y ball, out []*tensor.Tensor) []ball {
	all := []ball{y}
	for _, places := range out[1:] {
		all = append(all, ball{v: places, exact: true})
	}
	return all
}

// scatter bounds what puts numbers into others, and does not add them.
func scatter(op graph.Op, in []ball, out []*tensor.Tensor) ([]ball, error) {
	return spread(op, in, out, false)
}

// complexProduct bounds products of complex numbers: (ac - bd) + (ad + bc) i, where each product and each sum
// is rounded, in whatever order, and a difference or sum of two products moves as its factors do.
func complexProduct(op graph.Op, in []ball, out []*tensor.Tensor) ([]ball, error) {
	v := out[0]
	var of, radii [2][]float64
	for k, b := range in {
		full, err := spreadTo(b.v, v.Shape)
		if err != nil {
			return nil, err
		}
		of[k], radii[k] = full.Data, make([]float64, len(v.Data))
		if b.r != nil {
			if full, err = spreadTo(b.r, v.Shape); err != nil {
				return nil, err
			}
			radii[k] = full.Data
		}
	}
	r, sigma := tensor.New(fp16.Float64, v.Shape...), tensor.New(fp16.Float64, v.Shape...)
	for i := 0; i < len(v.Data); i += 2 {
		a, b := of[0][i:i+2], of[1][i:i+2]
		ra, rb := radii[0][i:i+2], radii[1][i:i+2]
		for k := range 2 {
			size, moves := 0.0, 0.0
			for j := range 2 {
				m := j ^ k // the factor beside a[j]: b[j] in the real part, b[1-j] in the other
				size += times(a[j], b[m])
				moves += times(a[j], rb[m]) + times(b[m], ra[j]) + times(ra[j], rb[m])
			}
			r.Data[i+k] = moves + float64(3*u*(size+moves)) + 0x1p-126
			sigma.Data[i+k] = float64(u / 2 * size)
		}
	}
	return []ball{{v: v, r: r, sigma: sigma}}, nil
}

// transform bounds discrete Fourier transforms. A device's result has an error by the norm of all that is
// transformed together, and not of the element: of n numbers x a fast transform in float32 is off by
// log2(n) eta |x|, where eta is 4u sqrt(2) and twice u for the roots of unity (Higham, Accuracy and Stability,
// 2nd edition, theorem 24.2: of the whole result, which is sqrt(n) |x|, and so of each number). A length
// that is no power of 2 is three transforms of up to four times as many (Bluestein). A plain sum is off by
// (n+2) u sum |x|, of which the roots may be u off, and sum |x| is at most sqrt(n) |x|.
func transform(op graph.Op, in []ball, out []*tensor.Tensor) ([]ball, error) {
	o := op.(graph.FFT)
	x, v := in[0], out[0]
	l := linesOf(o, x.v.Shape, v.Shape)
	norm, moves := make([]float64, l.groups), make([]float64, l.groups)
	double := 1.0 // half a spectrum stands for the other half
	if o.Kind == "irfft" {
		double = 2
	}
	for i, value := range x.v.Data {
		g := l.in(i)
		norm[g] += double * float64(value*value)
		if x.r != nil {
			norm[g] += double * float64(x.r.Data[i]*x.r.Data[i])
			moves[g] += double * x.r.Data[i]
		}
	}
	n := float64(l.n)
	depth := 3*(elem.Log(n)/math.Ln2+3) + 1
	fast := math.Sqrt(n) * depth * 7.7 * u
	plain := (n + 3) * math.Sqrt(n) * u
	r, sigma := tensor.New(fp16.Float64, v.Shape...), tensor.New(fp16.Float64, v.Shape...)
	for i, y := range v.Data {
		g := l.out(i)
		size := math.Sqrt(norm[g])
		r.Data[i] = l.scale*float64(max(fast, plain)*size) + l.scale*moves[g] + 2*u*math.Abs(y) + 0x1p-126
		sigma.Data[i] = l.scale*float64(u*size*math.Sqrt(elem.Log(n)/math.Ln2+1)) + float64(u/2*math.Abs(y))
	}
	return []ball{{v: v, r: r, sigma: sigma}}, nil
}

// lines are what a transform takes together.
type lines struct {
	n, groups int
	scale     float64
	in, out   func(i int) int // the group of a number of the input, and of the output
}

func linesOf(o graph.FFT, in, out []int) lines {
	complexIn, complexOut := o.Kind != "rfft", o.Kind != "irfft"
	rank := len(in)
	if complexIn {
		rank--
	}
	axes := []int(o.Axes)
	if len(axes) == 0 {
		axes = []int{-1}
	}
	over := make([]bool, rank)
	for _, a := range axes {
		over[(a+rank)%rank] = true
	}
	l := lines{n: 1, groups: 1}
	for a := range rank {
		if over[a] {
			l.n *= max(in[a], out[a])
		} else {
			l.groups *= in[a]
		}
	}
	inverse := o.Kind == "ifft" || o.Kind == "irfft"
	switch {
	case o.Norm == "ortho":
		l.scale = 1 / math.Sqrt(float64(l.n))
	case inverse == (o.Norm == "forward"):
		l.scale = 1
	default:
		l.scale = 1 / float64(l.n)
	}
	group := func(shape []int, pairs bool) func(int) int {
		return func(i int) int {
			if pairs {
				i /= shape[len(shape)-1]
			}
			g, step := 0, 1
			for a := rank - 1; a >= 0; a-- {
				if at := i % shape[a]; !over[a] {
					g += at * step
					step *= shape[a]
				}
				i /= shape[a]
			}
			return g
		}
	}
	l.in, l.out = group(in, complexIn), group(out, complexOut)
	return l
}

// Knows reports whether it is known what right kernels return of an operation. Of some it is known for
// exact inputs only, such as a remainder; these count as known.
func Knows(op graph.Op) bool {
	switch op := op.(type) {
	case graph.Softmax, graph.LayerNorm, graph.RMSNorm, graph.GroupNorm, graph.InstanceNorm, graph.BatchNorm,
		graph.Attention,
		graph.Var, graph.GLU, graph.Binary, graph.InverseStd, graph.Running, graph.LpNormalize, crossEntropy, rotary,
		cumprod, argsort, graph.LpPool, graph.MeanVariance, graph.QuantizeLinear, graph.DequantizeLinear,
		graph.DynamicQuantizeLinear:
		return true
	case graph.VectorNorm:
		return op.Order != 0
	case graph.Unary, graph.Act:
		_, ok := kernels[nameOf(op)]
		return ok
	}
	name := op.Name()
	return name == "logsumexp" || name == "log_sum" || name == "sum_squares" || name == "prod" || moves[name] ||
		sums[name] || products[name] || greatest[name] || others[name] != nil
}
