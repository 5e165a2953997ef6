package reduce

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// BenchmarkReductions: the sizes of a vision transformer.
func BenchmarkReductions(b *testing.B) {
	for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.Float16} {
		for _, op := range []struct {
			name string
			f    func(dst, src *tensor.Tensor, axes ...int)
			last bool
		}{
			{"softmax", Softmax, false},
			{"log_softmax", LogSoftmax, false},
			{"sum", Sum, true},
			{"amax", Max, true},
			{"logsumexp", LogSumExp, true},
		} {
			b.Run(op.name+"/"+f.String(), func(b *testing.B) {
				x := tensor.New(f, 12, 197, 197)
				r := rand.New(rand.NewPCG(1, 2))
				fill(x, r, (*rand.Rand).NormFloat64)
				y := tensor.Like(x)
				if op.last {
					y = tensor.New(f, 12, 197)
				}
				b.ReportAllocs()
				for b.Loop() {
					op.f(y, x, -1)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x.Data)), "ns/elem")
			})
		}
	}
}
