package judge

import (
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/tensor"
)

// Faults of any kernel, and of steps that several operations have.
const (
	meanForSum     = "kernel.mean-for-sum"
	sumForMean     = "kernel.sum-for-mean"
	rootForgotten  = "kernel.root-forgotten"
	otherCorner    = "kernel.mask-other-corner"
	wideWindow     = "kernel.window-one-too-wide"
	otherEps       = "kernel.eps-other"
	paddingCounted = "kernel.padding-counted"
	termMissing    = "kernel.term-missing"
	inputRounded   = "kernel.input-rounded"
	inputReturned  = "kernel.input-returned"
	storeTruncated = "kernel.store-truncated"
	operandsTF32   = "kernel.operands-in:tf32"
	operandsBF16   = "kernel.operands-in:bfloat16"
	fewBits        = "kernel.root-of-few-bits"
	allNaN         = "kernel.all-nan"
	oneNumber      = "kernel.one-number"
	timesConstant  = "kernel.times"
	partZeros      = "kernel.part-zeros"
	resultsMoved   = "kernel.results-moved"
	roundedStep    = table.StepRounded + ":" // and the name of the step
	allZero        = "kernel.zeros"
	singleSteps    = "kernel.steps-in:float32"
)

// sumsIn are the faults that sums are kept in a format.
var sumsIn = map[fp16.Format]string{fp16.BFloat16: "kernel.sums-in:bfloat16", fp16.Float16: "kernel.sums-in:float16"}

// narrowsOperands reports whether a fault is that operands are rounded: half operands are that already.
func narrowsOperands(id string) bool { return id == operandsTF32 || id == operandsBF16 }

// figure is a figure of the fault that is built in.
func (b *builder) figure(k int) float64 { return b.built.figures[k] }

func formatOf(figure float64) fp16.Format { return fp16.Format(int(figure)) }

// narrowInput rounds an input.
func (b *builder) narrowInput(k, v int, of graph.Type) int {
	if of.Format == fp16.Int64 || b.built.id != inputRounded || b.built.at != "" || int(b.figure(0)) != k {
		return v
	}
	b.broken = true
	v = b.step("rounded_input", same, v)
	b.round[v] = rounding{Format: formatOf(b.figure(1))}
	return v
}

// narrowStep rounds a step that no contract rounds.
func (b *builder) narrowStep() {
	name, is := strings.CutPrefix(b.built.id, roundedStep)
	for _, p := range b.points {
		if is && p.name == name {
			b.round[p.value], b.broken = rounding{Format: formatOf(b.figure(0))}, true
		}
	}
}

// spoiled is the output with a fault of the output as a whole.
func (b *builder) spoiled(v int, shape []int) int {
	everywhere := func(x float64) int {
		t := tensor.New(fp16.Float64, shape...)
		for i := range t.Data {
			t.Data[i] = x
		}
		return b.step("constant", same, b.Constant("", t))
	}
	b.node = ""
	switch {
	case b.is(allZero):
		return everywhere(0)
	case b.is(allNaN):
		return everywhere(math.NaN())
	case b.is(oneNumber):
		return everywhere(b.figure(0))
	case b.is(timesConstant):
		return b.times(v, b.figure(0))
	case b.is(inputReturned):
		return b.step("input", same, b.Inputs[int(b.figure(0))])
	case b.is(partZeros):
		mask := tensor.Of(fp16.Int64, b.built.figures, shape...)
		return b.step("partly", graph.Where{}, b.Constant("", mask), v, b.number(0))
	case b.is(resultsMoved):
		axis, from := int(b.figure(0)), b.built.figures[1:]
		return b.step("moved", graph.IndexSelect{Axis: axis}, v, b.Constant("", tensor.Of(fp16.Int64, from, len(from))))
	case b.is(storeTruncated):
		b.truncates = true
	}
	return v
}

// times is a step's result times a number; the step itself of 1.
func (b *builder) times(v int, by float64) int {
	if by == 1 {
		return v
	}
	return b.step("kernel.times", graph.Binary{Of: pointwise.Mul, Other: &by}, v)
}

// squareRoot is a root, if it is not forgotten.
func (b *builder) squareRoot(name string, v int) int {
	if b.is(rootForgotten) {
		return b.step(name, same, v)
	}
	return b.step(name, unary("sqrt"), v)
}

// reduced is a sum or a mean.
func (b *builder) reduced(op graph.Reduction, shape []int, x int) int {
	switch {
	case op.Of == "sum" && b.in[0].Format != fp16.Int64 && b.is(meanForSum):
		op.Of = "mean"
	case op.Of == "mean" && b.is(sumForMean):
		op.Of = "sum"
	}
	share := 1.0
	if len(op.Axes) == 1 {
		x, share = b.part(x, shape, op.Axes[0])
	}
	y := b.step("output", op, x)
	if op.Of == "mean" {
		y = b.times(y, share)
	}
	return y
}

