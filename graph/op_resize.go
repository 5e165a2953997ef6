package graph

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/refrun/refrun/pool"
	"github.com/refrun/refrun/resize"
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

	// ONNX's. "" is what PyTorch does: half_pixel, or asymmetric and floor of nearest.
	// With coordinates given, nearest_mode's default is round_prefer_floor.
	Coordinates string  `json:"coordinate_transformation_mode"`
	Rounding    string  `json:"nearest_mode"`
	Coefficient float64 `json:"cubic_coeff_a"`
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

// NewInterpolate returns interpolate by one factor, nearest, or bilinear without aligned
// corners.
func NewInterpolate(mode string, factor float64) Interpolate {
	return Interpolate{Scale: Floats{factor}, Mode: mode, Coefficient: defaultCoefficient}
}

const defaultCoefficient = -0.75

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
		return 0, 0, fmt.Errorf("coordinate_transformation_mode: %.40q: want none, or align_corners, as align_corners says", o.Coordinates)
	case (o.Coordinates != "" || o.Rounding != "") && (kind == "area" || o.Mode == "nearest-exact"):
		return 0, 0, fmt.Errorf("mode: %s: want another one with coordinate_transformation_mode or nearest_mode", o.Mode)
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
		axes[i].Coordinates = c
	}
	if (len(o.Size) == 0) == (len(o.Scale) == 0) {
		return nil, nil, fmt.Errorf("size, scale_factor: both or none: want one of them")
	}
	if len(o.Size) > 0 {
		if o.Recompute {
			return nil, nil, fmt.Errorf("recompute_scale_factor: true: want a scale_factor")
		}
		if to, err = o.Size.each("size", n, 1); err != nil {
			return nil, nil, err
		}
		for _, v := range to {
			if v < 1 || v > mostElements {
				return nil, nil, fmt.Errorf("size: %d: want 1 to 2^40", v)
			}
		}
		return to, axes, nil
	}
	if len(o.Scale) != 1 && len(o.Scale) != n {
		return nil, nil, fmt.Errorf("scale_factor: %d numbers: want 1, or %d, one for each axis", len(o.Scale), n)
	}
	to = make([]int, n)
	for i := range to {
		s := o.Scale[i%len(o.Scale)]
		if !(s >= 1/resize.MaxScale && s <= resize.MaxScale) {
			return nil, nil, fmt.Errorf("scale_factor: %g: want 2^-40 to 2^40", s)
		}
		size := math.Floor(float64(from[i]) * s) // as PyTorch rounds it
		if !(size >= 1 && size <= mostElements) {
			return nil, nil, fmt.Errorf("scale_factor: %g: makes an axis of %g from one of %d: want 1 to 2^40", s, size, from[i])
		}
		to[i] = int(size)
		if !o.Recompute {
			axes[i].Scale = s
		}
	}
	return to, axes, nil
}

// Infer implements [Op].
func (o Interpolate) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	n := len(in[0].Shape) - 2
	if n < 1 || n > 3 {
		return Inference{}, fmt.Errorf("input of shape %v: want [N,C,L], [N,C,H,W] or [N,C,D,H,W]", in[0].Shape)
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	k, ok := kinds[o.Mode]
	switch {
	case !ok:
		return Inference{}, fmt.Errorf("mode: %.40q: want nearest, nearest-exact, linear, bilinear, trilinear, cubic, bicubic or area", o.Mode)
	case k.axes != 0 && k.axes != n:
		return Inference{}, fmt.Errorf("mode: %s: want an input of %d dimensions, not of %d", o.Mode, k.axes+2, n+2)
	}
	if b := math.Ldexp(o.Coefficient, 30); !(math.Abs(o.Coefficient) <= resize.MaxCoefficient) || b != math.Trunc(b) {
		return Inference{}, fmt.Errorf("cubic_coeff_a: %g: want a multiple of 2^-30, at most %d in magnitude", o.Coefficient, resize.MaxCoefficient)
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
		resize.Cubic(y, x, o.Coefficient, axes...)
	case "area":
		pool.Average(y, x, pool.Count{}, adaptive(c, len(axes))...)
	}
	return nil
}

func init() {
	register(Interpolate{Mode: "nearest", Coefficient: defaultCoefficient}, casts{same, wide, same, same})
}
