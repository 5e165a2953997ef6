package graph

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/tensor"
)

// Conv is conv2d: of an input [N,IC,H,W], a weight [OC,IC/Groups,KH,KW] and, as a third
// input, a bias [OC] or none. See [conv.Forward]; [conv.Square] makes the usual Params:
//
//	graph.Conv{Params: conv.Square(1, 1, conv.Zeros)} // a stride of 1, a frame of one zero
type Conv struct {
	conv.Params
	Groups int  // 0 means 1
	Same   bool // padding as much as keeps the size at a stride of 1, an odd pixel at the end
}

// ConvTranspose is conv_transpose2d: of an input [N,IC,H,W], a weight
// [IC,OC/Groups,KH,KW] and, as a third input, a bias [OC] or none. See [conv.Transposed].
type ConvTranspose struct {
	conv.Params
	Groups        int    // 0 means 1
	OutputPadding [2]int // rows and columns more at the end
}

// Name implements [Op].
func (Conv) Name() string { return "conv2d" }

// Name implements [Op].
func (ConvTranspose) Name() string { return "conv_transpose2d" }

// product returns the types of a convolution whose output has that shape.
func product(m Mode, op string, in []Type, shape ...int) (Inference, error) {
	operands, out := m.Product(op, in[0].Format)
	of := []fp16.Format{operands, operands}
	if operands != fp16.TF32 {
		of = append(of, operands) // the bias
	}
	return Inference{Operands: of, Out: []Type{{shape, out}}}, nil
}

// images checks the inputs of a convolution whose weight has the input's channels in
// dimension ic, divided by so many, and oc output channels.
func images(in []Type, ic, divided, groups int, oc func(w []int) int) error {
	if len(in) != 2 && len(in) != 3 {
		return fmt.Errorf("%d inputs: want an input, a weight, and a bias or none", len(in))
	}
	if err := real(in); err != nil {
		return err
	}
	x, w := in[0].Shape, in[1].Shape
	switch {
	case len(x) != 4:
		return fmt.Errorf("input of shape %v: want [N,C,H,W]", x)
	case len(w) != 4:
		return fmt.Errorf("weight of shape %v: want four dimensions", w)
	case x[1] != w[ic]*divided:
		return fmt.Errorf("input has %d channels: want %d", x[1], w[ic]*divided)
	case w[0]%groups != 0:
		return fmt.Errorf("weight of shape %v: want a multiple of the %d groups first", w, groups)
	case min(w[0], w[1], w[2], w[3]) < 1:
		return fmt.Errorf("weight of shape %v: want one that is not empty", w)
	case len(in) == 3 && (len(in[2].Shape) != 1 || in[2].Shape[0] != oc(w)):
		return fmt.Errorf("bias of shape %v: want [%d]", in[2].Shape, oc(w))
	}
	return nil
}

// Geometry returns the geometry for kernels of that size, or an error that names what is
// wrong with it.
func (c Conv) Geometry(kh, kw int) (conv.Params, error) {
	p := c.Params
	if err := bearable(p, kh, kw); err != nil || !c.Same {
		return p, err
	}
	for axis, k := range [2]int{kh, kw} {
		if p.Stride[axis] > 1 {
			return p, fmt.Errorf("padding: same: want a stride of 1, not %d", p.Stride[axis])
		}
		all := max(p.Dilation[axis], 1) * (k - 1)
		p.Pad[axis], p.Pad[axis+2] = all/2, all-all/2
	}
	return p, nil
}

// bearable returns an error for a geometry that no convolution has, or in which sizes up to
// those given leave the range of numbers.
func bearable(p conv.Params, h, w int) error {
	for axis, n := range [2]int{h, w} {
		for i, v := range [2]int{p.Stride[axis], p.Dilation[axis]} {
			name := [2]string{"stride", "dilation"}[i]
			if v < 0 || v > mostStep {
				return fmt.Errorf("%s: %d: want 1 to 2^30", name, v)
			}
			if v > 1 && n > mostElements/v {
				return fmt.Errorf("%s: %d: want less beside a size of %d", name, v, n)
			}
		}
		for _, v := range [2]int{p.Pad[axis], p.Pad[axis+2]} {
			if v < 0 || v > mostStep {
				return fmt.Errorf("padding: %d: want 0 to 2^30", v)
			}
		}
	}
	return nil
}

