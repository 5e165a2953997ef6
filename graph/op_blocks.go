package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/internal/op/index"
)

// PixelShuffle makes blocks of Factor by Factor pixels of the channels of images
// [..., C Factor^2, H, W]: pixel_shuffle.
type PixelShuffle struct {
	Factor int `json:"upscale_factor"`
}

// PixelUnshuffle makes channels of blocks of pixels: pixel_unshuffle.
type PixelUnshuffle struct {
	Factor int `json:"downscale_factor"`
}

// DepthToSpace is ONNX's: blocks of pixels of the channels of images. Mode is DCR, in
// which the place in a block comes before the channel, or CRD, as pixel_shuffle has it.
type DepthToSpace struct {
	Block int    `json:"blocksize"`
	Mode  string `json:"mode"`
}

// SpaceToDepth is ONNX's, which undoes DepthToSpace. ONNX has mode DCR only.
type SpaceToDepth struct {
	Block int    `json:"blocksize"`
	Mode  string `json:"mode"`
}

// Name implements [Op].
func (PixelShuffle) Name() string { return "pixel_shuffle" }

// Name implements [Op].
func (PixelUnshuffle) Name() string { return "pixel_unshuffle" }

// Name implements [Op].
func (DepthToSpace) Name() string { return "depth_to_space" }

// Name implements [Op].
func (SpaceToDepth) Name() string { return "space_to_depth" }

// Infer implements [Op].
func (o PixelShuffle) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o PixelUnshuffle) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o DepthToSpace) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// Infer implements [Op].
func (o SpaceToDepth) Infer(m Mode, in []Type) (Inference, error) { return reshaped(o, m, in) }

// blockOrders are the modes.
var blockOrders = map[string]index.Order{"DCR": index.DCR, "CRD": index.CRD}

// blocked returns the shape of images with their channels as blocks of pixels, or their
// blocks of pixels as channels.
func blocked(name string, in []int, by int, deeper bool) ([]int, error) {
	n := len(in)
	switch {
	case n < 3:
		return nil, fmt.Errorf("input of shape %v: want [..., C, H, W]", in)
	case by < 1 || by > 1<<20:
		return nil, fmt.Errorf("%s: %d: want 1 to 2^20", name, by)
	}
	shape := slices.Clone(in)
	if !deeper {
		if in[n-3]%(by*by) != 0 {
			return nil, fmt.Errorf("%s: %d: want one whose square divides the %d channels", name, by, in[n-3])
		}
		shape[n-3] /= by * by
		for _, a := range []int{n - 2, n - 1} {
			d, err := times(name, in[a], by)
			if err != nil {
				return nil, err
			}
			shape[a] = d
		}
		return shape, nil
	}
	if in[n-2]%by != 0 || in[n-1]%by != 0 {
		return nil, fmt.Errorf("%s: %d: want a divisor of %d and %d, rows and columns", name, by, in[n-2], in[n-1])
	}
	channels, err := times(name, in[n-3], by*by)
	shape[n-3], shape[n-2], shape[n-1] = channels, in[n-2]/by, in[n-1]/by
	return shape, err
}

func (o PixelShuffle) shape(in []int) ([]int, error) {
	return blocked("upscale_factor", in, o.Factor, false)
}

func (o PixelUnshuffle) shape(in []int) ([]int, error) {
	return blocked("downscale_factor", in, o.Factor, true)
}

func (o DepthToSpace) shape(in []int) ([]int, error) {
	if _, ok := blockOrders[o.Mode]; !ok {
		return nil, fmt.Errorf("mode: %.40q: want DCR or CRD", o.Mode)
	}
	return blocked("blocksize", in, o.Block, false)
}

func (o SpaceToDepth) shape(in []int) ([]int, error) {
	if _, ok := blockOrders[o.Mode]; !ok {
		return nil, fmt.Errorf("mode: %.40q: want DCR or CRD", o.Mode)
	}
	return blocked("blocksize", in, o.Block, true)
}

// Eval implements [Op].
func (o PixelShuffle) Eval(c *Call) error {
	index.DepthToSpace(c.Out[0], c.In(0), o.Factor, index.CRD)
	return nil
}

// Eval implements [Op].
func (o PixelUnshuffle) Eval(c *Call) error {
	index.SpaceToDepth(c.Out[0], c.In(0), o.Factor, index.CRD)
	return nil
}

// Eval implements [Op].
func (o DepthToSpace) Eval(c *Call) error {
	index.DepthToSpace(c.Out[0], c.In(0), o.Block, blockOrders[o.Mode])
	return nil
}

// Eval implements [Op].
func (o SpaceToDepth) Eval(c *Call) error {
	index.SpaceToDepth(c.Out[0], c.In(0), o.Block, blockOrders[o.Mode])
	return nil
}

func init() {
	c := since2(same, same)
	register(PixelShuffle{Factor: 1}, c)
	register(PixelUnshuffle{Factor: 1}, c)
	register(DepthToSpace{Block: 1, Mode: "DCR"}, c)
	register(SpaceToDepth{Block: 1, Mode: "DCR"}, c)
}
