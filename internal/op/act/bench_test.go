package act

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// BenchmarkForward reports the time per element on one core, for every
// instruction set in turn.
func BenchmarkForward(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := rand.New(rand.NewPCG(6, 6))
	for _, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16, fp16.Float64} {
		src := tensor.New(f, 4, 8, 32, 32)
		for i := range src.Data {
			src.Data[i] = f.Round(r.NormFloat64())
		}
		dst := tensor.Like(src)
		for fn := range functions {
			b.Run(Func(fn).String()+"/"+f.String()+"/"+asm.ISA(), func(b *testing.B) {
				for b.Loop() {
					Forward(dst, src, Func(fn))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(src.Data)), "ns/element")
			})
		}
	}
}
