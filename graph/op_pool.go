package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/pool"
	"github.com/refrun/refrun/tensor"
)

// MaxPool is max_pool1d, max_pool2d and max_pool3d, of an input [N,C,L], [N,C,H,W] or
// [N,C,D,H,W], or one without N. See [pool.Max].
type MaxPool struct {
	axes     int
	Kernel   Ints `json:"kernel_size"`
	Stride   Ints `json:"stride"`  // none for that of the kernel
	Padding  Ints `json:"padding"` // of both ends, or first of all beginnings and then of all ends
	Dilation Ints `json:"dilation"`
	Ceil     bool `json:"ceil_mode"`
	Indices  bool `json:"return_indices"` // as a second output
}

// AvgPool is avg_pool1d, avg_pool2d and avg_pool3d, of inputs as of [MaxPool]. See
// [pool.Average].
type AvgPool struct {
	axes         int
	Kernel       Ints `json:"kernel_size"`
	Stride       Ints `json:"stride"`   // none for that of the kernel
	Padding      Ints `json:"padding"`  // as MaxPool's
	Dilation     Ints `json:"dilation"` // ONNX's
	Ceil         bool `json:"ceil_mode"`
	CountPadding bool `json:"count_include_pad"`
	Divisor      *int `json:"divisor_override"`
}

// AdaptivePool is adaptive_avg_pool1d, adaptive_max_pool2d and their like, of inputs as of
// [MaxPool]. See [pool.Adaptive].
type AdaptivePool struct {
	axes    int
	max     bool
	Size    Ints `json:"output_size"`
	Indices bool `json:"return_indices"` // of maxima, as a second output
}

// Name implements [Op].
func (o MaxPool) Name() string { return fmt.Sprintf("max_pool%dd", o.axes) }

// Name implements [Op].
func (o AvgPool) Name() string { return fmt.Sprintf("avg_pool%dd", o.axes) }

// Name implements [Op].
func (o AdaptivePool) Name() string {
	if o.max {
		return fmt.Sprintf("adaptive_max_pool%dd", o.axes)
	}
	return fmt.Sprintf("adaptive_avg_pool%dd", o.axes)
}

// spatial returns the last axes of the one input, of which there are so many, after
// channels and perhaps samples.
func spatial(in []Type, axes int) ([]int, error) {
	if err := arity(in, 1, 1); err != nil {
		return nil, err
	}
	if err := real(in); err != nil {
		return nil, err
	}
	s := in[0].Shape
	if len(s) != axes+1 && len(s) != axes+2 {
		return nil, fmt.Errorf("input of shape %v: want %d dimensions, or %d without samples", s, axes+2, axes+1)
	}
	return s[len(s)-axes:], nil
}

// resized returns the type of an input whose last axes become others.
func resized(in Type, size []int, f fp16.Format) Type {
	lead := len(in.Shape) - len(size)
	return Type{append(slices.Clone(in.Shape[:lead]), size...), f}
}

// sliding returns the geometry of every axis.
func sliding(size []int, kernel, stride, padding, dilation Ints, ceil bool) ([]pool.Geometry, error) {
	n := len(size)
	if len(kernel) == 0 {
		return nil, fmt.Errorf("kernel_size: missing: want 1 number or %d", n)
	}
	k, err := kernel.each("kernel_size", n, 1)
	if err != nil {
		return nil, err
	}
	if len(stride) == 0 {
		stride = k
	}
	s, err := stride.each("stride", n, 1)
	if err != nil {
		return nil, err
	}
	before, after := padding, padding
	if len(padding) == 2*n {
		before, after = padding[:n], padding[n:]
	}
	b, err := before.each("padding", n, 0)
	if err != nil {
		return nil, fmt.Errorf("padding: %d numbers: want 1, %d, one for each axis, or %d, also of the ends",
			len(padding), n, 2*n)
	}
	a, _ := after.each("padding", n, 0)
	d, err := dilation.each("dilation", n, 1)
	if err != nil {
		return nil, err
	}
	g := make([]pool.Geometry, n)
	for i := range g {
		g[i] = pool.Geometry{Kernel: k[i], Stride: s[i], Dilation: d[i], Before: b[i], After: a[i], Ceil: ceil}
		if f := g[i].Fault(size[i]); f != "" {
			return nil, fmt.Errorf("%s", f)
		}
	}
	return g, nil
}

// slid returns the sizes of what the geometries make.
func slid(size []int, g []pool.Geometry) []int {
	out := make([]int, len(g))
	for i := range g {
		out[i] = g[i].Size(size[i])
	}
	return out
}

// windows returns the windows of the geometries along the last axes of a tensor.
func windows(x *tensor.Tensor, g []pool.Geometry) []pool.Windows {
	w := make([]pool.Windows, len(g))
	for i := range g {
		w[i] = pool.Sliding(x.Shape[len(x.Shape)-len(g)+i], g[i])
	}
	return w
}

func (o MaxPool) geometry(size []int) ([]pool.Geometry, error) {
	return sliding(size, o.Kernel, o.Stride, o.Padding, o.Dilation, o.Ceil)
}

func (o AvgPool) geometry(size []int) ([]pool.Geometry, error) {
	return sliding(size, o.Kernel, o.Stride, o.Padding, o.Dilation, o.Ceil)
}

