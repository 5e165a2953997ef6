// Package resize changes the size of a tensor along its last axes: of a line, an image or
// a volume, for whatever stands before these axes.
//
//	nearest  the number next to the position
//	linear   its two neighbours on each axis, weighed with 1-t and t
//	cubic    its four neighbours on each axis, weighed with Keys' polynomials of t
//
// Number i of the result lies at a position p of the source (see [Coordinates]), of which t
// is what is above its floor. More generally the neighbours are the window of the numbers j
// with p-r < j <= p+r, weighed by a kernel k of (j-p)/h: h is 1 and r 1 or 2, or with
// antialiasing by a scale s < 1 h is 1/s and r 1/s or 2/s. Neighbours beyond an end are the
// number at that end, or are left out. Where some are left out, and with antialiasing, the
// weights of an axis are divided by their sum.
//
// Positions and weights are exact rational numbers: of the sizes, or of a given scale,
// which is the real number that its float64 stands for. The result is the exact value of
// the weighted sum over all axes for the stored numbers, rounded once to the destination's
// format. In a Float64 destination it is plain float64, see [Linear].
//
// PyTorch computes the positions of nearest in float32 for float32 tensors. Where one is a
// whole number it may take the neighbour before: number 41 of 82 that are made of 2 is the
// first of them in PyTorch 2.9.1, not the second.
//
// # Special values
//
// Nearest keeps what it moves: -0 and infinities. In weighted sums all of the window takes
// part, also with weight 0, and 0*Inf is NaN, as in PyTorch; NaN and Inf-Inf give NaN, any
// other sum with infinities the infinity. What is not in the window has no influence. A sum
// that is exactly zero is +0. Where nothing is left of the window, or what is left has
// weights whose sum is 0, the result is NaN.
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
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Axis says how one axis changes.
type Axis struct {
	Coordinates Coordinates
	// Scale is how many times as large the result is; 0 for the ratio of the sizes.
	Scale float64
	// Ratio is the scale as a quotient of two whole numbers, in place of Scale.
	Ratio [2]int
	// Antialias widens the window where the scale is less than 1.
	Antialias bool
	// Exclude leaves out what is beyond the ends.
	Exclude bool
	// First and Last are the ends of the part that CropAndResize means: 0 is the first
	// number of the source, 1 the last. Where it puts a position beyond the source the
	// result is Outside, that of the first such axis.
	First, Last, Outside float64
}

// given reports whether the scale is not the ratio of the sizes.
func (a *Axis) given() bool { return a.Scale != 0 || a.Ratio != [2]int{} }

// fault returns what is wrong with an axis for a source of that size, or "".
func (a *Axis) fault(in int) string {
	scale := a.Scale
	if a.Ratio != [2]int{} {
		scale = float64(a.Ratio[0]) / float64(a.Ratio[1])
	}
	switch {
	case in < 1:
		return "an axis without numbers"
	case a.Coordinates > CropAndResize:
		return "unknown coordinates"
	case a.given() && !(scale <= MaxScale && scale >= 1/MaxScale) || a.Scale != 0 && a.Ratio != [2]int{}:
		return "a scale that is not between 2^-40 and 2^40"
	case a.Antialias && a.given() && scale*float64(in) < 0.25:
		return "an antialiased scale that makes less than a quarter of a number"
	case !(math.Abs(a.First) <= MaxScale && math.Abs(a.Last) <= MaxScale):
		return "a part of the source whose ends are beyond 2^40"
	}
	return ""
}

// layout is a source as planes, the numbers along the axes that change, and what becomes
// of them.
type layout struct {
	axes    []Axis
	in, out []int
	planes  int
}

func newLayout(dst, src *tensor.Tensor, axes []Axis) *layout {
	tensor.Require("resize", -1, dst, src)
	if src.Format == fp16.Float64 && dst.Format != fp16.Float64 {
		panic("resize: a float64 source needs a float64 destination")
	}
	first := len(src.Shape) - len(axes)
	if len(axes) < 1 || first < 0 || len(dst.Shape) != len(src.Shape) {
		panic("resize: axes that the source or the destination has not")
	}
	l := &layout{axes, src.Shape[first:], dst.Shape[first:], tensor.Size(src.Shape[:first])}
	for k := range axes {
		if fault := axes[k].fault(l.in[k]); fault != "" {
			panic("resize: " + fault)
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
	in, out := tensor.Size(l.in), tensor.Size(l.out)
	par.For(l.planes, func(i int) {
		body(dst.Data[i*out:(i+1)*out:(i+1)*out], src.Data[i*in:(i+1)*in:(i+1)*in])
	})
}
