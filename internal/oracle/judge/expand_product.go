package judge

import (
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/winograd"
	"github.com/refrun/refrun/tensor"
)

// operand rounds an operand of a product.
func (b *builder) operand(v int) int {
	to, is := b.form.operand(b.op.Name(), b.index)
	switch {
	case is:
	case b.is(operandsTF32):
		to = operands["tf32"]
		if len(b.built.figures) > 0 {
			to = operands[tf32Ways[int(b.figure(0))]]
		}
	case b.is(operandsBF16):
		to = operands["bfloat16"]
	default:
		return v
	}
	v = b.step("operand", same, v)
	b.round[v] = to
	return v
}

// operands are the ways in which operands of products are rounded, by the name that [Form] has for them.
var operands = map[string]rounding{
	"tf32": {Format: fp16.TF32}, "tf32 ties away": {Format: fp16.TF32, tf32: fp16.NearestAway},
	"tf32 truncated": {Format: fp16.TF32, tf32: fp16.TowardZero},
	"bfloat16":       {Format: fp16.BFloat16},
	flushedOperands:  {Format: fp16.Float16, flushes: true},
}

// flushedOperands are operands of float16 whose subnormal numbers a unit takes for 0, as MI200's do.
const flushedOperands = "float16 without subnormal numbers"

// losesOperands reports whether there are such numbers among what a product reads.
func (q *Question) losesOperands(n *graph.Node) bool {
	if q.Narrow != fp16.Float16 || !q.Written {
		return false
	}
	return slices.ContainsFunc(n.In[:2], func(v int) bool {
		t := q.given(v)
		return t != nil && slices.ContainsFunc(t.Data, func(x float64) bool {
			x = fp16.Float16.Round(x)
			return x != 0 && math.Abs(x) < leastHalf
		})
	})
}

// given are the numbers that a value is a cast of, if they are given.
func (q *Question) given(v int) *tensor.Tensor {
	if k := slices.Index(q.Graph.Inputs, v); k >= 0 {
		return q.Inputs[k]
	}
	for i := range q.Graph.Nodes {
		if n := &q.Graph.Nodes[i]; slices.Contains(n.Out, v) {
			if _, is := n.Op.(graph.Cast); is {
				return q.given(n.In[0])
			}
			return nil
		}
	}
	return q.Graph.Values[v].Const
}

// tf32Ways are the ways in which devices round operands to TF32, or leave them in float32, which a claim of TF32 allows
// and does not demand.
var tf32Ways = []string{"tf32", "tf32 ties away", "tf32 truncated", ""}

// product adds a product of two operands, and what is added to it.
func (b *builder) product(name string, op graph.Op, in ...int) int {
	in = slices.Clone(in)
	first := firstMatrix(op)
	if parts, apart := b.form.divided(b.index); parts > 0 {
		bias := -1
		if len(in) > 2 {
			bias = in[2-2*first]
		}
		return b.inParts(op, in[first], in[first+1], bias, parts, apart)
	}
	x, y, is := b.emulated(op, in[first], in[first+1])
	if !is {
		x, y = b.operand(x), b.operand(y)
	}
	in[first], in[first+1] = x, y
	v := b.summed(name, op, in...)
	b.emulates[v] = is
	return v
}

// summed adds a product of operands as they are.
func (b *builder) summed(name string, op graph.Op, in ...int) int {
	for f, id := range sumsIn {
		if b.form.Accumulate == "" && b.is(id) {
			op = narrowSums{op, f, b.termsAtOnce()}
		}
	}
	return b.step(name, op, in...)
}

