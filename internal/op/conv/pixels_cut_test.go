package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestCuts: a convolution of which some taps pass by the weights after others has the bits of one in
// which all do at once, with a NaN and on integers, whose sums guards leave open.
func TestCuts(t *testing.T) {
	defer asm.Use(asm.ISA())
	defer func(n int) { bytesCut = n }(bytesCut)
	r := rand.New(rand.NewPCG(1, 2))
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ n, ic, oc, h, w, stride int }{
			{1, 64, 40, 7, 7, 2}, {2, 20, 16, 13, 9, 2}, {1, 9, 33, 5, 6, 2}, {1, 40, 7, 7, 7, 1},
		} {
			for trial := range 2 {
				random := func(shape ...int) *tensor.Tensor {
					x := tensor.New(fp16.Float32, shape...)
					for i := range x.Data {
						if x.Data[i] = fp16.Float32.Round(r.NormFloat64()); trial == 1 {
							x.Data[i] = float64(r.IntN(9) - 4)
						}
					}
					return x
				}
				p := Square(c.stride, 1, Zeros)
				x := random(c.n, c.ic, c.h, c.w)
				x.Data[len(x.Data)/2] = fp16.NaN
				k := NewKernel(random(c.oc, c.ic, 3, 3), random(1, 1, 1, c.oc).Data)
				oh, ow := p.OutSize(c.h, c.w, 3, 3)
				var want []float64
				for _, bytes := range []int{1 << 40, 1 << 14, 1 << 12, 1} {
					bytesCut = bytes
					plan := k.Prepare(fp16.Float32, c.n, c.h, c.w, p)
					if plan.none() {
						continue
					}
					from := NewImage(fp16.Float32, c.n, c.ic, c.h, c.w, 1, make([]float32, ImageSize(c.n, c.ic, c.h, c.w, 1)))
					to := NewImage(fp16.Float32, c.n, c.oc, oh, ow, 0, make([]float32, ImageSize(c.n, c.oc, oh, ow, 0)))
					from.From(x)
					from.FillFrame(Zeros)
					plan.Run(to, from, new(Space))
					y := tensor.New(fp16.Float32, c.n, c.oc, oh, ow)
					to.To(y)
					if want == nil {
						want = y.Data
					}
					for i, v := range y.Data {
						if math.Float64bits(v) != math.Float64bits(want[i]) {
							t.Fatalf("%s, %+v, %d bytes at a time: number %d is %v, want %v", isa, c, bytes, i, v, want[i])
						}
					}
				}
			}
		}
	}
}