// mostStep bounds strides, dilations and paddings, so that sizes are numbers.
const mostStep = 1 << 30

// Infer implements [Op].
func (c Conv) Infer(m Mode, in []Type) (Inference, error) {
	groups := max(c.Groups, 1)
	if err := images(in, 1, groups, groups, func(w []int) int { return w[0] }); err != nil {
		return Inference{}, err
	}
	x, w := in[0].Shape, in[1].Shape
	h, wd := x[2], x[3]
	g, err := c.Geometry(w[2], w[3])
	if err != nil {
		return Inference{}, err
	}
	c.Params = g
	least := func(before, after int) int { // the smallest side the padding can be taken from
		switch c.Padding {
		case conv.Circular:
			return max(1, before, after)
		case conv.Reflect:
			return max(before, after) + 1
		}
		return 1
	}
	if lh, lw := least(c.Pad[0], c.Pad[2]), least(c.Pad[1], c.Pad[3]); h < lh || wd < lw {
		by := fmt.Sprint(c.Pad)
		if c.Params == conv.Square(c.Stride[0], c.Pad[0], c.Padding) {
			by = fmt.Sprint(c.Pad[0])
		}
		return Inference{}, fmt.Errorf("image is %dx%d: want at least %dx%d for %s padding by %s",
			h, wd, lh, lw, c.Padding, by)
	}
	oh, ow := c.OutSize(h, wd, w[2], w[3])
	if oh < 1 || ow < 1 {
		return Inference{}, fmt.Errorf("image is %dx%d: want one that a kernel of %dx%d fits", h, wd, w[2], w[3])
	}
	return product(m, c.Name(), in, x[0], w[0], oh, ow)
}

// Infer implements [Op].
func (c ConvTranspose) Infer(m Mode, in []Type) (Inference, error) {
	groups := max(c.Groups, 1)
	if err := images(in, 0, 1, groups, func(w []int) int { return w[1] * groups }); err != nil {
		return Inference{}, err
	}
	for d, extra := range c.OutputPadding {
		if stride := max(c.Stride[d], 1); extra < 0 || extra >= stride {
			return Inference{}, fmt.Errorf("output_padding: %v: want less than the stride %v", c.OutputPadding, c.Stride)
		}
	}
	x, w := in[0].Shape, in[1].Shape
	if err := bearable(c.Params, max(x[2], w[2]), max(x[3], w[3])); err != nil {
		return Inference{}, err
	}
	oh, ow := c.TransposedSize(x[2], x[3], w[2], w[3], c.OutputPadding)
	if oh < 1 || ow < 1 {
		return Inference{}, fmt.Errorf("image is %dx%d: want one of which padding by %v leaves something", x[2], x[3], c.Pad)
	}
	return product(m, c.Name(), in, x[0], w[1]*groups, oh, ow)
}

// Eval implements [Op].
func (c Conv) Eval(call *Call) error {
	if k, w := call.program.patches(call.node); k != nil {
		call.patches(k, w)
		return nil
	}
	kh, kw := call.in[1].H(), call.in[1].W()
	g, err := c.Geometry(kh, kw)
	if err != nil {
		return err
	}
	if call.few(call.Out[0], call.In(0), kh, kw, g, c.Groups) {
		return nil
	}
	k := kernelOf(call, max(c.Groups, 1), false, "", asItIs)
	conv.Forward(call.Out[0], call.In(0), k.Kernel, g)
	k.addBias(call.Out[0])
	return nil
}

// Eval implements [Op].
func (c ConvTranspose) Eval(call *Call) error {
	if w := call.in[1]; call.spreads(call.Out[0], call.In(0), w.H(), w.W(), c) {
		return nil
	}
	k := kernelOf(call, max(c.Groups, 1), true, "", asItIs)
	conv.Transposed(call.Out[0], call.In(0), k.Kernel, c.Params)
	k.addBias(call.Out[0])
	return nil
}

// Kernel is a convolution's weights as a mode takes them. It is for package plan alone.
type Kernel struct {
	*conv.Kernel
	Bias []float64 // to be added after rounding, where the bias is an operation of its own; else nil
}

// Bytes returns the memory that it holds.
func (k *Kernel) Bytes() int64 { return k.Kernel.Bytes() + 8*int64(len(k.Bias)) }

