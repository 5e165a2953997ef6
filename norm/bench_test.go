package norm_test

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/norm"
	"github.com/refrun/refrun/tensor"
)

// perElement reports the time of an element beside that of an operation.
func perElement(b *testing.B, t *tensor.Tensor) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(t.Data)), "ns/elem")
}

func benchmarkSource(f fp16.Format, n, c, h, w int) *tensor.Tensor {
	r := rand.New(rand.NewPCG(1, 2))
	t := tensor.New(f, n, c, h, w)
	for i := range t.Data {
		t.Data[i] = f.Round(r.NormFloat64())
	}
	return t
}

func BenchmarkInstance(b *testing.B) {
	for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.Float16} {
		b.Run(f.String(), func(b *testing.B) {
			src := benchmarkSource(f, 1, 32, 64, 64)
			dst := tensor.Like(src)
			for b.Loop() {
				norm.Instance(dst, src, nil, nil, 1e-5)
			}
			perElement(b, src)
		})
	}
}

func BenchmarkGroup(b *testing.B) {
	for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.Float16} {
		b.Run(f.String(), func(b *testing.B) {
			src := benchmarkSource(f, 1, 32, 64, 64)
			dst := tensor.Like(src)
			for b.Loop() {
				norm.Group(dst, src, 4, nil, nil, 1e-5)
			}
			perElement(b, src)
		})
	}
}

// BenchmarkSettled is data of which the guard decides no element: with
// V = 1 and mu = 0 every y = x + beta is an exact zero, or an exact tie.
func BenchmarkSettled(b *testing.B) {
	for name, beta := range map[string]float64{"zero": -1, "tie": 2048} {
		b.Run(name, func(b *testing.B) {
			src := tensor.New(fp16.Float16, 1, 1, 64, 64)
			for i := range src.Data {
				src.Data[i] = 1
			}
			dst := tensor.Like(src)
			for b.Loop() {
				norm.Batch(dst, src, []float64{0}, []float64{1}, nil, []float64{beta}, 0)
			}
			perElement(b, src)
		})
	}
}