// Windows returns the windows along the last axes of an input of that shape, which must be
// one that [MaxPool.Infer] takes. It is for package plan alone.
func (o MaxPool) Windows(shape []int) ([]pool.Windows, error) {
	size := shape[len(shape)-o.axes:]
	g, err := o.geometry(size)
	if err != nil {
		return nil, err
	}
	w := make([]pool.Windows, len(g))
	for i := range g {
		w[i] = pool.Sliding(size[i], g[i])
	}
	return w, nil
}

// Infer implements [Op].
func (o MaxPool) Infer(m Mode, in []Type) (Inference, error) {
	size, err := spatial(in, o.axes)
	if err != nil {
		return Inference{}, err
	}
	g, err := o.geometry(size)
	if err != nil {
		return Inference{}, err
	}
	f, err := m.Result(o.Name(), in[0].Format)
	out := []Type{resized(in[0], slid(size, g), f)}
	if o.Indices {
		out = append(out, Type{out[0].Shape, fp16.Int64})
	}
	return Inference{Out: out}, err
}

// Infer implements [Op].
func (o AvgPool) Infer(m Mode, in []Type) (Inference, error) {
	size, err := spatial(in, o.axes)
	if err != nil {
		return Inference{}, err
	}
	g, err := o.geometry(size)
	if err != nil {
		return Inference{}, err
	}
	if o.Divisor != nil && (*o.Divisor < 1 || *o.Divisor > pool.MaxDivisor) {
		return Inference{}, fmt.Errorf("divisor_override: %d: want 1 to 2^53", *o.Divisor)
	}
	f, err := m.Result(o.Name(), in[0].Format)
	return Inference{Out: []Type{resized(in[0], slid(size, g), f)}}, err
}

// Infer implements [Op].
func (o AdaptivePool) Infer(m Mode, in []Type) (Inference, error) {
	size, err := spatial(in, o.axes)
	if err != nil {
		return Inference{}, err
	}
	if len(o.Size) == 0 {
		return Inference{}, fmt.Errorf("output_size: missing: want 1 number or %d", o.axes)
	}
	out, err := o.Size.each("output_size", o.axes, 1)
	if err != nil {
		return Inference{}, err
	}
	for a, n := range out {
		switch {
		case n < 0 || n > mostElements:
			return Inference{}, fmt.Errorf("output_size: %d: want 0 to 2^40", n)
		case size[a] < 1:
			return Inference{}, fmt.Errorf("input of shape %v: want one that is not empty", in[0].Shape)
		}
	}
	f, err := m.Result(o.Name(), in[0].Format)
	t := []Type{resized(in[0], out, f)}
	if o.Indices {
		t = append(t, Type{t[0].Shape, fp16.Int64})
	}
	return Inference{Out: t}, err
}

// Eval implements [Op].
func (o MaxPool) Eval(c *Call) error {
	x := c.In(0)
	g, err := o.geometry(x.Shape[len(x.Shape)-o.axes:])
	if err != nil {
		return err
	}
	if len(c.Out[0].Data) > 0 { // or there may be more windows than fit into memory
		pool.Max(c.Out[0], second(c), x, windows(x, g)...)
	}
	return nil
}

// second returns the second output, or nil.
func second(c *Call) *tensor.Tensor {
	if len(c.Out) < 2 {
		return nil
	}
	return c.Out[1]
}

// Eval implements [Op].
func (o AvgPool) Eval(c *Call) error {
	x := c.In(0)
	g, err := o.geometry(x.Shape[len(x.Shape)-o.axes:])
	if err != nil {
		return err
	}
	count := pool.Count{Padding: o.CountPadding}
	if o.Divisor != nil {
		count.Divisor = *o.Divisor
	}
	if len(c.Out[0].Data) > 0 {
		pool.Average(c.Out[0], x, count, windows(x, g)...)
	}
	return nil
}

// Eval implements [Op].
func (o AdaptivePool) Eval(c *Call) error {
	switch {
	case len(c.Out[0].Data) == 0:
	case o.max:
		pool.Max(c.Out[0], second(c), c.In(0), adaptive(c, o.axes)...)
	default:
		pool.Average(c.Out[0], c.In(0), pool.Count{}, adaptive(c, o.axes)...)
	}
	return nil
}

// adaptive returns the windows of so many last axes that make the output.
func adaptive(c *Call, axes int) []pool.Windows {
	w := make([]pool.Windows, axes)
	from, to := c.In(0).Shape, c.Out[0].Shape
	for i := range w {
		a := len(from) - axes + i
		w[i] = pool.Adaptive(from[a], to[a])
	}
	return w
}

func init() {
	for axes := 1; axes <= 3; axes++ {
		rules := since2(same, same)
		if axes == 3 {
			rules = since2(same, wide)
		}
		averages := rules
		if axes == 2 {
			averages = casts{same, same, same, same}
		}
		register(MaxPool{axes: axes}, rules)
		register(AvgPool{axes: axes, CountPadding: true}, averages)
		register(AdaptivePool{axes: axes}, rules)
		register(AdaptivePool{axes: axes, max: true}, rules)
	}
}
