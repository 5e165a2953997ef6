package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/sample"
)

// GridSampler takes the numbers of an input [N,C,H,W] at the positions of a grid [N,h,w,2], or those of an input
// [N,C,D,H,W] at those of a grid [N,d,h,w,3]: PyTorch's grid_sample. See [sample.Grid].
type GridSampler struct {
	// Mode is bilinear, of volumes too, nearest or, of images, bicubic.
	Mode string `json:"mode"`
	// Padding is zeros, border or reflection.
	Padding      string `json:"padding_mode"`
	AlignCorners bool   `json:"align_corners"`
	// RoundFirst says that nearest rounds before it reflects, as in ONNX.
	RoundFirst bool `json:"round_first"`
}

// Name implements [Op].
func (GridSampler) Name() string { return "grid_sampler" }

// Infer implements [Op].
func (o GridSampler) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 2, 2); err != nil {
		return Inference{}, err
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	x, grid := in[0].Shape, in[1].Shape
	axes := len(x) - 2
	if axes != 2 && axes != 3 {
		return Inference{}, fmt.Errorf("input 0: shape %v: want [N,C,H,W] or [N,C,D,H,W]", x)
	}
	if _, ok := sample.Modes[o.Mode]; !ok {
		return Inference{}, fmt.Errorf("mode: %.40q: want bilinear, nearest or bicubic", o.Mode)
	}
	if _, ok := sample.Paddings[o.Padding]; !ok {
		return Inference{}, fmt.Errorf("padding_mode: %.40q: want zeros, border or reflection", o.Padding)
	}
	if o.Mode == "bicubic" && axes != 2 {
		return Inference{}, fmt.Errorf("mode: bicubic: want an input [N,C,H,W], not one of %d dimensions", len(x))
	}
	if len(grid) != len(x) || grid[0] != x[0] || grid[axes+1] != axes {
		return Inference{}, fmt.Errorf(
			"input 1: shape %v: want a grid [%d,...,%d] of %d dimensions", grid, x[0], axes, len(x),
		)
	}
	for _, n := range x[2:] {
		if n < 1 || n > sample.MostNumbers {
			return Inference{}, fmt.Errorf("input 0: shape %v: want axes of 1 to 2^28 numbers", x)
		}
	}
	f, err := m.Result(o.Name(), in[0].Format, in[1].Format)
	if m.Autocast == NoAutocast && f != fp16.Float64 { // ONNX's grid may have a format of its own
		f = in[0].Format
	}
	return Inference{Out: []Type{{slices.Concat(x[:2], grid[1:axes+1]), f}}}, err
}

// Eval implements [Op].
func (o GridSampler) Eval(c *Call) error {
	sample.Grid(c.Out[0], c.In(0), c.In(1), sample.Params{
		Mode: sample.Modes[o.Mode], Padding: sample.Paddings[o.Padding], Corners: o.AlignCorners, Early: o.RoundFirst,
	})
	return nil
}

func init() { register(GridSampler{Mode: "bilinear", Padding: "zeros"}, casts{most, most, wide, wide}) }
