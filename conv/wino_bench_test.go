package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

func BenchmarkWinograd(b *testing.B) {
	for _, isa := range asm.ISAs() {
		for _, s := range []struct{ c, h int }{{16, 64}, {32, 64}, {64, 128}, {128, 128}, {256, 64}} {
			if isa == "purego" && s.c > 32 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%dx%d", isa, s.c, s.h), func(b *testing.B) {
				if err := asm.Use(isa); err != nil {
					b.Fatal(err)
				}
				r := rand.New(rand.NewPCG(1, 1))
				x, w := tensor.New(fp16.Float32, 1, s.c, s.h, s.h), tensor.New(fp16.Float32, s.c, s.c, 3, 3)
				for i := range x.Data {
					x.Data[i] = float64(float32(r.NormFloat64()))
				}
				for i := range w.Data {
					w.Data[i] = float64(float32(r.NormFloat64() * 0.05))
				}
				k := NewKernel(w, nil)
				y := tensor.New(fp16.Float32, 1, s.c, s.h, s.h)
				Forward(y, x, k, Params{Pad: 1})
				for b.Loop() {
					Forward(y, x, k, Params{Pad: 1})
				}
				b.ReportMetric(float64(b.N)*18*float64(s.c*s.c*s.h*s.h)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
