// Package resize changes the size of a tensor along its last axes, up to three: of a
// line, an image or a volume, for whatever stands before these axes.
//
//	nearest  the number next to the position
//	linear   its two neighbours on each axis, weighed with 1-t and t
//	cubic    its four neighbours on each axis, weighed with Keys' polynomials of t
//
// Number i of the result lies at a position of the source (see [Coordinates]), of which t
// is what is above its floor. Neighbours beyond an end are the number at that end.
//
// Positions and weights are exact rational numbers: of the sizes, or of a given scale,
// which is the real number that its float64 stands for. The result is the exact value of
// the weighted sum for the stored numbers, rounded once to the destination's format. In a
// Float64 destination it is plain float64, see [Linear].
//
// PyTorch computes the positions of nearest in float32 for float32 tensors. Where one is a
// whole number it may take the neighbour before: number 41 of 82 that are made of 2 is the
// first of them in PyTorch 2.9.1, not the second.
//
// # Special values
//
// Nearest keeps what it moves: -0 and infinities. In weighted sums all neighbours take
// part, also with weight 0, and 0*Inf is NaN, as in PyTorch; NaN and Inf-Inf give NaN, any
// other sum with infinities the infinity. A sum that is exactly zero is +0.
//
// # Misuse
//
// Shapes that do not fit together, an axis without numbers and a scale that is not
// positive and finite panic. So does a Float64 source with a destination of another
// format: exactness is proven for float32 numbers.
//
// In use:
//
//	resize.Linear(y, x, resize.Axis{}, resize.Axis{}) // the last two axes, to the sizes of y
package resize

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/tensor"
)

// most is how many axes change at most.
const most = 3

// Axis says how one axis changes.
type Axis struct {
	Coordinates Coordinates
	// Scale is how many times as large the result is; 0 for the ratio of the sizes.
	Scale float64
}

// layout is a source as planes, the numbers along the axes that change, and what becomes
// of them. Axes that are not there have size 1.
type layout struct {
	axes    [most]Axis
	in, out [most]int
	planes  int
}

func newLayout(dst, src *tensor.Tensor, axes []Axis) *layout {
	tensor.Require("resize", -1, dst, src)
	if src.Format == fp16.Float64 && dst.Format != fp16.Float64 {
		panic("resize: a float64 source needs a float64 destination")
	}
	first := len(src.Shape) - len(axes)
	if len(axes) < 1 || len(axes) > most || first < 0 || len(dst.Shape) != len(src.Shape) {
		panic("resize: axes that the source or the destination has not")
	}
	l := &layout{in: [most]int{1, 1, 1}, out: [most]int{1, 1, 1}, planes: tensor.Size(src.Shape[:first])}
	for k, a := range axes {
		i := most - len(axes) + k
		l.axes[i], l.in[i], l.out[i] = a, src.Shape[first+k], dst.Shape[first+k]
		if l.in[i] < 1 {
			panic("resize: an axis without numbers")
		}
		if a.Coordinates > Asymmetric || !(a.Scale >= 0 && a.Scale <= MaxScale) || a.Scale != 0 && a.Scale < 1/MaxScale {
			panic("resize: unknown coordinates, or a scale that is not between 2^-40 and 2^40")
		}
	}
	if l.planes != tensor.Size(dst.Shape[:first]) {
		panic("resize: source and destination differ in planes")
	}
	return l
}

// MaxScale bounds scales, and its reciprocal does.
const MaxScale = 0x1p40

// each calls body with every plane of the source and of the destination.
func (l *layout) each(dst, src *tensor.Tensor, body func(out, in []float64)) {
	in, out := tensor.Size(l.in[:]), tensor.Size(l.out[:])
	par.For(l.planes, func(i int) {
		body(dst.Data[i*out:(i+1)*out:(i+1)*out], src.Data[i*in:(i+1)*in:(i+1)*in])
	})
}
