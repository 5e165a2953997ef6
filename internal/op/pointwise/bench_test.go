package pointwise

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

func normal(n int) *tensor.Tensor {
	r := rand.New(rand.NewPCG(1, 1))
	x := tensor.New(fp16.Float32, n)
	for i := range x.Data {
		x.Data[i] = float64(float32(r.NormFloat64()))
	}
	return x
}

func BenchmarkUnary(b *testing.B) {
	x := normal(1 << 16)
	y := tensor.Like(x)
	for _, name := range Names() {
		f, err := Parse(name, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Unary(y, x, f)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x.Data)), "ns/element")
		})
	}
}

func BenchmarkBinary(b *testing.B) {
	x := normal(1 << 16)
	z := tensor.Like(x)
	y := tensor.Of(fp16.Float32, append(x.Data[5:], x.Data[:5]...), len(x.Data))
	for op, name := range OpNames() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Binary(z, x, y, Op(op))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x.Data)), "ns/element")
		})
	}
}
