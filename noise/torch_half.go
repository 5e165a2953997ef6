package noise

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/elem"
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
	case f != fp16.Float16 && f != fp16.BFloat16:
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
	for i := 0; i+torchBlock <= n; i += torchBlock {
		t.normalHalfBlock((*[torchBlock]float64)(dst[i:]), f)
	}
	if spent := n % torchBlock; spent != 0 {
		for range spent {
			t.mt.random()
		}
		t.normalHalfBlock((*[torchBlock]float64)(dst[n-torchBlock:]), f)
	}
	return nil
}

// roundHalf is the conversion from double to a half type in C++, which passes
// through float32.
func roundHalf(f fp16.Format, v float64) float64 { return f.Round(float64(float32(v))) }

// normalHalfBlock is normalBlock in a half type. A product or sum of two half
// numbers is exact in float64, so that one rounding to float32 and one to the
// type are those of the original.
//
// The functions are the correctly rounded float32 ones where PyTorch calls its C
// library; for all 256 or 2048 arguments both round to the same half number.
func (t *TorchCPU) normalHalfBlock(dst *[torchBlock]float64, f fp16.Format) {
	rn := func(v float64) float64 { return roundHalf(f, v) }
	bits := uint32(11)
	if f == fp16.BFloat16 {
		bits = 8
	}
	var u [torchBlock]float64
	for i := range u {
		u[i] = math.Ldexp(float64(t.mt.random()&(1<<bits-1)), -int(bits))
	}
	const half = torchBlock / 2
	for i := range half {
		r := rn(math.Sqrt(float64(-2 * rn(elem.Log(1-u[i])))))
		theta := rn(float64(2 * math.Pi * u[i+half]))
		dst[i] = rn(float64(r*rn(elem.Cos(theta)))) + 0
		dst[i+half] = rn(float64(r*rn(elem.Sin(theta)))) + 0
	}
}