// kernelOf returns the kernel of a call, kept from one evaluation to the next where
// the weights are constants. A part of a weight has a name, and a function that takes it.
func kernelOf(c *Call, groups int, transposed bool, part string, take func(*tensor.Tensor) *tensor.Tensor) *Kernel {
	of := c.program.Operand(c.node, 1)
	var bias, constant *tensor.Tensor
	if c.Inputs() == 3 {
		bias, constant = c.in[2], c.constantOf(2)
	}
	mode := c.Mode
	mode.Fast = mode.Fast && part == "" // of images only
	key := keyOf(mode, of, constant, groups)
	key.transposed, key.part = transposed, part
	prepare := conv.NewGroupedKernel
	if transposed {
		prepare = conv.NewGroupedTransposedKernel
	}
	return c.Keep(key, []int{1, 2},
		func() any { return newKernel(mode, of, take(c.in[1]), bias, groups, prepare) }).(*Kernel)
}

// asItIs takes all of a weight.
func asItIs(weight *tensor.Tensor) *tensor.Tensor { return weight }

// kernelKey is what, beside the weight, decides a kernel.
type kernelKey struct {
	bias       *tensor.Tensor
	groups     int
	transposed bool
	part       string
	operands   fp16.Format
	tf32       fp16.Rounding
	apart      bool // the bias is not part of the kernel
	fast       bool
}

// keyOf returns the key of a convolution in groups.
func keyOf(m Mode, operands fp16.Format, bias *tensor.Tensor, groups int) kernelKey {
	return kernelKey{bias: bias, groups: groups, operands: operands, tf32: m.TF32, apart: m.BiasApart(), fast: m.Fast}
}

// Kernel returns the kernel of a convolution in groups with constant weights, operands
// rounded to a format; bias may be nil.
func (k *Kept) Kernel(m Mode, operands fp16.Format, weight, bias *tensor.Tensor, groups int) *Kernel {
	return k.get(keptKey{weight, keyOf(m, operands, bias, groups)},
		func() any { return newKernel(m, operands, weight, bias, groups, conv.NewGroupedKernel) }).(*Kernel)
}

func newKernel(m Mode, operands fp16.Format, weight, bias *tensor.Tensor, groups int,
	prepare func(*tensor.Tensor, []float64, int) *conv.Kernel) *Kernel {
	w := *m.cast(weight, operands)
	w.Format = operands
	k, b := &Kernel{}, []float64(nil)
	if bias != nil {
		if operands != fp16.TF32 {
			bias = m.cast(bias, operands)
		}
		b = bias.Data
		if m.BiasApart() {
			k.Bias, b = b, nil
		}
	}
	if k.Kernel = prepare(&w, b, groups); m.Fast {
		k.Kernel = k.Kernel.Fast()
	}
	return k
}

// addBias adds the bias that the kernel left out, rounding once more. (The float64 sum
// is exact or rounding it again is innocuous: see package pointwise.)
func (k *Kernel) addBias(y *tensor.Tensor) {
	if k.Bias == nil {
		return
	}
	for i := range y.N() * y.C() {
		plane, b := y.Plane(i/y.C(), i%y.C()), k.Bias[i%y.C()]
		for j, v := range plane {
			plane[j] = y.Format.Round(v + b)
		}
	}
}

func init() {
	for _, n := range []int{1, 3} {
		for _, transposed := range []bool{false, true} {
			bind(Convolution{axes{stride: make([]int, n)}, transposed}.Name(), since2(half, half),
				func(attributes []byte) (Op, error) {
					a, err := readConvolution(attributes, n, transposed)
					return Convolution{a, transposed}, err
				})
		}
	}
	bind("conv2d", casts{half, half, half, half}, bindConv)
	bind("conv_transpose2d", casts{half, half, wide, half}, bindConvTranspose)
}

// products of a convolution: each output takes one for each weight of its channel.
func (Conv) products(in, out []Type) int64 {
	return out[0].elements() * in[1].elements() / int64(in[1].Shape[0])
}

// products of a convolution of lines or volumes.
func (c Convolution) products(in, out []Type) int64 {
	if c.transposed {
		return ConvTranspose{}.products(in, out)
	}
	return Conv{}.products(in, out)
}

// products of a transposed convolution: each input takes part in one for each weight of
// its channel.
func (ConvTranspose) products(in, out []Type) int64 {
	return in[0].elements() * in[1].elements() / int64(in[1].Shape[0])
}
