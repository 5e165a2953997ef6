package graph

import (
	"fmt"

	"github.com/refrun/refrun/conv"
)

// AvgPool is avg_pool2d of windows Size by Size, Size apart, of an input [N,C,H,W].
// See [conv.AvgPool].
type AvgPool struct {
	Size int `json:"kernel_size"`
}

// Upsample is interpolate by an integer factor of an input [N,C,H,W], nearest or
// bilinear without aligned corners. See [conv.Nearest] and [conv.Bilinear].
type Upsample struct {
	Bilinear bool
	Factor   int `json:"scale_factor"`
}

// Name implements [Op].
func (AvgPool) Name() string { return "avg_pool2d" }

// Name implements [Op].
func (Upsample) Name() string { return "interpolate" }

func oneImage(in []Type) (n, c, h, w int, err error) {
	if len(in) != 1 || len(in[0].Shape) != 4 {
		return 0, 0, 0, 0, fmt.Errorf("%d inputs: want one image [N,C,H,W]", len(in))
	}
	s := in[0].Shape
	return s[0], s[1], s[2], s[3], nil
}

// Infer implements [Op].
func (a AvgPool) Infer(m Mode, in []Type) (Inference, error) {
	n, c, h, w, err := oneImage(in)
	if err != nil {
		return Inference{}, err
	}
	if h < a.Size || w < a.Size || a.Size < 1 {
		return Inference{}, fmt.Errorf("image is %dx%d: want at least %dx%d to pool by %d", h, w, a.Size, a.Size, a.Size)
	}
	f, err := m.Result(a.Name(), in[0].Format)
	return Inference{Out: []Type{{[]int{n, c, h / a.Size, w / a.Size}, f}}}, err
}

// Infer implements [Op].
func (u Upsample) Infer(m Mode, in []Type) (Inference, error) {
	n, c, h, w, err := oneImage(in)
	if err != nil {
		return Inference{}, err
	}
	f, err := m.Result(u.Name(), in[0].Format)
	return Inference{Out: []Type{{[]int{n, c, h * u.Factor, w * u.Factor}, f}}}, err
}

// Eval implements [Op].
func (a AvgPool) Eval(c *Call) error {
	conv.AvgPool(c.Out[0], c.In(0), a.Size)
	return nil
}

// Eval implements [Op].
func (u Upsample) Eval(c *Call) error {
	if u.Bilinear {
		conv.Bilinear(c.Out[0], c.In(0), u.Factor)
	} else {
		conv.Nearest(c.Out[0], c.In(0), u.Factor)
	}
	return nil
}

func init() {
	register(AvgPool{}, casts{same, same, same, same})
	register(Upsample{}, casts{same, wide, same, same})
}
