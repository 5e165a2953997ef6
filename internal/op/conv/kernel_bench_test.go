package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// BenchmarkKernel times one convolution by instruction set, kernel size,
// channels in and out, and side of the image.
func BenchmarkKernel(b *testing.B) {
	for _, isa := range asm.ISAs() {
		for _, s := range []struct{ k, c, o, h int }{
			{3, 3, 64, 128}, {3, 16, 16, 64}, {3, 32, 32, 64}, {3, 64, 64, 128}, {3, 128, 128, 128}, {3, 256, 256, 64},
			{1, 64, 128, 128}, {1, 128, 256, 128}, {1, 256, 3, 128}, {5, 32, 32, 64}, {7, 32, 32, 64}, {5, 64, 64, 128},
			{5, 128, 128, 64}, {7, 64, 64, 128}, {7, 128, 128, 64},
		} {
			if isa == "purego" && s.c*s.o*s.h > 32*32*64 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%dx%d/%d-%d@%d", isa, s.k, s.k, s.c, s.o, s.h), func(b *testing.B) {
				if err := asm.Use(isa); err != nil {
					b.Fatal(err)
				}
				r := rand.New(rand.NewPCG(1, 1))
				x, w := tensor.New(fp16.Float32, 1, s.c, s.h, s.h), tensor.New(fp16.Float32, s.o, s.c, s.k, s.k)
				for i := range x.Data {
					x.Data[i] = float64(float32(r.NormFloat64()))
				}
				for i := range w.Data {
					w.Data[i] = float64(float32(r.NormFloat64() * 0.05))
				}
				k := NewKernel(w, nil)
				y := tensor.New(fp16.Float32, 1, s.o, s.h, s.h)
				Forward(y, x, k, Square(1, s.k/2, Zeros))
				before := processTime()
				for b.Loop() {
					Forward(y, x, k, Square(1, s.k/2, Zeros))
				}
				// What another load on the machine does not change much.
				b.ReportMetric(float64(processTime()-before)/1e6/float64(b.N), "cpu-ms/op")
				b.ReportMetric(float64(b.N)*2*float64(s.k*s.k*s.c*s.o*s.h*s.h)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
