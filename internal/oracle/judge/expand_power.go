package judge

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// How libraries multiply out a whole power. In separate operations each product is stored.
const (
	oneByOne  = "one factor after another" // PyTorch's cube
	bySquares = "by squaring"              // JAX's integer_pow
)

// factors is of how many factors a power is the product, and its reciprocal if n is below 0; 0 of others, and of a
// square, which is one product however it is written.
func factors(op graph.Binary, in []int, of []graph.Value) (n int) {
	z := math.NaN()
	switch {
	case op.Of != pointwise.Pow || op.Self != nil:
	case op.Other != nil:
		z = *op.Other
	case len(in) == 2:
		if c := of[in[1]].Const; c != nil && len(c.Data) == 1 && c.Format != fp16.Int64 {
			z = c.Data[0]
		}
	}
	if z != math.Floor(z) || math.Abs(z) > mostFactors || z >= -1 && z <= 2 {
		return 0
	}
	return int(z)
}

// power multiplies a whole power out.
func (b *builder) power(n, x int) int {
	times := func(y, z int) int {
		y = b.step("product", mul, y, z)
		b.together("powers", y)
		return y
	}
	count := max(n, -n)
	var y int
	if b.form.Powers == bySquares {
		y = b.squared(count, x, times)
	} else {
		y = x
		for range count - 1 {
			y = times(y, x)
		}
	}
	if n > 0 {
		b.points = b.points[:len(b.points)-1] // the last is the output
		return y
	}
	return b.step("output", unary("reciprocal"), y)
}

// squared is the product of those of x, x^2, x^4, ... that n consists of.
func (b *builder) squared(n, x int, times func(y, z int) int) int {
	y := -1
	for ; ; x = times(x, x) {
		if n%2 == 1 {
			if y < 0 {
				y = x
			} else {
				y = times(y, x)
			}
		}
		if n /= 2; n == 0 {
			return y
		}
	}
}
