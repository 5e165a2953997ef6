package judge

import (
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// interpolate is a resize in the form of the contract.
func (b *builder) interpolate(o graph.Interpolate, shape []int, x int) int {
	if b.form.Copied {
		o.Scale, _ = kept(o, shape[2:])
	}
	o.Recompute = o.Recompute || b.form.Sized
	op := resizing{Interpolate: o, weights: fp16.Float64}
	if f, is := accumulators[b.form.Weights]; is {
		op.weights = f
	}
	if strings.HasPrefix(o.Mode, "nearest") {
		op.positions = b.form.Positions
	}
	if o.Antialias && o.Coordinates == "" && op.weights.Half() && len(shape) == 4 {
		return b.axisByAxis(op, shape, x)
	}
	return b.step("output", op, x)
}

// axisByAxis makes each line of an image anew, and then each column. Kernels that keep weights in a half format, such
// as PyTorch's for CUDA, may store the lines in it too.
func (b *builder) axisByAxis(o resizing, shape []int, x int) int {
	whole := o.Interpolate
	to, _, err := whole.Axes(shape[2:])
	if err != nil { // which was inferred
		panic("judge: " + err.Error())
	}
	o.Interpolate = alongOne(whole, 1, shape[2])
	lines := b.may(true, b.step("lines", o, x))
	o.Interpolate = alongOne(whole, 0, to[1])
	return b.step("output", o, lines)
}

// alongOne is the resize of an image along one axis, which keeps the n numbers of the other.
func alongOne(o graph.Interpolate, axis, n int) graph.Interpolate {
	if len(o.Scale) > 0 {
		scale := graph.Floats{1, 1}
		scale[axis] = o.Scale[axis%len(o.Scale)]
		o.Scale = scale
		return o
	}
	size := graph.Ints{n, n}
	size[axis] = o.Size[axis%len(o.Size)]
	o.Size = size
	return o
}

// kept are the scales of a resize with 1 for axes that keep their size and, of the nearest number, 2 for those of twice
// the size, and whether that is another resize. 37 numbers that are scaled by 1.01 are 37, and 4 by 2.1 are 8: PyTorch
// then copies them, and takes each twice (nearest_idx of ATen's UpSample.h).
func kept(o graph.Interpolate, from []int) (scales graph.Floats, another bool) {
	if len(o.Scale) == 0 || o.Recompute || o.AlignCorners || o.Antialias || o.Coordinates != "" || o.Mode == "area" {
		return o.Scale, false
	}
	for a, n := range from {
		s := o.Scale[a%len(o.Scale)]
		ratio := math.Floor(float64(n)*s) / float64(n)
		if s != ratio && (ratio == 1 || ratio == 2 && o.Mode == "nearest") {
			s, another = ratio, true
		}
		scales = append(scales, s)
	}
	return scales, another
}

// resizes are the forms of a resize: of its weights where the inputs are in a half format, and of axes of one size.
func resizes(o graph.Interpolate, from []int, narrow fp16.Format) (all []Form) {
	all = append(all, Form{})
	switch {
	case strings.HasPrefix(o.Mode, "nearest"):
		all = append(all, Form{Positions: ratios}, Form{Positions: scales})
	case o.Mode != "area" && narrow.Half():
		all = append(all, Form{Weights: narrow.String()})
	}
	also := func(is func(f *Form)) {
		for _, f := range slices.Clone(all) {
			is(&f)
			all = append(all, f)
		}
	}
	if _, another := kept(o, from); another {
		also(func(f *Form) { f.Copied = true })
	}
	if cut(o, from) {
		also(func(f *Form) { f.Sized = true })
	}
	return all[1:]
}

// cut reports whether a resize aligns corners by a scale that makes no whole size: ONNX then aligns the corners of the
// scale times the size, and ONNX Runtime those of the size that is cut off.
func cut(o graph.Interpolate, from []int) bool {
	if o.Coordinates != "align_corners" || o.Recompute || len(o.Scale) == 0 {
		return false
	}
	for a, n := range from {
		if size := float64(n) * o.Scale[a%len(o.Scale)]; size != math.Floor(size) {
			return true
		}
	}
	return false
}
