package grad

import (
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// What rules are written in: the operations of the graph, with short names.

func (t *tape) add(a, b int) int { return t.apply(graph.Addition, a, b) }
func (t *tape) sub(a, b int) int { return t.apply(graph.Binary{Of: pointwise.Sub}, a, b) }
func (t *tape) mul(a, b int) int { return t.apply(graph.Binary{Of: pointwise.Mul}, a, b) }
func (t *tape) div(a, b int) int { return t.apply(graph.Binary{Of: pointwise.Div}, a, b) }

// scale is a number times a value; 1 is the value.
func (t *tape) scale(by float64, a int) int {
	if by == 1 {
		return a
	}
	return t.with(pointwise.Mul, a, by)
}

// with is an operation with a number as the second operand, from with one as the first.
func (t *tape) with(op pointwise.Op, a int, b float64) int {
	return t.apply(graph.Binary{Of: op, Other: &b}, a)
}

func (t *tape) from(a float64, op pointwise.Op, b int) int {
	return t.apply(graph.Binary{Of: op, Self: &a}, b)
}

// f is a function of each number, with its default parameters.
func (t *tape) f(name string, a int) int {
	of, err := pointwise.Parse(name, nil)
	if err != nil {
		panic("grad: " + err.Error())
	}
	return t.apply(graph.Unary{Func: of}, a)
}

func (t *tape) neg(a int) int { return t.f("neg", a) }

// where chooses between two values by a third.
func (t *tape) where(c, a, b int) int { return t.apply(graph.Where{}, c, a, b) }

// zero is the number 0 of the format of a value.
func (t *tape) zero(of int) int { return t.full(0, graph.Type{Format: t.types[of].Format}) }

// only is d where a condition holds and 0 elsewhere, whatever d is there.
func (t *tape) only(c, d int) int { return t.where(c, d, t.zero(d)) }

// except is 0 where a condition holds and d elsewhere.
func (t *tape) except(c, d int) int { return t.where(c, t.zero(d), d) }

func (t *tape) both(a, b int) int { return t.apply(graph.Binary{Of: pointwise.And}, a, b) }

func (t *tape) reshape(a int, shape []int) int {
	if slices.Equal(t.shape(a), shape) {
		return a
	}
	return t.apply(graph.Reshape{Shape: slices.Clone(shape), AllowZero: true}, a)
}

func (t *tape) expand(a int, shape []int) int {
	if slices.Equal(t.shape(a), shape) {
		return a
	}
	return t.apply(graph.Expand{Size: slices.Clone(shape)}, a)
}

// sum is the sum along axes, which stay with size 1.
func (t *tape) sum(a int, axes []int) int {
	if len(axes) == 0 {
		return a
	}
	return t.apply(graph.Reduction{Of: "sum", Axes: axes, Keep: true}, a)
}

func (t *tape) mean(a int, axes []int) int {
	return t.apply(graph.Reduction{Of: "mean", Axes: axes, Keep: true}, a)
}

// fit brings a gradient to a shape: it is summed along the axes along which the value was spread,
// and spread where it is the same for all.
func (t *tape) fit(d int, shape []int) int {
	if t.err != nil || slices.Equal(t.shape(d), shape) {
		return d
	}
	if lead := len(t.shape(d)) - len(shape); lead > 0 {
		axes := make([]int, lead)
		for a := range axes {
			axes[a] = a
		}
		d = t.apply(graph.Reduction{Of: "sum", Axes: axes}, d)
	}
	if t.err != nil {
		return d
	}
	var axes []int
	own := t.shape(d)
	for a := range own {
		if want := shape[len(shape)-len(own)+a]; want == 1 && own[a] != 1 {
			axes = append(axes, a)
		}
	}
	d = t.sum(d, axes)
	if t.err != nil {
		return d
	}
	return t.expand(d, shape)
}

// move puts the axes in another order.
func (t *tape) move(a int, order []int) int { return t.apply(graph.Permute{Axes: order}, a) }

// swap exchanges the last two axes.
func (t *tape) swap(a int) int { return t.apply(graph.Transpose{A: -2, B: -1}, a) }

func (t *tape) matmul(a, b int) int { return t.apply(graph.MatMul{}, a, b) }

// axesOf returns axes of a rank, counted from the front; all for none.
func axesOf(given []int, rank int) []int {
	var axes []int
	for _, a := range given {
		if a < 0 {
			a += rank
		}
		axes = append(axes, a)
	}
	for a := 0; len(given) == 0 && a < rank; a++ {
		axes = append(axes, a)
	}
	return axes
}

// keep gives a value that was reduced along axes of x these axes again, with size 1.
func (t *tape) keep(v, x int, axes []int) int {
	shape := slices.Clone(t.shape(x))
	for _, a := range axes {
		if a < len(shape) {
			shape[a] = 1
		}
	}
	return t.reshape(v, shape)
}

// elements returns the product of sizes.
func elements(sizes []int) int {
	n := 1
	for _, d := range sizes {
		n *= d
	}
	return n
}

// sizeOf returns how many numbers stand along axes of a value.
func (t *tape) sizeOf(v int, axes []int) int {
	n := 1
	for _, a := range axes {
		if a < len(t.shape(v)) {
			n *= t.shape(v)[a]
		}
	}
	return n
}
