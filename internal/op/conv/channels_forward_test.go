package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// TestChannelsForward: convolutions of tensors, each channel by itself, have the bits of one convolution for each
// channel, for any window, stride, dilation and padding, and with numbers that are not finite.
func TestChannelsForward(t *testing.T) {
	isa := asm.ISA()
	defer asm.Use(isa)
	r := rand.New(rand.NewPCG(31, 32))
	for trial := range 400 {
		isas := asm.ISAs()
		if err := asm.Use(isas[trial%len(isas)]); err != nil {
			t.Fatal(err)
		}
		n, c, kh, kw := 1+r.IntN(2), 1+r.IntN(20), 1+r.IntN(3), 1+r.IntN(7)
		p := Params{Stride: [2]int{1 + r.IntN(2), 1 + r.IntN(3)}, Dilation: [2]int{1 + r.IntN(2), 1 + r.IntN(2)},
			Pad: [4]int{r.IntN(3), r.IntN(9), r.IntN(3), r.IntN(9)}, Padding: Padding(r.IntN(8) / 7)}
		if trial%2 == 0 {
			kh, p.Pad[0], p.Pad[2] = 1, 0, 0
		}
		h, w := p.Dilation[0]*(kh-1)+1+r.IntN(4), p.Dilation[1]*(kw-1)+9+r.IntN(40)
		if p.Padding != Zeros {
			p.Pad[0], p.Pad[2] = min(p.Pad[0], h), min(p.Pad[2], h)
		}
		x, weight, bias := tensor.New(fp16.Float32, n, c, h, w), tensor.New(fp16.Float32, c, 1, kh, kw), make([]float64, c)
		for _, d := range [][]float64{x.Data, weight.Data, bias} {
			for i := range d {
				d[i] = float64(float32(r.NormFloat64()))
			}
		}
		if trial%5 == 0 {
			x.Data[r.IntN(len(x.Data))] = []float64{math.Inf(-1), math.NaN(), 0x1p127}[trial/5%3]
		}
		oh, ow := p.OutSize(h, w, kh, kw)
		got, want := tensor.New(fp16.Float32, n, c, oh, ow), tensor.New(fp16.Float32, 1, 1, oh, ow)
		Forward(got, x, NewGroupedKernel(weight, bias, c), p)
		for i := range n * c {
			k := NewKernel(weight.Samples(i%c, i%c+1), bias[i%c:][:1])
			Forward(want, tensor.Of(fp16.Float32, x.Plane(i/c, i%c), 1, 1, h, w), k, p)
			for at, v := range got.Plane(i/c, i%c) {
				if math.Float64bits(v) != math.Float64bits(want.Data[at]) {
					t.Fatalf("trial %d, %s: %+v, window %dx%d of %v: number %d of channel %d is %v, want %v",
						trial, asm.ISA(), p, kh, kw, x.Shape, at, i%c, v, want.Data[at])
				}
			}
		}
	}
}
