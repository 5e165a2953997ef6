package matmul

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// busy measures processor time in the place of time, for machines that are shared: the
// rates are then those of one processor, and threads that wait for others count.
var busy = flag.Bool("busy", false, "rates of processor time")

// clock returns seconds.
func clock() float64 {
	if t := processTime(); *busy && t > 0 {
		return t
	}
	return time.Since(start).Seconds()
}

var start = time.Now()

// peakRate returns the GFLOP/s of float64 multiply-adds that the kernel of the products
// reaches on all processors with all it needs in the first cache, in a short window.
func peakRate() float64 {
	w := asm.WinogradKernels()
	if w == nil {
		return 0
	}
	const blocks, calls = 8, 400
	n := par.Workers()
	v, u, m := make([][]float64, n), make([][]float64, n), make([][]float64, n)
	for i := range n {
		v[i], u[i], m[i] = asm.Aligned[float64](blocks*w.Tiles*8), asm.Aligned[float64](blocks*8*w.Outputs),
			asm.Aligned[float64](w.Tiles*w.Outputs)
	}
	later := new(float32)
	began := clock()
	par.For(n, func(i int) {
		for range calls {
			w.Multiply(&v[i][0], &u[i][0], &m[i][0], blocks, blocks, 1, &u[i][0], later)
		}
	})
	return float64(n) * calls * 2 * float64(w.Tiles*w.Outputs*blocks*8) / (clock() - began) / 1e9
}

// BenchmarkMatmul is a product of random numbers, and the peak measured before and
// after each, which is the machine's at that moment: of_peak is the median of the
// ratios. prepared is with the right operand as a Kernel.
func BenchmarkMatmul(b *testing.B) {
	for _, c := range []struct {
		batch, m, k, n int
		prepared       bool
	}{
		{1, 1024, 1024, 1024, false},
		{1, 1024, 1024, 1024, true},
		{1, 197, 768, 3072, true},
		{1, 197, 3072, 768, true},
		{12, 197, 64, 197, false},
		{12, 197, 197, 64, false},
		{1, 1, 512, 1000, true},
		{1, 4096, 4096, 8, false},
		{64, 8, 8, 8, false},
	} {
		for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
			b.Run(fmt.Sprintf("batch=%d/m=%d/k=%d/n=%d/prepared=%v/format=%v", c.batch, c.m, c.k, c.n, c.prepared, f),
				func(b *testing.B) {
					benchmark(b, f, c.batch, c.m, c.k, c.n, c.prepared, func(r *rand.Rand) float64 { return r.NormFloat64() })
				})
		}
	}
}

// BenchmarkMatmulData is the first of BenchmarkMatmul on data that guards leave open.
func BenchmarkMatmulData(b *testing.B) {
	for _, d := range []struct {
		name string
		to   fp16.Format
		make func(r *rand.Rand) float64
	}{
		{"random", fp16.Float32, func(r *rand.Rand) float64 { return r.NormFloat64() }},
		{"zeros", fp16.Float32, func(*rand.Rand) float64 { return 0 }},
		{"integers", fp16.Float32, func(r *rand.Rand) float64 { return float64(r.IntN(9) - 4) }},
		{"bfloat16", fp16.Float32, func(r *rand.Rand) float64 { return fp16.BFloat16.Round(r.NormFloat64()) }},
		{"float16", fp16.Float32, func(r *rand.Rand) float64 { return fp16.Float16.Round(r.NormFloat64()) }},
		{"float16", fp16.Float16, func(r *rand.Rand) float64 { return fp16.Float16.Round(r.NormFloat64()) }},
		{"signs-of-0.1", fp16.Float32, func(r *rand.Rand) float64 { return 0.1 * float64(1-2*r.IntN(2)) }},
	} {
		b.Run(fmt.Sprintf("data=%s/format=%v", d.name, d.to), func(b *testing.B) {
			benchmark(b, d.to, 1, 1024, 1024, 1024, false, d.make)
		})
	}
}

func benchmark(b *testing.B, f fp16.Format, batch, m, k, n int, prepared bool, number func(r *rand.Rand) float64) {
	r := rand.New(rand.NewPCG(1, 2))
	of := fp16.Float32
	if f != fp16.Float32 {
		of = f
	}
	fill := func(shape ...int) *tensor.Tensor {
		t := tensor.New(of, shape...)
		for i := range t.Data {
			t.Data[i] = of.Round(number(r))
		}
		return t
	}
	x, y, dst := fill(batch, m, k), fill(batch, k, n), tensor.New(f, batch, m, n)
	s := NewSpace()
	run := func() { s.Forward(dst, x, y, Params{}) }
	if prepared {
		w := NewKernel(fill(n, k), true, nil)
		run = func() { s.Apply(dst, x, w) }
	}
	run()
	flop := 2 * float64(batch) * float64(m) * float64(n) * float64(k)
	var ratios []float64
	best := 0.0
	for b.Loop() {
		b.StopTimer()
		before := peakRate()
		b.StartTimer()
		began := clock()
		run()
		rate := flop / (clock() - began) / 1e9
		b.StopTimer()
		if peak := max(before, peakRate()); peak > 0 {
			ratios = append(ratios, rate/peak)
		}
		best = max(best, rate)
		b.StartTimer()
	}
	b.ReportMetric(best, "best-GFLOP/s")
	if len(ratios) > 0 {
		b.ReportMetric(median(ratios), "of-peak")
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
