package graph

import (
	"fmt"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Autocast names the rules by which PyTorch chooses the type of every
// operation in a half precision: a device and a release.
type Autocast uint8

// The rule sets. The half type itself is the Precision of the [Mode]: the
// lists do not depend on it.
const (
	NoAutocast Autocast = iota
	CUDA113
	CUDA2
	CPU113
	CPU2
)

var autocastNames = [...]string{"none", "cuda:1.13", "cuda", "cpu:1.13", "cpu"}

// String returns the name used in mode strings: cuda, cpu (both as in 2.x),
// cuda:1.13 or cpu:1.13.
func (a Autocast) String() string {
	if int(a) < len(autocastNames) {
		return autocastNames[a]
	}
	return fmt.Sprintf("Autocast(%d)", uint8(a))
}

// ParseAutocast returns the rule set of that name: cuda or cpu, alone or with
// the release whose rules they are, :1.13 or :2.x. "" means cuda, no release
// 2.x. Any other name is an error.
func ParseAutocast(name string) (Autocast, error) {
	switch strings.TrimSuffix(name, ":2.x") {
	case "", "cuda":
		return CUDA2, nil
	case "cpu":
		return CPU2, nil
	case "cuda:1.13":
		return CUDA113, nil
	case "cpu:1.13":
		return CPU113, nil
	}
	return 0, fmt.Errorf("unknown autocast %.60q: want cuda or cpu, or one of them with a release, :1.13 or :2.x", name)
}

// rule is what autocast makes of an operation's inputs.
type rule uint8

const (
	same       rule = iota // nothing: the result has the type of the input
	half                   // casts them to the half type, which the result has
	wide                   // casts them to float32, which the result has
	most                   // promotes them to the widest among them, which the result has
	fail                   // stops with an error for a half input
	unrecorded             // is not known here
)

// casts are the rules of one operation: of CUDA 1.13 and 2.x, and of the CPU 1.13
// and 2.x. Of an operation that is not Spinlock's, those of 1.13 are not recorded.
//
// An operation that PyTorch's lists do not name runs in the type of its input; one
// of two tensors then promotes. Norms take their float32 weights as they are.
// Sources: ATen's autocast_mode.cpp (1.13) and autocast_mode.h (2.x). The CPU
// columns are held to what PyTorch returns (testdata/autocast).
type casts [4]rule

// since2 are the rules of an operation that is only recorded in PyTorch 2.x.
func since2(cuda, cpu rule) casts { return casts{unrecorded, cuda, unrecorded, cpu} }

// Result returns the format of the output of an operation for inputs of those
// formats, or an error if PyTorch refuses them. Without autocast it is the widest of
// the inputs, as PyTorch promotes types. Whole numbers give way to any other format, and
// alone stay what they are, as float64 numbers do: autocast leaves them alone.
func (m Mode) Result(op string, in ...fp16.Format) (fp16.Format, error) {
	e, ok := registry[op]
	if !ok {
		panic("graph: operation without an autocast rule")
	}
	return m.result(op, e.casts, in...)
}

// result is Result by other rules, for operations whose attributes choose them.
func (m Mode) result(op string, c casts, in ...fp16.Format) (fp16.Format, error) {
	widest := widest(in)
	if m.Autocast == NoAutocast || widest == fp16.Int64 || widest == fp16.Float64 {
		return widest, nil
	}
	switch c[m.Autocast-CUDA113] {
	case half:
		return m.Precision, nil
	case wide:
		return fp16.Float32, nil
	case fail:
		if widest != fp16.Float32 {
			return 0, fmt.Errorf("%s of %v numbers with float32 weights: PyTorch's autocast %v stops with an error: "+
				"want another norm, or another autocast", op, widest, m.Autocast)
		}
	case unrecorded:
		return 0, fmt.Errorf("%s: what PyTorch's autocast %v makes of it was not recorded: "+
			"want autocast cuda or cpu, of 2.x", op, m.Autocast)
	}
	return widest, nil
}

// widest returns the type to which PyTorch promotes those of tensors: the two half
// types to float32, whole numbers to any other.
func widest(in []fp16.Format) fp16.Format {
	w := fp16.Int64
	for _, f := range in {
		switch {
		case f == w || f == fp16.Int64 || w == fp16.Float64:
		case w == fp16.Int64 || f == fp16.Float64:
			w = f
		default: // two of float32 and the half types
			w = fp16.Float32
		}
	}
	return w
}

// Product returns the format to which an operation of products, such as a
// convolution, rounds its operands (the input, the weights, and in half types the
// bias) and that of its output. Float64 numbers stay what they are, in every mode.
func (m Mode) Product(op string, in fp16.Format) (operands, out fp16.Format) {
	switch {
	case m.Precision == fp16.Float64, in == fp16.Float64:
		return fp16.Float64, fp16.Float64
	case m.Precision == fp16.TF32:
		return fp16.TF32, fp16.Float32
	}
	out, _ = m.Result(op, in)
	return out, out
}

// BiasApart reports whether a convolution's bias is added by an operation of its
// own, which rounds once more, as autocast on CUDA does. On the CPU a biased
// convolution is one operation.
func (m Mode) BiasApart() bool { return m.Autocast == CUDA113 || m.Autocast == CUDA2 }

// Scalar returns a constant of a rollout (a noise scale, a policy's dt or
// 1-alpha) as it is multiplied with numbers of format f: as the float32 number
// next to it (the number itself in float64 mode). The CPU of PyTorch 1.13 rounds
// it to the type of the tensor, which testdata/autocast shows.
func (m Mode) Scalar(v float64, f fp16.Format) float64 {
	if m.Precision == fp16.Float64 {
		return v
	}
	v = fp16.Float32.Round(v)
	if m.Autocast == CPU113 {
		v = f.Round(v)
	}
	return v
}

// RoundSlice rounds numbers to a format of operands, TF32 as the mode says.
func (m Mode) RoundSlice(f fp16.Format, dst, src []float64) {
	if f != fp16.TF32 || m.TF32 == fp16.NearestEven {
		f.RoundSlice(dst, src)
		return
	}
	for i, v := range src {
		dst[i] = fp16.RoundTF32(v, m.TF32)
	}
}

// cast returns x as operands of that format, x itself if its numbers are.
func (m Mode) cast(x *tensor.Tensor, f fp16.Format) *tensor.Tensor {
	if x.Format == f || x.Format != fp16.Int64 && (f == fp16.Float64 || f == fp16.Float32) {
		return x
	}
	y := tensor.New(f, x.Shape...)
	m.RoundSlice(f, y.Data, x.Data)
	return y
}
