package graph

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"

	"github.com/refrun/refrun/internal/op/pool"
	"github.com/refrun/refrun/internal/op/resize"
)

// Interpolate is PyTorch's interpolate, and with further attributes ONNX's Resize: of an
// input [N,C,L], [N,C,H,W] or [N,C,D,H,W], to a size or by a scale. See [resize.Nearest],
// [resize.Linear], [resize.Cubic] and, of area, [pool.Adaptive].
type Interpolate struct {
	Size  Ints   `json:"size"`
	Scale Floats `json:"scale_factor"`
	// Mode is nearest, nearest-exact, linear (of any number of axes), bilinear,
	// trilinear, cubic (of any number), bicubic or area.
	Mode         string `json:"mode"`
	AlignCorners bool   `json:"align_corners"`
	// Recompute takes the ratio of the sizes for the scale also where that is given.
	Recompute bool `json:"recompute_scale_factor"`

	// Antialias widens the window of linear and cubic modes where sizes become less. Without
	// coordinates it is PyTorch's: what is beyond the ends is left out, and aligned corners
	// only change the scale, to the ratio of the sizes less 1.
	Antialias bool `json:"antialias"`

	// ONNX's. "" is what PyTorch does: half_pixel, or asymmetric and floor of nearest.
	// With coordinates given, nearest_mode's default is round_prefer_floor, any number of
	// axes may change, and aligned corners are those of scale_factor times the size.
	Coordinates string `json:"coordinate_transformation_mode"`
	Rounding    string `json:"nearest_mode"`
	// Coefficient is -0.75 if there is none, of PyTorch's antialias -0.5.
	Coefficient *float64 `json:"cubic_coeff_a"`
	Exclude     bool     `json:"exclude_outside"`
	// Aspect is not_larger or not_smaller than size, or "": stretch to it.
	Aspect string `json:"keep_aspect_ratio_policy"`
	// Part is where each axis of tf_crop_and_resize begins, and then where each ends.
	Part    Floats  `json:"roi"`
	Outside float64 `json:"extrapolation_value"`
}

// Floats is an attribute of numbers, as [Ints].
type Floats []float64

// UnmarshalJSON reads a number or a list of them.
func (v *Floats) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]float64)(v))
	}
	*v = make(Floats, 1)
	return json.Unmarshal(b, &(*v)[0])
}

// coefficient returns that of cubic modes.
func (o Interpolate) coefficient() float64 {
	switch {
	case o.Coefficient != nil:
		return *o.Coefficient
	case o.Antialias && o.Coordinates == "":
		return -0.5
	}
	return -0.75
}

// Name implements [Op].
func (Interpolate) Name() string { return "interpolate" }

// kinds are the modes with the number of axes that they are for, 0 for any.
var kinds = map[string]struct {
	kind string
	axes int
}{
	"nearest":       {"nearest", 0},
	"nearest-exact": {"nearest", 0},
	"linear":        {"linear", 0},
	"bilinear":      {"linear", 2},
	"trilinear":     {"linear", 3},
	"cubic":         {"cubic", 0},
	"bicubic":       {"cubic", 2},
	"area":          {"area", 0},
}

// rule returns what happens along the axes that change, without scales.
func (o Interpolate) rule() (c resize.Coordinates, r resize.Rounding, err error) {
	kind := kinds[o.Mode].kind
	switch {
	case o.AlignCorners && (kind == "nearest" || kind == "area"):
		return 0, 0, fmt.Errorf("align_corners: true: want a linear or cubic mode, not %s", o.Mode)
	case o.AlignCorners && o.Coordinates != "" && o.Coordinates != "align_corners":
		return 0, 0, fmt.Errorf(
			"coordinate_transformation_mode: %.40q: want none, or align_corners, as align_corners says", o.Coordinates,
		)
	case (o.Coordinates != "" || o.Rounding != "") && (kind == "area" || o.Mode == "nearest-exact"):
		return 0, 0, fmt.Errorf("mode: %s: want another one with coordinate_transformation_mode or nearest_mode", o.Mode)
	case (o.Antialias || o.Exclude) && (kind == "nearest" || kind == "area"):
		return 0, 0, fmt.Errorf("antialias, exclude_outside: true: want a linear or cubic mode, not %s", o.Mode)
	case o.Rounding != "" && kind != "nearest":
		return 0, 0, fmt.Errorf("nearest_mode: %.40q: want mode nearest", o.Rounding)
	}
	switch {
	case o.AlignCorners:
		c = resize.AlignCorners
	case o.Mode == "nearest-exact":
		return resize.HalfPixel, resize.PreferCeil, nil
	case o.Coordinates != "":
		r = resize.PreferFloor
		if c, err = resize.ParseCoordinates(o.Coordinates); err != nil {
			return 0, 0, fmt.Errorf("coordinate_transformation_mode: %w", err)
		}
	case kind == "nearest":
		c, r = resize.Asymmetric, resize.Floor
	}
	if o.Rounding != "" {
		if r, err = resize.ParseRounding(o.Rounding); err != nil {
			return 0, 0, fmt.Errorf("nearest_mode: %w", err)
		}
	}
	return c, r, nil
}