// withoutTerm is a sum of a chain without one of its terms.
func (b *builder) withoutTerm(op graph.Binary, n *graph.Node, in []int) (int, bool) {
	if b.prefix == "" || op.Of != pointwise.Add && op.Of != pointwise.Sub || b.built.id != termMissing {
		return 0, false
	}
	lost := int(b.figure(0)) // of a sum's terms; those with a number in the graph have one that can be lost
	kept := 0
	switch {
	case len(in) == 1 && lost == 1 && op.Other != nil:
	case len(in) == 2 && (lost == 1 || op.Of == pointwise.Add):
		kept = 1 - lost
	default:
		return 0, false
	}
	if !slices.Equal(b.types[n.In[kept]].Shape, b.types[n.Out[0]].Shape) || !b.is(termMissing) {
		return 0, false
	}
	return b.step("output", same, in[kept]), true
}

// queries is how many queries an attention has, by their shape.
func queries(shape []int) int { return shape[len(shape)-2] }

// otherMask is a mask that was given, aligned to the other corner or with a window that is one too wide. Of
// L queries and S keys more is S - L.
func (b *builder) otherMask(mask int, of graph.Type, more int) int {
	hidden := 0.0
	if of.Format != fp16.Int64 {
		hidden = math.Inf(-1)
	}
	// shifted is what the mask says of the key that many places on.
	shifted := func(by int, beyond float64) int {
		n := of.Shape[len(of.Shape)-1]
		if by > 0 {
			rest := b.step("mask_part", graph.Slice{Axes: graph.Ints{-1}, Start: graph.Ints{by}, End: graph.Ints{n}}, mask)
			return b.step("mask_shifted", padLast(len(of.Shape), 0, by, beyond), rest)
		}
		rest := b.step("mask_part", graph.Slice{Axes: graph.Ints{-1}, Start: graph.Ints{0}, End: graph.Ints{n + by}}, mask)
		return b.step("mask_shifted", padLast(len(of.Shape), -by, 0, beyond), rest)
	}
	keys := of.Shape[len(of.Shape)-1]
	switch {
	case keys > max(more, -more) && more != 0 && b.is(otherCorner):
		if by := int(b.figure(0)) * more; by > 0 {
			return shifted(by, hidden)
		} else {
			return shifted(by, hidden+1) // keys from the first on are seen
		}
	case keys > 1 && b.is(wideWindow):
		wide := mask
		if ends := int(b.figure(0)); ends != 1 {
			wide = b.step("wider", graph.Binary{Of: pointwise.Maximum}, wide, shifted(1, hidden))
		}
		if ends := int(b.figure(0)); ends != 0 {
			wide = b.step("wider", graph.Binary{Of: pointwise.Maximum}, wide, shifted(-1, hidden))
		}
		return wide
	}
	return mask
}

// padLast pads the last axis.
func padLast(rank, before, after int, with float64) graph.Op {
	p := graph.Pad{Before: make(graph.Ints, rank), After: make(graph.Ints, rank), Mode: "constant", Value: with}
	p.Before[rank-1], p.After[rank-1] = before, after
	return p
}

// maxPool is a pool whose windows may be one too wide.
func (b *builder) maxPool(op graph.MaxPool, outs, x int) []int {
	if outs > 1 {
		return b.AddNode(op, b.prefix+"output", outs, x)
	}
	if !op.Ceil && len(op.Dilation) == 0 && b.is(wideWindow) {
		op.Kernel, op.Stride, op.Padding = wider(op.Name(), op.Kernel, op.Stride, op.Padding)
	}
	return []int{b.step("output", op, x)}
}

func (b *builder) averagePool(op graph.AvgPool, x int) int {
	if !op.Ceil && len(op.Dilation) == 0 && b.is(wideWindow) {
		op.Kernel, op.Stride, op.Padding = wider(op.Name(), op.Kernel, op.Stride, op.Padding)
	}
	return b.step("output", op, x)
}

// wider are the attributes of a pool of that name, such as avg_pool2d, with windows that reach one further.
func wider(name string, kernel, stride, padding graph.Ints) (k, s, p graph.Ints) {
	axes := int(name[len(name)-2] - '0')
	spread := func(v graph.Ints) graph.Ints {
		if len(v) == 1 {
			return slices.Repeat(v, axes)
		}
		return slices.Clone(v)
	}
	k = spread(kernel)
	if s = spread(stride); len(s) == 0 {
		s = spread(kernel)
	}
	if p = spread(padding); len(p) == 0 {
		p = make(graph.Ints, axes)
	}
	if len(p) == axes {
		p = slices.Repeat(p, 2)
	}
	for a := range axes {
		k[a]++
		p[axes+a]++
	}
	return k, s, p
}

// countsOf is what a norm's sums are divided by, and how many zeros beyond the end are among them.
type countsOf struct{ of, lanes float64 }

// padded are the counts of a norm of n numbers.
func (b *builder) padded(n int) countsOf {
	if !b.is(paddingCounted) {
		return countsOf{of: float64(n)}
	}
	lanes := b.figure(0) - float64(n)
	if b.figure(1) == 1 { // counted in the variance alone
		return countsOf{float64(n), lanes}
	}
	return countsOf{b.figure(0), lanes}
}

// truncate rounds toward 0.
func truncate(f fp16.Format, dst, src []float64) {
	for i, v := range src {
		r := f.Round(v)
		if math.Abs(r) > math.Abs(v) {
			if v > 0 {
				r = f.NextDown(r)
			} else {
				r = f.NextUp(r)
			}
		}
		dst[i] = r
	}
}
