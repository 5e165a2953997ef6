package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/index"
	"github.com/refrun/refrun/internal/op/spectral"
	"github.com/refrun/refrun/tensor"
)

// FFT is a discrete Fourier transform along one axis or several, all of them one
// function: fft_fft, fft_ifft, fft_rfft (of real numbers, half a spectrum) and fft_irfft
// (back from it). A complex number is two numbers in a last axis of 2, as of PyTorch's
// view_as_real, which Axes do not count; fft_fft and fft_ifft take a last axis of 1, too,
// for real numbers. See [spectral.FFT].
type FFT struct {
	Kind  string `json:"-"`    // fft, ifft, rfft or irfft
	Axes  Ints   `json:"dim"`  // without any, the last one
	Sizes Ints   `json:"n"`    // to which each is cut or filled with zeros, -1 for neither; of irfft, the output's
	Norm  string `json:"norm"` // backward, forward or ortho
}

// ComplexMul is the product of two inputs of complex numbers, each a last axis of 2;
// their other axes spread as numpy's do: complex_mul. See [spectral.Multiply].
type ComplexMul struct{}

// Name implements [Op].
func (o FFT) Name() string { return "fft_" + o.Kind }

// Name implements [Op].
func (ComplexMul) Name() string { return "complex_mul" }

// numbers returns the shape of the complex numbers of a tensor.
func numbers(k int, shape []int, real bool) ([]int, error) {
	last := len(shape) - 1
	if last < 0 || shape[last] != 2 && !(real && shape[last] == 1) {
		or := ""
		if real {
			or = ", or of 1 for real ones"
		}
		return nil, fmt.Errorf("input %d: shape %v: want complex numbers, a last axis of 2%s", k, shape, or)
	}
	return slices.Clone(shape[:last]), nil
}

// plan returns for an input of that shape along which axes it goes, the shape of the
// input cut or filled, and that of the output.
func (o FFT) plan(in []int) (axes, from, to []int, err error) {
	shape := slices.Clone(in)
	if o.Kind != "rfft" {
		if shape, err = numbers(0, in, o.Kind != "irfft"); err != nil {
			return nil, nil, nil, err
		}
	}
	if axes = o.Axes; len(axes) == 0 {
		axes = []int{-1}
	}
	if _, err := marked("dim", axes, len(shape)); err != nil {
		return nil, nil, nil, err
	}
	sizes, err := o.Sizes.each("n", len(axes), -1)
	if err != nil {
		return nil, nil, nil, err
	}
	// shape becomes that of the numbers on the side of the full spectrum.
	axes = slices.Clone(axes)
	for i := range axes {
		axes[i], _ = axis("dim", axes[i], len(shape))
		d := &shape[axes[i]]
		switch {
		case sizes[i] != -1:
			if *d = sizes[i]; *d < 1 || *d > mostElements {
				return nil, nil, nil, fmt.Errorf("n: %d: want 1 to 2^40, or -1", *d)
			}
		case *d < 1:
			return nil, nil, nil, fmt.Errorf("dim: %d: want an axis of 1 number or more", axes[i])
		case o.Kind == "irfft" && i == len(axes)-1:
			if *d = 2 * (*d - 1); *d < 1 {
				return nil, nil, nil, fmt.Errorf("dim: %d: %d number: want 2 or more, or the output's size n", axes[i], *d/2+1)
			}
		}
	}
	if err := bounded(append(slices.Clone(shape), 2)); err != nil {
		return nil, nil, nil, err
	}
	half := slices.Clone(shape)
	last := axes[len(axes)-1]
	half[last] = half[last]/2 + 1
	switch o.Kind {
	case "rfft":
		return axes, shape, append(half, 2), nil
	case "irfft":
		return axes, append(half, 2), shape, nil
	}
	return axes, append(slices.Clone(shape), in[len(in)-1]), append(shape, 2), nil
}