// sizes returns the size of every axis that changes, and how.
func (o Interpolate) sizes(from []int) (to []int, axes []resize.Axis, err error) {
	n := len(from)
	c, _, err := o.rule()
	if err != nil {
		return nil, nil, err
	}
	axes = make([]resize.Axis, n)
	for i := range axes {
		axes[i] = resize.Axis{Coordinates: c, Antialias: o.Antialias, Exclude: o.Exclude ||
			o.Antialias && o.Coordinates == "", Outside: o.Outside}
	}
	switch {
	case (len(o.Size) == 0) == (len(o.Scale) == 0):
		err = fmt.Errorf("size, scale_factor: both or none: want one of them")
	case len(o.Size) > 0 && o.Recompute:
		err = fmt.Errorf("recompute_scale_factor: true: want a scale_factor")
	case len(o.Size) > 0:
		to, err = o.bySize(from, axes)
	case o.Aspect != "" && o.Aspect != "stretch":
		err = fmt.Errorf("keep_aspect_ratio_policy: %.40q: want a size", o.Aspect)
	default:
		to, err = o.byScale(from, axes)
	}
	if err == nil {
		err = o.parts(axes)
	}
	if err != nil {
		return nil, nil, err
	}
	if o.Antialias && o.AlignCorners {
		for i := range axes {
			axes[i] = corners(axes[i], from[i], to[i])
		}
	}
	return to, axes, nil
}

// Axes returns the size of every axis that changes, and how, for an input of those sizes. It is for
// package internal/oracle/judge alone.
func (o Interpolate) Axes(from []int) (to []int, axes []resize.Axis, err error) { return o.sizes(from) }

// CubicCoefficient returns that of cubic modes, also where none is given.
func (o Interpolate) CubicCoefficient() float64 { return o.coefficient() }

// corners is how PyTorch aligns them with antialias: half pixels of another scale. Of one
// number, or to one, it is the first.
func corners(a resize.Axis, from, to int) resize.Axis {
	if a.Scale = 0; min(from, to) > 1 {
		a.Coordinates, a.Ratio = resize.HalfPixel, [2]int{to - 1, from - 1}
	} else {
		a.Antialias = false
	}
	return a
}

func (o Interpolate) bySize(from []int, axes []resize.Axis) ([]int, error) {
	to, err := o.Size.each("size", len(from), 1)
	if err != nil {
		return nil, err
	}
	for _, v := range to {
		if v < 1 || v > mostElements {
			return nil, fmt.Errorf("size: %d: want 1 to 2^40", v)
		}
	}
	switch o.Aspect {
	case "", "stretch":
		return to, nil
	case "not_larger", "not_smaller":
		return o.aspect(from, to, axes)
	}
	return nil, fmt.Errorf("keep_aspect_ratio_policy: %.40q: want stretch, not_larger or not_smaller", o.Aspect)
}

// aspect changes sizes to those by one scale: the least one of all axes if nothing may be
// larger than its size, or the greatest. Halves are rounded up.
func (o Interpolate) aspect(from, to []int, axes []resize.Axis) ([]int, error) {
	of := 0
	ratio := func(i int) *big.Rat { return big.NewRat(int64(to[i]), int64(from[i])) }
	for i := range to {
		if c := ratio(i).Cmp(ratio(of)); c < 0 && o.Aspect == "not_larger" || c > 0 && o.Aspect == "not_smaller" {
			of = i
		}
	}
	scale, all := ratio(of), make([]int, len(to))
	for i := range all {
		size := new(big.Rat).Mul(scale, big.NewRat(int64(from[i]), 1))
		size.Add(size, big.NewRat(1, 2))
		n := new(big.Int).Quo(size.Num(), size.Denom())
		if n.Sign() < 1 || n.Cmp(big.NewInt(mostElements)) > 0 {
			return nil, fmt.Errorf("size: %.60s of %d by a scale of %d/%d: want 1 to 2^40", n, from[i], to[of], from[of])
		}
		all[i], axes[i].Ratio = int(n.Int64()), [2]int{to[of], from[of]}
	}
	return all, nil
}

