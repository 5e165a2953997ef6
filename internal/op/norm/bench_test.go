package norm_test

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/op/norm"
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

// benchmark runs a benchmark for every instruction set of this CPU and in every
// format.
func benchmark(b *testing.B, n, c, h, w int, run func(dst, src *tensor.Tensor)) {
	defer asm.Use(asm.ISA())
	for _, isa := range asm.ISAs() {
		for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.Float16, fp16.BFloat16} {
			b.Run(isa+"/"+f.String(), func(b *testing.B) {
				if err := asm.Use(isa); err != nil {
					b.Fatal(err)
				}
				src := benchmarkSource(f, n, c, h, w)
				dst := tensor.Like(src)
				for b.Loop() {
					run(dst, src)
				}
				perElement(b, src)
			})
		}
	}
}

func BenchmarkInstance(b *testing.B) {
	benchmark(b, 1, 32, 64, 64, func(dst, src *tensor.Tensor) { norm.Instance(dst, src, nil, nil, 1e-5) })
}

// BenchmarkInstanceLarge has planes that fill no cache but the last.
func BenchmarkInstanceLarge(b *testing.B) {
	benchmark(b, 1, 32, 256, 256, func(dst, src *tensor.Tensor) { norm.Instance(dst, src, nil, nil, 1e-5) })
}

// BenchmarkInstanceSmall is dominated by what a plane costs, whatever its size.
func BenchmarkInstanceSmall(b *testing.B) {
	benchmark(b, 1, 32, 8, 8, func(dst, src *tensor.Tensor) { norm.Instance(dst, src, nil, nil, 1e-5) })
}

func BenchmarkGroup(b *testing.B) {
	benchmark(b, 1, 32, 64, 64, func(dst, src *tensor.Tensor) { norm.Group(dst, src, 4, nil, nil, 1e-5) })
}

func BenchmarkBatch(b *testing.B) {
	mean, variance := make([]float64, 32), make([]float64, 32)
	for c := range mean {
		mean[c], variance[c] = 0.125*float64(c), 1
	}
	benchmark(b, 1, 32, 64, 64, func(dst, src *tensor.Tensor) { norm.Batch(dst, src, mean, variance, nil, nil, 1e-5) })
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
