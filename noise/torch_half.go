package noise

import (
	"fmt"
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
)

// NormalHalf fills dst as torch.randn and randn_like do for a float16 or
// bfloat16 tensor on the CPU, bit for bit. These are other numbers than those of
// [TorchCPU.Normal] rounded: from 16 numbers on, the uniforms themselves have
// only 11 or 8 bits, of one word each, and every operation of the blocked
// Box-Muller method is float32 arithmetic rounded to the type. Fewer come from
// scalar double precision, as in Normal, and share its kept number.
//
// Another format is an error, and so is float16 in release 1.13, which rounds
// elsewhere (its CPU has no float16 convolution to use it with).
func (t *TorchCPU) NormalHalf(dst []float64, f fp16.Format) error {
	switch {
	case !f.Half():
		return fmt.Errorf("noise: %v: normal draws of type %v: want float16 or bfloat16", t, f)
	case f == fp16.Float16 && !t.log1p:
		return fmt.Errorf("noise: %v: normal draws of type float16 are not supported before 2.x", t)
	}
	if len(dst) < torchBlock {
		for i := range dst {
			dst[i] = roundHalf(f, t.scalarNormal()+0)
		}
		return nil
	}
	n := len(dst)
	table := halfNormals[f]()
	for i := 0; i+torchBlock <= n; i += torchBlock {
		t.normalHalfBlock((*[torchBlock]float64)(dst[i:]), table)
	}
	if spent := n % torchBlock; spent != 0 {
		for range spent {
			t.mt.random()
		}
		t.normalHalfBlock((*[torchBlock]float64)(dst[n-torchBlock:]), table)
	}
	return nil
}

// roundHalf is the conversion from double to a half type in C++, which passes
// through float32.
func roundHalf(f fp16.Format, v float64) float64 { return f.Round(float64(float32(v))) }

// halfNormal is what the Box-Muller method in a half type makes of the 2^bits
// uniforms that there are.
type halfNormal struct {
	f                    fp16.Format
	mask                 uint32
	radius, cosine, sine []float64
}

// halfNormals are the tables of Float16 and BFloat16.
//
// The functions are the correctly rounded float32 ones where PyTorch calls its C
// library; for all 256 or 2048 arguments both round to the same half number.
var halfNormals = map[fp16.Format]func() *halfNormal{
	fp16.Float16:  sync.OnceValue(func() *halfNormal { return newHalfNormal(fp16.Float16, 11) }),
	fp16.BFloat16: sync.OnceValue(func() *halfNormal { return newHalfNormal(fp16.BFloat16, 8) }),
}

func newHalfNormal(f fp16.Format, bits int) *halfNormal {
	rn := func(v float64) float64 { return roundHalf(f, v) }
	h := &halfNormal{f: f, mask: 1<<bits - 1}
	for k := range 1 << bits {
		u := math.Ldexp(float64(k), -bits)
		h.radius = append(h.radius, rn(math.Sqrt(float64(-2*rn(elem.Log(1-u))))))
		theta := rn(float64(2 * math.Pi * u))
		h.cosine, h.sine = append(h.cosine, rn(elem.Cos(theta))), append(h.sine, rn(elem.Sin(theta)))
	}
	return h
}

// normalHalfBlock is normalBlock in a half type. A product or sum of two half
// numbers is exact in float64, so that one rounding to float32 and one to the
// type are those of the original.
func (t *TorchCPU) normalHalfBlock(dst *[torchBlock]float64, h *halfNormal) {
	var u [torchBlock]uint32
	for i := range u {
		u[i] = t.mt.random() & h.mask
	}
	const half = torchBlock / 2
	for i := range half {
		r, k := h.radius[u[i]], u[i+half]
		dst[i] = roundHalf(h.f, float64(r*h.cosine[k])) + 0
		dst[i+half] = roundHalf(h.f, float64(r*h.sine[k])) + 0
	}
}
