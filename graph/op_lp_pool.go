package graph

import (
	"fmt"

	"github.com/refrun/refrun/internal/op/pool"
)

// LpPool is ONNX's LpPool, of an input [N,C,L], [N,C,H,W] or [N,C,D,H,W]: the other
// attributes are those of [MaxPool]. See [pool.Lp].
type LpPool struct {
	P        int  `json:"p"` // 1 to 64
	Kernel   Ints `json:"kernel_size"`
	Stride   Ints `json:"stride"` // none for that of the kernel
	Padding  Ints `json:"padding"`
	Dilation Ints `json:"dilation"`
	Ceil     bool `json:"ceil_mode"`
}

// Name implements [Op].
func (LpPool) Name() string { return "lp_pool" }

func (o LpPool) geometry(size []int) ([]pool.Geometry, error) {
	return sliding(size, o.Kernel, o.Stride, o.Padding, o.Dilation, o.Ceil)
}

// Infer implements [Op].
func (o LpPool) Infer(m Mode, in []Type) (Inference, error) {
	axes := 0
	if len(in) > 0 {
		axes = min(max(len(in[0].Shape)-2, 1), 3)
	}
	size, err := spatial(in, axes)
	if err != nil {
		return Inference{}, err
	}
	if len(in[0].Shape) != axes+2 {
		return Inference{}, fmt.Errorf("input of shape %v: want [N,C,L], [N,C,H,W] or [N,C,D,H,W]", in[0].Shape)
	}
	if o.P < 1 || o.P > pool.MaxP {
		return Inference{}, fmt.Errorf("p: %d: want 1 to %d", o.P, pool.MaxP)
	}
	g, err := o.geometry(size)
	if err != nil {
		return Inference{}, err
	}
	f, err := m.Result(o.Name(), in[0].Format)
	return Inference{Out: []Type{resized(in[0], slid(size, g), f)}}, err
}

// Eval implements [Op].
func (o LpPool) Eval(c *Call) error {
	x := c.In(0)
	g, err := o.geometry(x.Shape[2:])
	if err != nil {
		return err
	}
	if len(c.Out[0].Data) > 0 {
		pool.Lp(c.Out[0], x, o.P, windows(x, g)...)
	}
	return nil
}

func init() { register(LpPool{P: 2}, since2(same, same)) }
