package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

func wideCase(r *rand.Rand, n, ic, oc, h, w int, weight func() float64) (src *tensor.Tensor, k *Kernel) {
	src = tensor.New(fp16.Float64, n, ic, h, w)
	for i := range src.Data {
		src.Data[i] = r.NormFloat64()
	}
	ww := tensor.New(fp16.Float64, oc, ic, 3, 3)
	for i := range ww.Data {
		ww.Data[i] = weight()
	}
	bias := make([]float64, oc)
	for i := range bias {
		bias[i] = float64(float32(r.NormFloat64()))
	}
	return src, NewKernel(ww, bias)
}

// TestWide: the convolution of float64 numbers is Forward's to 10^-13 of the
// norms of weights and window, for every padding, odd shapes and channels.
func TestWide(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, shape := range [][5]int{{1, 16, 16, 8, 8}, {2, 19, 21, 13, 6}, {1, 64, 70, 5, 33}, {3, 16, 40, 3, 3},
		{1, 16, 16, 1, 1}, {1, 260, 17, 9, 9}} {
		for pad := Zeros; pad <= Replicate; pad++ {
			if pad == Reflect && min(shape[3], shape[4]) < 2 {
				continue
			}
			src, k := wideCase(r, shape[0], shape[1], shape[2], shape[3], shape[4],
				func() float64 { return float64(float32(r.NormFloat64())) })
			got, want := tensor.New(fp16.Float64, shape[0], shape[2], shape[3], shape[4]),
				tensor.New(fp16.Float64, shape[0], shape[2], shape[3], shape[4])
			for i := range got.Data {
				got.Data[i] = math.NaN()
			}
			p := Square(1, 1, pad)
			Wide(got, src, k, p)
			Forward(want, src, k, p)
			bound := 1e-14 * float64(9*shape[1]) // ||w|| ||x||, about
			for i, v := range want.Data {
				if !(math.Abs(got.Data[i]-v) <= bound) {
					t.Fatalf("%v %v: number %d is %v, want %v", shape, pad, i, got.Data[i], v)
				}
			}
		}
	}
}

// TestWideExact: sums of integers stay exact, and what is not finite stays where
// it belongs.
func TestWideExact(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	p := Square(1, 1, Circular)
	src, k := wideCase(r, 1, 16, 16, 9, 9, func() float64 { return float64(r.IntN(2001)-1000) / 8 })
	for i := range src.Data {
		src.Data[i] = math.Round(100 * src.Data[i])
	}
	got, want := tensor.New(fp16.Float64, 1, 16, 9, 9), tensor.New(fp16.Float64, 1, 16, 9, 9)
	compare := func(what string) {
		t.Helper()
		Wide(got, src, k, p)
		Forward(want, src, k, p)
		for i, v := range want.Data {
			if math.Float64bits(got.Data[i]) != math.Float64bits(v) {
				t.Fatalf("%s: number %d is %v, want %v", what, i, got.Data[i], v)
			}
		}
	}
	compare("integers")
	src, k = wideCase(r, 1, 16, 16, 9, 9, func() float64 { return float64(float32(r.NormFloat64())) })
	src.Data[100] = math.Inf(1)
	compare("infinity")
}

// BenchmarkWide times float64 convolutions by the best instruction set.
func BenchmarkWide(b *testing.B) {
	for _, s := range []struct{ c, o, h int }{{16, 16, 64}, {32, 32, 64}, {64, 64, 128}, {128, 128, 128}, {256, 256, 64}} {
		r := rand.New(rand.NewPCG(1, 1))
		src, k := wideCase(r, 1, s.c, s.o, s.h, s.h, func() float64 { return float64(float32(0.05 * r.NormFloat64())) })
		dst := tensor.New(fp16.Float64, 1, s.o, s.h, s.h)
		for name, run := range map[string]func(
			dst, src *tensor.Tensor, k *Kernel, p Params,
		){"forward": Forward, "wide": Wide} {
			b.Run(fmt.Sprintf("%d-%d@%d/%s", s.c, s.o, s.h, name), func(b *testing.B) {
				p := Square(1, 1, Zeros)
				run(dst, src, k, p)
				before := processTime()
				for b.Loop() {
					run(dst, src, k, p)
				}
				b.ReportMetric(float64(processTime()-before)/1e6/float64(b.N), "cpu-ms/op")
			})
		}
	}
}