func (o Interpolate) byScale(from []int, axes []resize.Axis) ([]int, error) {
	n := len(from)
	if len(o.Scale) != 1 && len(o.Scale) != n {
		return nil, fmt.Errorf("scale_factor: %d numbers: want 1, or %d, one for each axis", len(o.Scale), n)
	}
	to := make([]int, n)
	for i := range to {
		s := o.Scale[i%len(o.Scale)]
		if !(s >= 1/resize.MaxScale && s <= resize.MaxScale) {
			return nil, fmt.Errorf("scale_factor: %g: want 2^-40 to 2^40", s)
		}
		size := math.Floor(float64(from[i]) * s) // as PyTorch rounds it
		if !(size >= 1 && size <= mostElements) {
			return nil, fmt.Errorf("scale_factor: %g: makes an axis of %g from one of %d: want 1 to 2^40", s, size, from[i])
		}
		to[i] = int(size)
		if !o.Recompute && !o.AlignCorners { // PyTorch's corners are those of the sizes
			axes[i].Scale = s
		}
	}
	return to, nil
}

// parts notes which part of each axis is meant.
func (o Interpolate) parts(axes []resize.Axis) error {
	n := len(axes)
	crop := axes[0].Coordinates == resize.CropAndResize
	if crop && len(o.Part) != 2*n || !crop && len(o.Part) > 0 {
		return fmt.Errorf("roi: %d numbers: want %d with tf_crop_and_resize, none without", len(o.Part), 2*n)
	}
	for i, v := range o.Part {
		if !(math.Abs(v) <= resize.MaxScale) {
			return fmt.Errorf("roi: %g: want at most 2^40 in magnitude", v)
		}
		if i < n {
			axes[i].First = v
		} else {
			axes[i-n].Last = v
		}
	}
	return nil
}

// Infer implements [Op].
func (o Interpolate) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	n := len(in[0].Shape) - 2
	if n < 1 || n > 3 && o.Coordinates == "" {
		return Inference{}, fmt.Errorf("input of shape %v: want [N,C,L], [N,C,H,W] or [N,C,D,H,W]", in[0].Shape)
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	k, ok := kinds[o.Mode]
	switch {
	case !ok:
		return Inference{}, fmt.Errorf(
			"mode: %.40q: want nearest, nearest-exact, linear, bilinear, trilinear, cubic, bicubic or area", o.Mode,
		)
	case k.axes != 0 && k.axes != n:
		return Inference{}, fmt.Errorf("mode: %s: want an input of %d dimensions, not of %d", o.Mode, k.axes+2, n+2)
	}
	if a := o.coefficient(); !resize.Coefficient(a) {
		return Inference{}, fmt.Errorf("cubic_coeff_a: %g: want 0, or 2^-149 to %d in magnitude", a, resize.MaxCoefficient)
	}
	from := in[0].Shape[2:]
	for _, v := range from {
		if v < 1 {
			return Inference{}, fmt.Errorf("input of shape %v: want one that is not empty", in[0].Shape)
		}
	}
	to, _, err := o.sizes(from)
	if err != nil {
		return Inference{}, err
	}
	name := o.Name()
	if k.kind == "area" {
		name = AdaptivePool{axes: n}.Name() // which PyTorch calls
	}
	f, err := m.Result(name, in[0].Format)
	return Inference{Out: []Type{resized(in[0], to, f)}}, err
}

// Eval implements [Op].
func (o Interpolate) Eval(c *Call) error {
	x, y := c.In(0), c.Out[0]
	_, axes, err := o.sizes(x.Shape[2:])
	if err != nil || len(y.Data) == 0 { // of no samples there may be more positions than fit into memory
		return err
	}
	switch kinds[o.Mode].kind {
	case "nearest":
		_, rounding, _ := o.rule()
		resize.Nearest(y, x, rounding, axes...)
	case "linear":
		resize.Linear(y, x, axes...)
	case "cubic":
		resize.Cubic(y, x, o.coefficient(), axes...)
	case "area":
		pool.Average(y, x, pool.Count{}, adaptive(c, len(axes))...)
	}
	return nil
}

func init() {
	register(Interpolate{Mode: "nearest"}, casts{same, wide, same, same})
}
