package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/tensor"
)

// Convolution is conv1d, conv3d, conv_transpose1d and conv_transpose3d: of an input [N,IC,L]
// or [N,IC,D,H,W], a weight of as many axes and, as a third input, a bias [OC] or none.
//
// It is a sum of [conv.Forward]'s or [conv.Transposed]'s. A line is an image of one row. A
// slice of a volume is an image whose channels are all slices that its taps read, each with
// the weights of its tap, so that it is one sum, rounded once. Its float64 order is by
// channel, then depth, from the last tap to the first if it is transposed, and then that of
// the image.
type Convolution struct {
	axes
	transposed bool
}

// Name implements [Op].
func (c Convolution) Name() string {
	if c.transposed {
		return fmt.Sprintf("conv_transpose%dd", len(c.stride))
	}
	return fmt.Sprintf("conv%dd", len(c.stride))
}

// image returns the convolution of images.
func (c Convolution) image() Op {
	if c.transposed {
		return ConvTranspose{Params: c.plane(), Groups: c.groups, OutputPadding: c.extras()}
	}
	return Conv{Params: c.plane(), Groups: c.groups, Same: c.same}
}

// flat returns the shape of an image's tensor or weight for one of a line or of a volume.
func flat(shape []int) []int {
	if len(shape) == 3 {
		return []int{shape[0], shape[1], 1, shape[2]}
	}
	return append(shape[:2:2], shape[3:]...)
}

// Infer implements [Op].
func (c Convolution) Infer(m Mode, in []Type) (Inference, error) {
	n := len(c.stride)
	if err := arity(in, 2, 3); err != nil {
		return Inference{}, err
	}
	images := slices.Clone(in)
	for i, name := range []string{"input", "weight"} {
		if len(in[i].Shape) != n+2 {
			return Inference{}, fmt.Errorf("%s of shape %v: want %d dimensions", name, in[i].Shape, n+2)
		}
		images[i].Shape = flat(in[i].Shape)
	}
	inf, err := c.image().Infer(m, images)
	if err != nil {
		return Inference{}, err
	}
	if _, err = m.Result(c.Name(), in[0].Format); err != nil {
		return Inference{}, err
	}
	out := &inf.Out[0]
	if n == 1 {
		out.Shape = append(out.Shape[:2:2], out.Shape[3])
		return inf, nil
	}
	d, err := c.depth(in[0].Shape[2], in[1].Shape[2])
	if err != nil {
		return Inference{}, err
	}
	out.Shape = append(append(out.Shape[:2:2], d.out), out.Shape[2:]...)
	return inf, nil
}

// depth is the first axis of a volume.
type depth struct {
	stride, dilation, before int
	in, kernel, out          int
	padding                  conv.Padding
	transposed               bool
}

// depth returns the first axis for an input and a kernel of a depth, or an error. The axis is
// treated as the rows of an image of one column.
func (c Convolution) depth(in, kernel int) (depth, error) {
	first := axes{c.stride[:1], c.dilation[:1], c.before[:1], c.after[:1], c.extra[:1], c.groups, c.same, c.padding}
	line := []Type{{[]int{1, 1, in}, fp16.Float32}, {[]int{1, 1, kernel}, fp16.Float32}}
	first.groups = 1
	inf, err := Convolution{first, c.transposed}.Infer(Mode{Precision: fp16.Float32}, line)
	if err != nil {
		return depth{}, fmt.Errorf("depth: %w", err)
	}
	d := depth{c.stride[0], c.dilation[0], c.before[0], in, kernel, inf.Out[0].Shape[2], c.padding, c.transposed}
	if c.same {
		d.before = d.dilation * (kernel - 1) / 2
	}
	return d, nil
}

// tap is a slice of the input and the slice of the weight that it meets; -1 are zeros.
type tap struct{ slice, kernel int }

