package judge

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

func (b *builder) softmax(op graph.Softmax, shape []int, x int) int {
	axis := op.Axis
	if b.is("kernel.wrong-dim") {
		axis = otherAxis(shape, axis)
	}
	e, t, s := b.exponentials(x, axis, shape, op.Log)
	if b.form.Composed {
		return b.softmaxOf(op, e, t, s)
	}
	if op.Log {
		return b.step("output", sub, s, b.may(true, b.step("log", unary("log"), t)))
	}
	// PyTorch stores those of the last columns in the output before it divides, on a CPU
	if axis != -1 && axis != len(shape)-1 {
		e = b.may(true, b.step("exp_stored", same, e))
		b.points[len(b.points)-1].some = true
	}
	return b.step("output", div, e, t)
}

// eachOperation are the results of elementary operations, which JAX stores together: a kernel that has only some of
// them in a half type has a fault.
const eachOperation = "each_operation"

// softmaxOf is a softmax of exp, its sum and what exp is of, each of which is stored. XLA may make exp once more for
// the sum, which is then of what was not stored; and in float16 it multiplies by the reciprocal of the sum.
func (b *builder) softmaxOf(op graph.Softmax, e, t, s int) int {
	b.together(eachOperation, s, e, t)
	if op.Log {
		l := b.step("log", unary("log"), t)
		b.together(eachOperation, l)
		b.together("each_but_what_is_summed", s, t, l)
		return b.step("output", sub, s, l)
	}
	again := b.step("exp_again", same, e)
	b.together("each_but_what_is_summed", s, again, t)
	if !b.form.Reciprocal {
		return b.step("output", div, again, t)
	}
	r := b.step("reciprocal", unary("reciprocal"), t)
	b.together(eachOperation, r)
	b.together("each_but_what_is_summed", r)
	return b.step("output", mul, again, r)
}

func otherAxis(shape []int, axis int) int {
	if len(shape) < 2 {
		return axis
	}
	if axis == len(shape)-1 || axis == -1 {
		return len(shape) - 2
	}
	return axis + 1
}

// tail is how many of n terms are in the last tile of 16, which a wrong mask leaves out.
func tail(n int) int {
	if n%16 == 0 {
		return 16
	}
	return n % 16
}

// lost is how many of n terms a fault leaves out at the end of a sum: fewer than all.
func (b *builder) lost(n int) int {
	switch {
	case n > 16 && b.is("kernel.tail-not-summed"):
		return tail(n)
	case n > 1 && b.is("kernel.last-term-dropped"):
		return 1
	}
	return 0
}

// part is what a sum along an axis is of: all, or all but the end; and how much of all that is.
func (b *builder) part(x int, shape []int, axis int) (of int, share float64) {
	if len(shape) == 0 { // a number alone is a row of one, as PyTorch has it
		return x, 1
	}
	if axis < 0 {
		axis += len(shape)
	}
	n, lost := shape[axis], b.lost(shape[axis])
	if n > 1 && b.is("kernel.last-term-twice") {
		return b.step("twice", graph.Cat{Axis: axis}, x, b.step("last", graph.Slice{
			Axes: graph.Ints{axis}, Start: graph.Ints{n - 1}, End: graph.Ints{n},
		}, x)), float64(n+1) / float64(n)
	}
	if lost == 0 {
		return x, 1
	}
	return b.step("part", graph.Slice{Axes: graph.Ints{axis}, End: graph.Ints{n - lost}}, x), float64(n-lost) / float64(n)
}

// exponentials returns exp(x - maximum), their sum along an axis, and x - maximum. JAX keeps the last in the
// input's format, and PyTorch's log_softmax on a CPU the sum and its logarithm.
func (b *builder) exponentials(x, axis int, shape []int, stored bool) (e, t, s int) {
	m := b.step("maximum", over("amax", axis), x)
	s = b.may(true, b.step("shifted", sub, x, m))
	from, forgotten := s, b.is(maximumForgotten)
	if forgotten {
		from = x
	}
	e = b.may(false, b.step("exp", unary("exp"), from))
	of, _ := b.part(e, shape, axis)
	t = b.may(stored, b.step("sum", over("sum", axis), of))
	if forgotten {
		b.overflow(e, t)
	}
	return e, t, s
}

// maximumForgotten is a softmax of x itself, and not of x less its maximum.
const maximumForgotten = "kernel.maximum-not-subtracted"

