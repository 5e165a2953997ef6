package noise

import (
	"fmt"
	"math"
	"strings"

	"github.com/refrun/refrun/internal/elem"
)

// TorchCPU is the random stream of PyTorch's CPU generator, bit for bit as an
// x86-64 machine with AVX2 or AVX-512 produces it (both run the AVX2 kernels).
// It covers float32 tensors that are contiguous in NCHW order, in builds
// without MKL; the numbers are stored as float64.
//
// Every fill consumes the stream in the order of dst. A generator serves one
// goroutine at a time.
type TorchCPU struct {
	mt     mt19937
	log1p  bool    // 2.x: log1p(-u) where 1.13 has log(1-u)
	cached bool    // cache holds the second half of a scalar normal pair
	cache  float64 // standard normal, in double precision
}

var _ Draws = (*TorchCPU)(nil)

// NewTorchCPU returns the stream of a PyTorch release, "1.13" or "2.x", seeded
// with 0. The releases agree except where exponential and short normal fills
// take a logarithm (see [TorchCPU.Exponential]). Any other version, and builds
// with MKL, whose Bernoulli and exponential streams differ, are errors.
func NewTorchCPU(version string, mkl bool) (*TorchCPU, error) {
	if mkl || version != "1.13" && version != "2.x" {
		name := "torch-cpu:" + version
		if mkl {
			name += ":mkl"
		}
		return nil, fmt.Errorf("noise: stream %q is not supported: want torch-cpu:1.13 or torch-cpu:2.x (without MKL)", name)
	}
	t := &TorchCPU{log1p: version == "2.x"}
	t.Seed(0)
	return t, nil
}

// ParseTorchCPU returns the stream named torch-cpu[:VERSION][:mkl]; version is
// used if the name has none. Errors are those of [NewTorchCPU], and a name of
// another form.
func ParseTorchCPU(name, version string) (*TorchCPU, error) {
	release, mkl := strings.CutSuffix(name, ":mkl")
	if v, ok := strings.CutPrefix(release, "torch-cpu:"); ok {
		version = v
	} else if release != "torch-cpu" {
		return nil, fmt.Errorf("noise: stream %q is not of the form torch-cpu[:VERSION]", name)
	}
	return NewTorchCPU(version, mkl)
}

// String returns the stream's full name, such as torch-cpu:1.13.
func (t *TorchCPU) String() string {
	if t.log1p {
		return "torch-cpu:2.x"
	}
	return "torch-cpu:1.13"
}

// Seed restarts the stream as torch.manual_seed(seed) does: only the low 32
// bits count, and a normal kept from an earlier fill is dropped. PyTorch reads
// a negative seed as its two's complement.
func (t *TorchCPU) Seed(seed uint64) {
	t.mt.seed(uint32(seed))
	t.cached = false
}

const (
	msgTorchShape   = "noise: dst does not have the drawn shape"
	msgTorchRange   = "noise: uniform bounds are not finite and ascending"
	msgTorchComplex = "noise: complex normal needs pairs (re, im)"
	msgTorchFanIn   = "noise: fan-in must be positive"
)

// Draw implements [Draws]. A p outside [0,1] and an unknown kind are errors; a
// dst that does not have the shape panics.
func (t *TorchCPU) Draw(kind Kind, p float64, shape []int, dst []float64) error {
	n := 1
	for _, d := range shape {
		n *= d
	}
	if kind == ComplexNormal {
		n *= 2
	}
	if n != len(dst) {
		panic(msgTorchShape)
	}
	switch kind {
	case Normal:
		t.Normal(dst)
	case Exponential:
		t.Exponential(dst)
	case ComplexNormal:
		t.ComplexNormal(dst)
	case Bernoulli:
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("noise: %v: Bernoulli probability %v is not in [0, 1]", t, p)
		}
		t.Bernoulli(dst, p)
	default:
		return fmt.Errorf("noise: %v has no draw %v", t, kind)
	}
	return nil
}

// Uniform fills dst as Tensor.uniform_(from, to) does: x*(to-from) + from with
// x a multiple of 2^-24 in [0,1), one word each. from, to and to-from are
// rounded to float32; the product and the sum are rounded once, together (the
// AVX2 kernel fuses them), so that a value may equal to. With 0 and 1 this is
// torch.rand. Bounds that descend or whose distance is not finite panic.
func (t *TorchCPU) Uniform(dst []float64, from, to float64) {
	a := float32(from)
	width := float32(to) - a
	if !(width >= 0 && width <= math.MaxFloat32) {
		panic(msgTorchRange)
	}
	for i := range dst {
		dst[i] = float64(fma32(t.mt.u24(), width, a))
	}
}

// Exponential fills dst as Tensor.exponential_() does: -ln(1-u), u a multiple
// of 2^-53 in [0,1), two words each, in double precision and rounded to
// float32.
//
// Release 1.13 takes log(1-u), 2.x log1p(-u). As 1-u is exact both are the same
// real number. What is left of the difference is the zero of u = 0, -0 in 1.13
// and +0 in 2.x, and the last bits of the double, in which PyTorch's C library
// may differ from internal/elem as well. Here and in short normal fills the two
// are at most 8 ulp of float64 apart, so they round to different float32 numbers
// with a probability below 8 * 2^-29.
func (t *TorchCPU) Exponential(dst []float64) {
	for i := range dst {
		dst[i] = float64(float32(-t.logComplement(t.mt.u53())))
	}
}

// logComplement returns ln(1-u) the way the release takes it.
func (t *TorchCPU) logComplement(u float64) float64 {
	if t.log1p {
		return elem.Log1p(-u)
	}
	return elem.Log(1 - u)
}

// Bernoulli fills dst as Tensor.bernoulli_(p) with a number p does: 1 where
// u < p, else 0, with u a multiple of 2^-53, two words each.
//
// Dropout of probability q is this with p = 1-q, and a division by 1-q: its
// mask has one element per tensor element, dropout2d's one per sample and
// channel, in that order.
func (t *TorchCPU) Bernoulli(dst []float64, p float64) {
	for i := range dst {
		dst[i] = 0
		if t.mt.u53() < p {
			dst[i] = 1
		}
	}
}

// ConvInit fills the parameters of a Conv2d or ConvTranspose2d as their
// constructors do: first the weight, in memory order, uniform in [-b, b], then
// the bias, uniform in [-1/sqrt(fanIn), 1/sqrt(fanIn)]; a nil bias draws
// nothing. fanIn is kh*kw times the second dimension of the weight: input
// channels per group, and for ConvTranspose2d output channels per group.
//
// b is 1/sqrt(fanIn) too, but reached by way of kaiming_uniform_ with
// a = sqrt(5): b = sqrt(3) * (sqrt(2/(1+a^2)) / sqrt(fanIn)) in double
// precision (torch/nn/init.py, torch/nn/modules/conv.py).
func (t *TorchCPU) ConvInit(weight, bias []float64, fanIn int) {
	if fanIn <= 0 {
		panic(msgTorchFanIn)
	}
	root := math.Sqrt(float64(fanIn))
	a := math.Sqrt(5)
	gain := math.Sqrt(2 / (1 + float64(a*a)))
	b := math.Sqrt(3) * (gain / root)
	t.Uniform(weight, -b, b)
	if bias != nil {
		t.Uniform(bias, -1/root, 1/root)
	}
}
