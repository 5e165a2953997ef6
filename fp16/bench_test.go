package fp16_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
)

func benchNumbers() []float64 {
	r := rand.New(rand.NewPCG(7, 7))
	x := make([]float64, 1<<14)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

func perElement(b *testing.B, n int, f func()) {
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/elem")
}

func BenchmarkRound(b *testing.B) {
	x := benchNumbers()
	dst := make([]float64, len(x))
	for _, f := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
		b.Run(fmt.Sprintf("%v/each", f), func(b *testing.B) {
			perElement(b, len(x), func() {
				for i, v := range x {
					dst[i] = f.Round(v)
				}
			})
		})
		b.Run(fmt.Sprintf("%v/slice", f), func(b *testing.B) { perElement(b, len(x), func() { f.RoundSlice(dst, x) }) })
	}
}

func BenchmarkPack(b *testing.B) {
	x := benchNumbers()
	x32 := make([]float32, len(x))
	for i, v := range x {
		x32[i] = float32(v)
	}
	u := make([]uint16, len(x))
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		b.Run(fmt.Sprintf("%v/from64", f), func(b *testing.B) { perElement(b, len(x), func() { fp16.Pack(f, u, x) }) })
		b.Run(fmt.Sprintf("%v/from32", f), func(b *testing.B) { perElement(b, len(x), func() { fp16.Pack(f, u, x32) }) })
		b.Run(fmt.Sprintf("%v/to64", f), func(b *testing.B) { perElement(b, len(x), func() { fp16.Unpack(f, x, u) }) })
		b.Run(fmt.Sprintf("%v/to32", f), func(b *testing.B) { perElement(b, len(x), func() { fp16.Unpack(f, x32, u) }) })
	}
}

func BenchmarkBytes(b *testing.B) {
	x := benchNumbers()
	for _, f := range formats {
		var buf []byte
		b.Run(fmt.Sprintf("%v/Append", f),
			func(b *testing.B) { perElement(b, len(x), func() { buf = f.Append(buf[:0], x) }) })
		buf = f.Append(buf[:0], x)
		b.Run(fmt.Sprintf("%v/Decode", f), func(b *testing.B) { perElement(b, len(x), func() { f.Decode(x, buf) }) })
	}
}