// biased adds a product with a bias of each channel.
func (b *builder) biased(op graph.Op, n *graph.Node, in []int) int {
	weight, out := b.types[n.In[1]].Shape, b.types[n.Out[0]].Shape
	taps := b.form.Taps && isTransposed(op)
	tile := winograd.Of(b.form.Winograd)
	if !tiled(op, weight) {
		tile = nil
	}
	if len(in) > 2 && b.is("kernel.bias-missing") {
		in = in[:2]
	}
	apart := taps || tile != nil
	if len(in) < 3 && !apart || !apart && !b.form.BiasAfter {
		return b.product("output", op, in...)
	}
	var y int
	switch {
	case taps:
		y = b.taps(op, in, weight)
	case tile != nil:
		y = b.winograd(tile, op.(graph.Conv), b.operand(in[0]), b.operand(in[1]), b.types[n.In[0]].Shape, out)
	case isLinear(op): // PyTorch's, of three axes or more, where they do not lie in memory in their order
		y = b.mayAlone(true, b.product("product", op, in[:2]...))
	default:
		y = b.may(true, b.product("product", op, in[:2]...))
	}
	if len(in) < 3 {
		return y
	}
	bias := in[2]
	if !isLinear(op) {
		bias = b.channels(bias, out)
	}
	return b.step("output", plus, y, bias)
}

func isLinear(op graph.Op) bool { _, is := op.(graph.Linear); return is }

func isTransposed(op graph.Op) bool { return strings.HasPrefix(op.Name(), "conv_transpose") }

// linear adds a product whose sums are along an axis, with its faults.
func (b *builder) linear(n *graph.Node, in []int) (int, bool) {
	axis := 1 // of the second operand, that is summed
	a, c := b.types[n.In[0]].Shape, []int(nil)
	if len(n.In) > 1 {
		c = b.types[n.In[1]].Shape
	}
	switch n.Op.(type) {
	case graph.MatMul:
		if b.types[n.In[0]].Format == fp16.Int64 { // exact, whatever a unit has
			return b.step("output", n.Op, in...), true
		}
		if len(a) < 2 || len(c) < 2 {
			return 0, false
		}
		axis = len(c) - 2
	case graph.Linear, graph.Conv:
	case graph.AddMM:
		if len(a) < 3 && len(c) < 3 {
			return b.product("output", n.Op, in...), true
		}
		return b.batchAdded(n.Op.(graph.AddMM), in), true
	case graph.ConvTranspose, graph.Convolution:
		return b.biased(n.Op, n, in), true
	default:
		if products[n.Op.Name()] && len(in) > 1 {
			return b.product("output", n.Op, in...), true
		}
		return 0, false
	}
	in = slices.Clone(in)
	if lost := b.lost(c[axis]); lost > 0 {
		in[1] = b.keep(in[1], c, axis, c[axis]-lost)
	}
	if b.is("kernel.last-term-twice") && c[axis] > 1 {
		in[1] = b.step("twice", sub, b.step("double", mul, in[1], b.number(2)), b.keep(in[1], c, axis, c[axis]-1))
	}
	if _, is := n.Op.(graph.MatMul); is && c[len(c)-1] == c[len(c)-2] && b.is("kernel.weight-transposed") {
		in[1] = b.step("transposed", graph.Transpose{A: -2, B: -1}, in[1])
	}
	if _, is := n.Op.(graph.MatMul); is {
		return b.product("output", n.Op, in...), true
	}
	if _, is := n.Op.(graph.Conv); is && c[2]*c[3] > 1 && b.is("kernel.weight-flipped") {
		in[1] = b.step("flipped", graph.Flip{Axes: []int{2, 3}}, in[1])
	}
	return b.biased(n.Op, n, in), true
}

// batchAdded is baddbmm, beta input + alpha product, whose input may be a mask with infinite numbers.
func (b *builder) batchAdded(op graph.AddMM, in []int) int {
	times := func(name string, by float64, v int) int {
		if by == 1 {
			return v
		}
		return b.step(name, mul, v, b.number(by))
	}
	y := times("scaled", op.Alpha, b.may(true, b.product("product", graph.MatMul{}, in[1:]...)))
	if op.Beta == 0 {
		return b.step("output", same, y)
	}
	return b.step("output", plus, y, times("input_scaled", op.Beta, in[0]))
}
