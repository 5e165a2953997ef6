package onnx

import (
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
)

func opGelu(c *call) []int {
	switch a := c.text("approximate", "none"); a {
	case "none":
		return activation(act.GELU)(c)
	case "tanh":
		return activation(act.GELUTanh)(c)
	default:
		c.fail("approximate %.40q: want none or tanh", a)
		return nil
	}
}

// opSoftplus is without the threshold that PyTorch has.
func opSoftplus(c *call) []int { return one(c.softplus(c.arg(0))) }

func (c *call) softplus(v int) int {
	return c.function("softplus", map[string]float64{"threshold": math.Inf(1)}, v)
}

// function adds a function of one number with its parameters.
func (c *call) function(name string, parameters map[string]float64, v int) int {
	f, err := pointwise.Parse(name, parameters)
	if err != nil {
		c.fail("%w", err)
	}
	return c.add(graph.Unary{Func: f}, v)
}

// opSwish is x sigmoid(alpha x).
func opSwish(c *call) []int {
	alpha := c.float("alpha", 1)
	if alpha == 1 {
		return activation(act.SiLU)(c)
	}
	return c.unary("swish", []any{"alpha", "alpha", 1.0})
}

// opClip has its ends as inputs, since opset 11.
func opClip(c *call) []int {
	x := c.arg(0)
	lo, hi := c.attribute("min"), c.attribute("max")
	if lo != nil || hi != nil {
		ends := map[string]float64{}
		if lo != nil {
			ends["min"] = lo.float
		}
		if hi != nil {
			ends["max"] = hi.float
		}
		return one(c.function("clip", ends, x))
	}
	y := x
	if c.has(1) {
		y = c.add(graph.Binary{Of: pointwise.Maximum}, y, c.arg(1))
	}
	if c.has(2) {
		y = c.add(graph.Binary{Of: pointwise.Minimum}, y, c.arg(2))
	}
	return one(y)
}

// opPRelu spreads its slope one way only.
func opPRelu(c *call) []int {
	return one(c.add(graph.Binary{Of: pointwise.PReLU}, c.arg(0), c.arg(1)))
}

// opSum is one sum of all inputs, rounded once.
func opSum(c *call) []int {
	if len(c.in) == 2 {
		return pairwise(pointwise.Add)(c)
	}
	return c.together("sum")
}

// together is a reduction of all inputs, spread to one shape.
func (c *call) together(of string) []int {
	if len(c.in) == 1 {
		return opIdentity(c)
	}
	var shapes [][]int
	for i := range c.in {
		shapes = append(shapes, c.shape(c.arg(i)))
	}
	all, err := pointwise.Broadcast(shapes...)
	if err != nil {
		c.fail("%w", err)
		return nil
	}
	var in []int
	for i := range c.in {
		in = append(in, c.spread(c.arg(i), all))
	}
	return one(c.add(graph.Reduction{Of: of, Axes: graph.Ints{0}}, c.add(graph.Stack{}, in...)))
}

// spread repeats a value to a shape, as numpy does.
func (c *call) spread(v int, shape []int) int {
	if v < 0 || equal(c.shape(v), shape) {
		return v
	}
	return c.add(graph.Expand{Size: graph.Ints(shape)}, v)
}

func opWhere(c *call) []int {
	v := c.add(graph.Where{}, c.arg(0), c.arg(1), c.arg(2))
	return one(c.as(v, c.dtype(c.arg(1))))
}

// opDiv is cut off towards zero for whole numbers.
func opDiv(c *call) []int {
	a, b := c.arg(0), c.arg(1)
	d := c.dtype(a)
	if !d.whole() {
		return pairwise(pointwise.Div)(c)
	}
	q := c.add(graph.Binary{Of: pointwise.Div}, c.cast(a, Float64), c.cast(b, Float64))
	return one(c.cast(c.bind("trunc", nil, q), d))
}

// opMod has the sign of its divisor, or as fmod of its dividend.
func opMod(c *call) []int {
	if c.flag("fmod") {
		return one(c.bind("fmod", nil, c.arg(0), c.arg(1)))
	}
	return one(c.bind("remainder", nil, c.arg(0), c.arg(1)))
}

func opIsInf(c *call) []int {
	of := map[string]any{"detect_negative": c.int("detect_negative", 1), "detect_positive": c.int("detect_positive", 1)}
	return one(c.bind("isinf", of, c.arg(0)))
}

func opMean(c *call) []int { return c.together("mean") }

func opThresholdedRelu(c *call) []int {
	return one(c.thresholded(c.arg(0), c.float("alpha", 1)))
}

// thresholded keeps numbers above alpha; others are 0.
func (c *call) thresholded(x int, alpha float64) int {
	return c.add(graph.Where{}, c.add(graph.Binary{Of: pointwise.Greater, Other: &alpha}, x), x, c.number(x, 0))
}

// opPow has the type of its base.
func opPow(c *call) []int {
	a, b := c.arg(0), c.arg(1)
	d := c.dtype(a)
	if d.whole() {
		a, b = c.cast(a, Float64), c.cast(b, Float64)
	}
	v := c.add(graph.Binary{Of: pointwise.Pow}, a, b)
	if d.whole() {
		v = c.bind("trunc", nil, v)
	}
	return one(c.cast(v, d))
}
