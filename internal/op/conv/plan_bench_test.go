package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// BenchmarkPlan times convolutions of images by the best instruction set, by
// kernel size, channels in and out, and side of the image.
func BenchmarkPlan(b *testing.B) {
	for _, s := range []struct{ k, c, o, h int }{{3, 3, 64, 128}, {3, 16, 16, 64}, {3, 32, 32, 64}, {3, 32, 32, 128},
		{3, 16, 16, 128}, {3, 32, 64, 128}, {3, 64, 64, 64}, {3, 64, 64, 128}, {3, 64, 128, 128}, {3, 128, 128, 64},
		{3, 128, 128, 128}, {3, 128, 256, 128}, {3, 256, 256, 64}, {3, 256, 256, 128}, {1, 64, 128, 128},
		{1, 128, 256, 128}, {1, 256, 3, 128}, {5, 32, 32, 64}, {5, 64, 64, 128}, {5, 64, 64, 64}, {5, 128, 128, 64},
		{5, 64, 128, 64}, {5, 128, 128, 128}, {7, 32, 32, 64}, {7, 128, 128, 64}, {7, 64, 64, 128}} {
		b.Run(fmt.Sprintf("%dx%d/%d-%d@%d", s.k, s.k, s.c, s.o, s.h), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			x, w := gauss(r, fp16.Float32, 1, s.c, s.h, s.h), gauss(r, fp16.Float32, s.o, s.c, s.k, s.k)
			for i, v := range w.Data {
				w.Data[i] = fp16.Float32.Round(v * 0.05)
			}
			k := NewKernel(w, nil)
			p := k.Prepare(fp16.Float32, 1, s.h, s.h, Square(1, s.k/2, Zeros))
			src := newTestImage(fp16.Float32, 1, s.c, s.h, s.h, s.k/2)
			dst := newTestImage(fp16.Float32, 1, s.o, s.h, s.h, s.k/2)
			src.From(x)
			src.FillFrame(Zeros)
			var space Space
			p.Run(dst, src, &space)
			before := processTime()
			for b.Loop() {
				p.Run(dst, src, &space)
			}
			b.ReportMetric(float64(processTime()-before)/1e6/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(b.N)*2*float64(s.k*s.k*s.c*s.o*s.h*s.h)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkPlanData times a convolution of data that the guard decides, and of
// data that it does not.
func BenchmarkPlanData(b *testing.B) {
	for _, c := range []int{32, 64} {
		for _, data := range []string{"random", "constant", "zeros", "integers", "bfloat16", "NaN", "tiny", "huge"} {
			b.Run(fmt.Sprintf("%d/%s", c, data), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 1))
				x, w := gauss(r, fp16.Float32, 1, c, 64, 64), gauss(r, fp16.Float32, c, c, 3, 3)
				each := func(v []float64, f func(i int, v float64) float64) {
					for i := range v {
						v[i] = fp16.Float32.Round(f(i, v[i]))
					}
				}
				switch data {
				case "constant": // under kernels of sum zero
					each(x.Data, func(int, float64) float64 { return 0.1 })
					each(w.Data, func(i int, v float64) float64 {
						if i%2 == 1 {
							return -w.Data[i-1]
						}
						return v
					})
				case "zeros":
					clear(x.Data)
				case "integers":
					each(x.Data, func(int, float64) float64 { return float64(r.IntN(9) - 4) })
					each(w.Data, func(int, float64) float64 { return float64(r.IntN(9) - 4) })
				case "bfloat16":
					fp16.BFloat16.RoundSlice(x.Data, x.Data)
					fp16.BFloat16.RoundSlice(w.Data, w.Data)
				case "NaN":
					x.Data[64*32+32] = fp16.NaN
				case "tiny", "huge":
					scale := map[string]float64{"tiny": 1e-30, "huge": 1e30}[data]
					each(x.Data, func(_ int, v float64) float64 { return v * scale })
				}
				k := NewKernel(w, nil)
				p := k.Prepare(fp16.Float32, 1, 64, 64, Square(1, 1, Zeros))
				src, dst := newTestImage(fp16.Float32, 1, c, 64, 64, 1), newTestImage(fp16.Float32, 1, c, 64, 64, 1)
				src.From(x)
				src.FillFrame(Circular)
				var space Space
				p.Run(dst, src, &space)
				before := processTime()
				for b.Loop() {
					p.Run(dst, src, &space)
				}
				b.ReportMetric(float64(processTime()-before)/1e6/float64(b.N), "cpu-ms/op")
			})
		}
	}
}