// Infer implements [Op]. PyTorch on CUDA transforms float16 numbers in float16, for
// sizes that are powers of 2 only, and no bfloat16 ones; on the CPU autocast casts both
// to float32.
func (o FFT) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 1, 1); err != nil {
		return Inference{}, err
	}
	if _, err := spectral.ParseNorm(o.Norm); err != nil {
		return Inference{}, fmt.Errorf("norm: %w", err)
	}
	axes, from, to, err := o.plan(in[0].Shape)
	if err != nil {
		return Inference{}, err
	}
	f, err := m.Result(o.Name(), in[0].Format)
	if err != nil {
		return Inference{}, err
	}
	if m.Autocast == CUDA2 {
		lengths := from
		if o.Kind == "irfft" {
			lengths = to
		}
		for _, a := range axes {
			if n := lengths[a]; f == fp16.BFloat16 || f == fp16.Float16 && n&(n-1) != 0 {
				return Inference{}, fmt.Errorf("input 0: %v, transformed to a length of %d: "+
					"PyTorch on CUDA stops with an error: want float32, or float16 and powers of 2", f, n)
			}
		}
	}
	return promoted(m, f, 1, to), nil
}

// promoted is the inference of an operation on so many real operands that whole numbers
// do not stay: PyTorch makes them of its widest type.
func promoted(m Mode, f fp16.Format, operands int, shape []int) Inference {
	if f != fp16.Int64 {
		return Inference{Out: []Type{{shape, f}}}
	}
	return Inference{Operands: slices.Repeat([]fp16.Format{m.Wide()}, operands), Out: []Type{{shape, m.Wide()}}}
}

// Infer implements [Op].
func (o ComplexMul) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 2, 2); err != nil {
		return Inference{}, err
	}
	a, err := numbers(0, in[0].Shape, false)
	if err != nil {
		return Inference{}, err
	}
	b, err := numbers(1, in[1].Shape, false)
	if err != nil {
		return Inference{}, err
	}
	if len(a) < len(b) {
		a, b = b, a
	}
	for i, n := range b {
		to := &a[len(a)-len(b)+i]
		switch {
		case *to == 1:
			*to = n
		case n != 1 && n != *to:
			return Inference{}, fmt.Errorf("inputs of shapes %v and %v: want axes of one size, or of 1",
				in[0].Shape, in[1].Shape)
		}
	}
	f, err := m.Result(o.Name(), in[0].Format, in[1].Format)
	return promoted(m, f, 2, append(a, 2)), err
}

// Eval implements [Op].
func (o FFT) Eval(c *Call) error {
	src := c.In(0)
	axes, from, _, err := o.plan(src.Shape)
	if err != nil {
		return err
	}
	if len(c.Out[0].Data) == 0 {
		return nil // of however long lines
	}
	norm, _ := spectral.ParseNorm(o.Norm)
	if !slices.Equal(from, src.Shape) {
		fit := tensor.New(src.Format, from...)
		index.Pad(fit, src, make([]int, len(from)), index.Constant, 0)
		src = fit
	}
	switch o.Kind {
	case "fft":
		spectral.FFT(c.Out[0], src, axes, norm)
	case "ifft":
		spectral.IFFT(c.Out[0], src, axes, norm)
	case "rfft":
		spectral.RFFT(c.Out[0], src, axes, norm)
	case "irfft":
		spectral.IRFFT(c.Out[0], src, axes, norm)
	}
	return nil
}

// Eval implements [Op].
func (ComplexMul) Eval(c *Call) error {
	spectral.Multiply(c.Out[0], c.In(0), c.In(1))
	return nil
}

func (FFT) inPlace()        {}
func (ComplexMul) inPlace() {}

func init() {
	for _, kind := range []string{"fft", "ifft", "rfft", "irfft"} {
		register(FFT{Kind: kind, Norm: spectral.Backward.String()}, since2(same, wide))
	}
	register(ComplexMul{}, since2(most, most))
}