// taps returns what slice z of the result reads.
func (d *depth) taps(z int) (of []tap) {
	for k := range d.kernel {
		if d.transposed {
			k = d.kernel - 1 - k
			at := z + d.before - k*d.dilation
			if at >= 0 && at%d.stride == 0 && at/d.stride < d.in {
				of = append(of, tap{at / d.stride, k})
			}
			continue
		}
		at, n := z*d.stride+k*d.dilation-d.before, d.in
		inside := at >= 0 && at < n
		switch {
		case inside:
		case d.padding == conv.Zeros:
			continue
		case d.padding == conv.Circular:
			at = (at%n + n) % n
		case d.padding == conv.Reflect && at < 0:
			at = -at
		case d.padding == conv.Reflect:
			at = 2*(n-1) - at
		default:
			at = min(max(at, 0), n-1)
		}
		of = append(of, tap{at, k})
	}
	if len(of) == 0 { // a sum of nothing but the bias
		of = append(of, tap{-1, -1})
	}
	return of
}

// Eval implements [Op].
func (c Convolution) Eval(call *Call) error {
	y, x, w := call.Out[0], call.In(0), call.in[1]
	if len(c.stride) == 1 {
		if k, w := call.program.patches(call.node); k != nil {
			call.patches(k, w)
			return nil
		}
		if op, ok := c.image().(Conv); ok {
			g, err := op.Geometry(1, w.Shape[2])
			if err != nil {
				return err
			}
			if call.few(lineImage(y), lineImage(x), 1, w.Shape[2], g, c.groups) {
				return nil
			}
		}
		k := kernelOf(call, c.groups, c.transposed, "", lineImage)
		return c.convolve(lineImage(y), lineImage(x), k, 1, w.Shape[2])
	}
	d, err := c.depth(x.Shape[2], w.Shape[2])
	if err != nil {
		return err
	}
	n, ic, oc := x.Shape[0], x.Shape[1], y.Shape[1]
	plane, area := x.Shape[3]*x.Shape[4], y.Shape[3]*y.Shape[4]
	slice := tensor.New(y.Format, n, oc, y.Shape[3], y.Shape[4])
	for z := range d.out {
		taps := d.taps(z)
		src := tensor.New(x.Format, n, ic*len(taps), x.Shape[3], x.Shape[4])
		for i := range n * ic {
			for j, t := range taps {
				if t.slice >= 0 {
					copy(src.Data[(i*len(taps)+j)*plane:][:plane], x.Data[(i*d.in+t.slice)*plane:])
				}
			}
		}
		k := kernelOf(call, c.groups, c.transposed, kernels(taps),
			func(w *tensor.Tensor) *tensor.Tensor { return c.tapWeights(w, taps) })
		if err := c.convolve(slice, src, k, w.Shape[3], w.Shape[4]); err != nil {
			return err
		}
		for i := range n * oc {
			copy(y.Data[(i*d.out+z)*area:][:area], slice.Data[i*area:])
		}
	}
	return nil
}

// convolve convolves images with kernels of a size.
func (c Convolution) convolve(y, x *tensor.Tensor, k *Kernel, kh, kw int) error {
	switch op := c.image().(type) {
	case ConvTranspose:
		conv.Transposed(y, x, k.Kernel, op.Params)
	case Conv:
		g, err := op.Geometry(kh, kw)
		if err != nil {
			return err
		}
		conv.Forward(y, x, k.Kernel, g)
	}
	k.addBias(y)
	return nil
}

// lineImage sees lines as images of one row.
func lineImage(t *tensor.Tensor) *tensor.Tensor {
	return &tensor.Tensor{Shape: flat(t.Shape), Format: t.Format, Data: t.Data}
}

// tapWeights returns a weight of images of the slices of a weight that taps have: for each
// input channel those of all taps.
func (c Convolution) tapWeights(w *tensor.Tensor, taps []tap) *tensor.Tensor {
	s, n := w.Shape, len(taps)
	area := s[3] * s[4]
	of := tensor.New(w.Format, s[0], s[1]*n, s[3], s[4])
	if c.transposed {
		of = tensor.New(w.Format, s[0]*n, s[1], s[3], s[4])
	}
	for i := range s[0] * s[1] {
		for j, t := range taps {
			to := i*n + j
			if c.transposed { // [IC,OC/groups,...]
				to = (i/s[1]*n+j)*s[1] + i%s[1]
			}
			if t.kernel >= 0 {
				copy(of.Data[to*area:][:area], w.Data[(i*s[2]+t.kernel)*area:])
			}
		}
	}
	return of
}

// kernels names the slices of the weight.
func kernels(taps []tap) string {
	var s []byte
	for _, t := range taps {
		s = fmt.Appendf(s, "%d ", t.kernel)
	}
	return string(s)
}
