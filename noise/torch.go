package noise

import (
	"fmt"
	"math"
	"strings"

	"github.com/refrun/refrun/fp16"

	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/exact/single"
)

// TorchCPU is the random stream of PyTorch's CPU generator, bit for bit as an
// x86-64 machine with AVX2 or AVX-512 produces it (both run the AVX2 kernels).
// It covers float32 tensors that are contiguous in NCHW order, and normals of
// narrower ones ([TorchCPU.NormalHalf]); the numbers are stored as float64.
//
// Builds with Intel's MKL, such as the wheels of PyPI for x86-64, differ from
// builds without it, such as Debian's, in Bernoulli and exponential draws alone.
// Release 1.13 makes use of MKL for Bernoulli draws only, and on Intel's
// processors only: on another it is a stream without MKL whatever the build.
// Releases 2.0 to 2.6 use it for both on any processor; its exponential stream is not
// documented and not supported here. From 2.7 on public builds use it for neither
// (ATen's DistributionKernels.cpp; 2.9.1 was measured).
//
// Every fill consumes the stream in the order of dst. A generator serves one
// goroutine at a time.
type TorchCPU struct {
	mt     mt19937
	log1p  bool    // 2.x: log1p(-u) where 1.13 has log(1-u)
	mkl    bool    // Bernoulli draws, and in 2.x exponential ones, are MKL's
	cached bool    // cache holds the second half of a scalar normal pair
	cache  float64 // standard normal, in double precision
	blocks torchBlocks

	// Half is Float16 or BFloat16 if Draw's normal draws are for tensors of
	// that type, which PyTorch fills with other numbers (see NormalHalf); any
	// other format means float32.
	Half fp16.Format
}

var _ Draws = (*TorchCPU)(nil)

// newTorchCPU returns the stream of a PyTorch release, "1.13" or "2.x", with MKL or without.
func newTorchCPU(version string, mkl bool) (*TorchCPU, error) {
	if version != "1.13" && version != "2.x" {
		name := "torch-cpu:" + version
		if mkl {
			name += ":mkl"
		}
		return nil, fmt.Errorf("noise: stream %.60q is not supported: want torch-cpu:1.13 or torch-cpu:2.x, "+
			"either with or without :mkl", name)
	}
	t := &TorchCPU{log1p: version == "2.x", mkl: mkl}
	t.Seed(0)
	return t, nil
}

// ParseTorchCPU returns the stream named torch-cpu[:VERSION][:mkl], seeded with 0; version
// is used if the name has none. It is 1.13 or 2.x. These releases agree except where
// exponential and short normal fills take a logarithm (see [TorchCPU.Exponential]).
// With mkl the Bernoulli draws are those of MKL, and so would 2.x's exponential
// draws be, which are refused. Any other version, and a name of another form, is an error.
func ParseTorchCPU(name, version string) (*TorchCPU, error) {
	release, mkl := strings.CutSuffix(name, ":mkl")
	if v, ok := strings.CutPrefix(release, "torch-cpu:"); ok {
		version = v
	} else if release != "torch-cpu" {
		return nil, fmt.Errorf("noise: stream %.60q is not of the form torch-cpu[:VERSION][:mkl]", name)
	}
	return newTorchCPU(version, mkl)
}

// String returns the stream's full name, such as torch-cpu:1.13 or
// torch-cpu:2.x:mkl.
func (t *TorchCPU) String() string {
	name := "torch-cpu:1.13"
	if t.log1p {
		name = "torch-cpu:2.x"
	}
	if t.mkl {
		name += ":mkl"
	}
	return name
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
	msgTorchMKL     = "noise: exponential draws of MKL are not supported"
)

// Draw implements [Draws]. A p outside [0,1], an unknown kind and an exponential
// draw of torch-cpu:2.x:mkl are errors; a dst that does not have the shape
// panics.
func (t *TorchCPU) Draw(kind Kind, p float64, shape []int, dst []float64) error {
	if err := checkTorchDraw(t, kind, p, shape, dst); err != nil {
		return err
	}
	switch kind {
	case Normal:
		if t.Half.Half() {
			return t.NormalHalf(dst, t.Half)
		}
		t.Normal(dst)
	case Exponential:
		if t.mkl && t.log1p {
			return fmt.Errorf("noise: %v: exponential draws of MKL are not supported: want a tape, or a build without MKL", t)
		}
		t.Exponential(dst)
	case Bernoulli:
		t.Bernoulli(dst, p)
	case ComplexNormal:
		t.ComplexNormal(dst)
	}
	return nil
}

// checkTorchDraw is what the streams ask of every draw.
func checkTorchDraw(stream fmt.Stringer, kind Kind, p float64, shape []int, dst []float64) error {
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
	if int(kind) >= len(kindNames) {
		return fmt.Errorf("noise: %v has no draw %v", stream, kind)
	}
	if kind == Bernoulli && !(p >= 0 && p <= 1) {
		return fmt.Errorf("noise: %v: Bernoulli probability %v is not in [0, 1]", stream, p)
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
		dst[i] = float64(single.FMA(t.mt.u24(), width, a))
	}
}

// Exponential fills dst as Tensor.exponential_() does: -ln(1-u), u a multiple
// of 2^-53 in [0,1), two words each, in double precision and rounded to
// float32.
//
// Release 1.13 takes log(1-u), 2.x log1p(-u). As 1-u is exact both are the same
// real number. What is left of the difference is the zero of u = 0, -0 in 1.13
// and +0 in 2.x, and the last bits of the double, in which PyTorch's C library
// may differ from internal/exact/elem as well. Here and in short normal fills the two
// are at most 8 ulp of float64 apart, so they round to different float32 numbers
// with a probability below 8 * 2^-29.
//
// It panics in a 2.x stream with MKL.
func (t *TorchCPU) Exponential(dst []float64) {
	if t.mkl && t.log1p {
		panic(msgTorchMKL)
	}
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
// u < p, else 0, with u a multiple of 2^-53, two words each, or with MKL's u,
// one word in all, be dst empty (see mcg31).
//
// Dropout of probability q is this with p = 1-q, and a division by 1-q: its
// mask has one element per tensor element, dropout2d's one per sample and
// channel, in that order.
func (t *TorchCPU) Bernoulli(dst []float64, p float64) {
	u := t.mt.u53
	if t.mkl {
		g := newMCG31(t.mt.random())
		u = g.uniform
	}
	for i := range dst {
		dst[i] = 0
		if u() < p {
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