// overflow puts an exp and a sum of such into float32, which ends at e^89, or into the half type of a kernel that
// computes in it.
func (b *builder) overflow(steps ...int) {
	f := fp16.Float32
	if len(b.built.figures) > 0 {
		f = formatOf(b.figure(0))
	}
	for _, v := range steps {
		b.round[v] = rounding{Format: f}
	}
}

// inHalf is a kernel that computes in the half type that it reads.
func inHalf(q *Question, t *trial) [][]float64 {
	if !q.Narrow.Half() {
		return nil
	}
	return [][]float64{{float64(q.Narrow)}}
}

// crossEntropy is log(sum(exp(x - m))) + m - x[target] of each row, beside the mean of x in place of x[target].
func (b *builder) crossEntropy(op crossEntropy, shape []int, in []int) int {
	_, t, s := b.exponentials(in[0], 1, shape, true)
	l := b.may(true, b.step("log", unary("log"), t))
	at := b.step("column", graph.Reshape{Shape: []int{shape[0], 1}},
		b.step("target_or_0", graph.Unary{Func: clip(0, float64(shape[1]-1))}, in[1]))
	loss := b.step("loss", sub, l, b.step("target_shifted", graph.Gather{Axis: 1}, s, at))
	loss = b.losses(op, "", in[1], b.step("row_losses", graph.Reshape{Shape: []int{shape[0]}}, loss))
	if op.Smoothing == 0 || b.is("kernel.smoothing-missing") {
		return b.step("output", same, loss)
	}
	defer func() { b.inner = b.names()[1:] }() // PyTorch stores all but what is shifted
	of := b.may(true, b.step("log_probabilities_negated", sub, l, s))
	all := b.losses(op, "smoothed_", in[1],
		b.may(true, b.step("smoothed", graph.Reduction{Of: "sum", Axes: []int{1}}, of)))
	scaled := func(name string, v int, by float64) int {
		return b.may(true, b.step(name, graph.Binary{Of: pointwise.Mul, Other: real(by)}, v))
	}
	return b.step("output", plus, scaled("loss_weighted", b.may(true, loss), 1-op.Smoothing),
		scaled("smoothed_weighted", all, op.Smoothing/float64(shape[1])))
}

// losses leaves rows out whose target is ignored, and adds them up or takes their mean.
func (b *builder) losses(op crossEntropy, prefix string, target, rows int) int {
	counted := b.step(prefix+"counted", graph.Binary{Of: pointwise.NotEqual, Other: real(float64(op.Ignore))}, target)
	if !b.is("kernel.ignore-index-missing") {
		rows = b.step(prefix+"losses", graph.Where{}, counted, rows, b.number(0))
	}
	if op.Reduction == "none" {
		return rows
	}
	switch {
	case op.Reduction == "sum" && b.is(meanForSum):
		op.Reduction = "mean"
	case op.Reduction == "mean" && b.is(sumForMean):
		op.Reduction = "sum"
	}
	all := graph.Reduction{Of: "sum", Axes: []int{0}}
	total := b.step(prefix+"total", all, b.may(true, rows))
	if op.Reduction == "sum" {
		return total
	}
	if b.is("kernel.ignored-targets-counted") {
		return b.step(prefix+"mean", graph.Reduction{Of: "mean", Axes: []int{0}}, rows)
	}
	return b.step(prefix+"mean", div, total, b.step(prefix+"count", all, counted))
}

// logSumExp is log(sum(e^(x - m))) + m, where m is the maximum, or 0 if that is infinite: PyTorch and JAX then return
// an infinite number, and not the NaN of infinity less infinity.
func (b *builder) logSumExp(op graph.Reduction, x int) int {
	most := func(name string, keep bool) int {
		m := b.step(name, graph.Reduction{Of: "amax", Axes: op.Axes, Keep: keep}, x)
		return b.step(name+"_finite", graph.Where{}, b.step(name+"_is_infinite", unary("isinf"), m), b.number(0), m)
	}
	exp := unary("exp")
	if b.form.CoarseExp { // of an attention whose lse it is
		exp = coarseExp{b.form.Lanes}
	}
	m := most("maximum", true)
	e := b.may(true, b.step("exp", exp, b.may(true, b.step("shifted", sub, x, m)))) // PyTorch stores all of these
	l := b.may(true, b.step("log", unary("log"),
		b.may(true, b.step("sum", graph.Reduction{Of: "sum", Axes: op.Axes, Keep: op.Keep}, e))))
	if !op.Keep {
		m = most("maximum_again", false)
	}
	return b.step("output", plus, l, m)
}
