package judge

import (
	"errors"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// composed is an activation in the elementary operations that JAX makes it of, and files that have no node for it: XLA
// stores the result of each in the half type. It is -1 where an activation is one operation everywhere.
func (b *builder) composed(op graph.Op, x int) int {
	if !b.form.Composed || !composes(op) {
		return -1
	}
	may := func(name string, op graph.Op, in ...int) int { return b.may(true, b.step(name, op, in...)) }
	scalar := func(v float64) int {
		if f, is := b.form.narrow(op); is {
			return b.number(f.Round(v))
		}
		return b.Constant("", tensor.Of(fp16.Float64, []float64{v})) // of no axes: in float32, or in float64
	}
	switch nameOf(op) {
	case "sigmoid":
		return b.step("output", unary("reciprocal"), b.logistic(x))
	case "silu":
		return b.step("output", mul, x, may("sigmoid", unary("reciprocal"), b.logistic(x)))
	case "gelu":
		e := may("erfc", erfc{}, may("argument", mul, x, scalar(-math.Sqrt2/2)))
		return b.step("output", mul, b.step("half", mul, x, b.number(.5)), e)
	case "gelu_tanh":
		cube := may("cube", mul, may("square", mul, x, x), x)
		sum := may("inner", plus, x, may("cubic", mul, cube, scalar(0.044715)))
		t := may("tanh", graph.Act{Func: act.Tanh}, may("argument", mul, sum, scalar(math.Sqrt(2/math.Pi))))
		return b.step("output", mul, x, b.step("half", mul, may("one_more", plus, t, b.number(1)), b.number(.5)))
	case "softplus":
		return b.softplus("output", x)
	case "mish":
		return b.step("output", mul, x, may("tanh", graph.Act{Func: act.Tanh}, b.may(true, b.softplus("softplus", x))))
	case "selu":
		const alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
		below := may("below", mul, b.expm1(b.step("least", unaryMin0(), x)), scalar(alpha))
		return b.step("output", mul, b.step("both", plus, b.step("above", unaryMax0(), x), below), scalar(scale))
	case "expm1":
		return b.expm1(x)
	case "elu", "celu":
		alpha := op.(graph.Unary).Func.Params()["alpha"]
		n := b.step("least", unaryMin0(), x)
		if nameOf(op) == "celu" && alpha != 1 {
			by, of := graph.Op(div), alpha
			if f, is := b.form.narrow(op); is && b.form.Reciprocal {
				by, of = mul, f.Round(1/alpha)
			}
			n = may("argument", by, n, b.number(of))
		}
		below := b.expm1(n)
		if alpha != 1 {
			below = may("below", mul, below, b.number(alpha))
		}
		return b.step("output", plus, b.step("above", unaryMax0(), x), below)
	case "exp2":
		return b.step("output", unary("exp"), may("argument", mul, x, scalar(math.Ln2)))
	case "log2":
		e := may("log", unary("log"), x)
		if f, is := b.form.narrow(op); is && b.form.Reciprocal {
			return b.step("output", mul, e, b.number(f.Round(1/f.Round(math.Ln2))))
		}
		return b.step("output", div, e, scalar(math.Ln2))
	case "log10":
		return b.step("output", mul, may("log", unary("log"), x), scalar(1/math.Ln10))
	case "asin": // as 2 atan2(x, 1 + sqrt((1-x)(1+x)))
		less := may("one_less", plus, b.step("negated", unary("neg"), x), b.number(1))
		square := may("product", mul, less, may("one_more", plus, x, b.number(1)))
		denominator := may("denominator", plus, may("root", unary("sqrt"), square), b.number(1))
		// which is in float32 before it is stored: in exact arithmetic half an angle is not quite half of x
		angle := b.step("angle_float32", graph.Binary{Of: pointwise.Atan2}, x, denominator)
		b.round[angle] = rounding{Format: fp16.Float32}
		return b.step("output", mul, may("angle", same, angle), b.number(2))
	case "acos":
		square := may("product", mul, may("one_less", plus, b.step("negated", unary("neg"), x), b.number(1)),
			may("one_more", plus, x, b.number(1)))
		return b.step("output", graph.Binary{Of: pointwise.Atan2}, may("root", unary("sqrt"), square), x)
	case "asinh": // with the sign of x, log(1 + |x| + x^2/(1 + sqrt(x^2 + 1)))
		size := b.step("size", unary("abs"), x)
		square := may("square", mul, size, size)
		root := may("root", unary("sqrt"), may("one_more", plus, square, b.number(1)))
		more := may("inner", plus, size, may("quotient", div, square, may("denominator", plus, root, b.number(1))))
		y := b.orLog(op, size, math.Sqrt(b.largest(op)), may("log1p", unary("log1p"), more))
		return b.step("output", mul, b.step("sign", unary("sign"), x), y)
	case "acosh": // as log(1 + s (s + sqrt(x+1))), s the root of x-1
		s := may("root", unary("sqrt"), may("one_less", plus, x, b.number(-1)))
		sum := may("sum", plus, may("other_root", unary("sqrt"), may("one_more", plus, x, b.number(1))), s)
		y := may("log1p", unary("log1p"), may("product", mul, s, sum))
		return b.step("output", same, b.orLog(op, x, b.largest(op)/2, y))
	case "hardsigmoid":
		return b.step("output", mul, b.sixth(x), scalar(1./6))
	case "hardswish":
		return b.step("output", mul, x, may("hardsigmoid", mul, b.sixth(x), scalar(1./6)))
	}
	return -1
}

// sharing are activations that are the input times a share of it.
var sharing = map[string]bool{"silu": true, "gelu": true, "gelu_tanh": true, "mish": true, "hardswish": true}

// composes reports whether [builder.composed] has an activation.
func composes(op graph.Op) bool {
	switch nameOf(op) {
	case "sigmoid", "silu", "gelu", "gelu_tanh", "mish", "hardsigmoid", "hardswish", "exp2", "log2", "log10", "asin",
		"acos", "asinh", "acosh":
		return true
	case "softplus": // one without a threshold, too, as in a log_sigmoid: beyond 20 it is a float32 place from x at most
		usual, err := pointwise.Parse("softplus", nil)
		of, is := op.(graph.Unary)
		if err != nil || !is {
			return false
		}
		given, known := of.Func.Params(), usual.Params()
		return given["beta"] == known["beta"] && given["threshold"] >= known["threshold"]
	}
	return hasExpm1(op)
}

// hasExpm1 reports whether it has one by expm1.
func hasExpm1(op graph.Op) bool {
	switch nameOf(op) {
	case "elu":
		return op.(graph.Unary).Func.Params()["scale"] == 1
	case "celu", "selu", "expm1":
		return true
	}
	return false
}

// composedForms are those of operations in elementary ones, with scalars as they are or in the half type.
func (q *Question) composedForms(of Form) []Form {
	of.Composed = true
	scalars, others := of, of
	scalars.Scalars = q.Narrow.String()
	others.Scalars = scalars.Scalars + butOf + "products"
	return []Form{of, scalars, others}
}

// largest is the largest number of the format in which an operation has its scalars.
func (b *builder) largest(op graph.Op) float64 {
	if f, is := b.form.narrow(op); is {
		return f.Largest()
	}
	return math.MaxFloat32
}

// orLog is a logarithm of twice a number that is not below an end, and y elsewhere.
func (b *builder) orLog(op graph.Op, x int, end float64, y int) int {
	two := math.Ln2
	if f, is := b.form.narrow(op); is {
		two = f.Round(two)
	}
	l := b.may(true, b.step("log_twice", plus, b.may(true, b.step("log", unary("log"), x)), b.number(two)))
	far := b.step("far", graph.Binary{Of: pointwise.GreaterEqual, Other: real(end)}, x)
	return b.step("chosen", graph.Where{}, far, l, y)
}

// expm1 is e^x - 1, stored; or in the operations of a half type, tanh(x/2) (e^x + 1) near 0, each stored.
func (b *builder) expm1(x int) int {
	if !b.form.Expanded {
		return b.may(true, b.step("expm1", unary("expm1"), x))
	}
	const near = 0.5
	e := b.step("exp", unary("exp"), x)
	less, more := b.step("one_less", plus, e, b.number(-1)), b.step("one_more", plus, e, b.number(1))
	t := b.step("tanh", graph.Act{Func: act.Tanh}, b.step("halved", mul, x, b.number(.5)))
	product := b.step("product", mul, t, more)
	b.together("expm1", e, less, more, t, product)
	far := b.step("far", graph.Binary{Of: pointwise.Greater, Other: real(near)}, b.step("size", unary("abs"), x))
	return b.step("expm1_chosen", graph.Where{}, far, less, product)
}

// logistic is 1 + e^-x.
func (b *builder) logistic(x int) int {
	e := b.may(true, b.step("exp", unary("exp"), b.step("negated", unary("neg"), x)))
	return b.may(true, b.step("denominator", plus, e, b.number(1)))
}

// softplus is max(x, 0) + log(1 + e^-|x|).
func (b *builder) softplus(name string, x int) int {
	e := b.may(true, b.step("exp", unary("exp"), b.step("negated", unary("neg"), b.step("size", unary("abs"), x))))
	return b.step(name, plus, b.step("above", unaryMax0(), x), b.may(true, b.step("log1p", unary("log1p"), e)))
}

// sixth is x + 3 between 0 and 6.
func (b *builder) sixth(x int) int {
	return b.step("clipped", graph.Unary{Func: clip(0, 6)}, b.may(true, b.step("shifted", plus, x, b.number(3))))
}

func unaryMin0() graph.Op { return graph.Unary{Func: clip(math.Inf(-1), 0)} }

// erfc is 1 - erf(x).
type erfc struct{}

// Name implements [graph.Op].
func (erfc) Name() string { return "erfc" }

// Infer implements [graph.Op].
func (erfc) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	if len(in) != 1 {
		return graph.Inference{}, errors.New("want one input")
	}
	return graph.Inference{Out: []graph.Type{in[0]}}, nil
}

// Eval implements [graph.Op].
func (erfc) Eval(c *graph.Call) error {
	for i, x := range c.In(0).Data {
		c.Out[0].Data[i] = elem.Erfc(x)
	}
	return nil
}
