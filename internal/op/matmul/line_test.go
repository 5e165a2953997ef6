package matmul

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestOneLine: products of one line with a prepared operand, which have kernels of their own, have the bits of the same
// line among others, for lengths around those of blocks and panels, with numbers that are not finite, of integers,
// which guards leave open, and as the last line of several.
func TestOneLine(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for trial := range 120 {
		k, n := []int{1, 2, 7, 96, 97, 255, 256, 257, 400}[trial%9], 1+r.IntN(130)
		if trial%4 == 1 { // whose panels go in fours
			n += 1600
		}
		a, b, bias := tensor.New(fp16.Float32, 6, k), tensor.New(fp16.Float32, k, n), make([]float64, n)
		for _, d := range [][]float64{a.Data, b.Data, bias} {
			for i := range d {
				if d[i] = float64(float32(r.NormFloat64())); trial%4 == 0 {
					d[i] = float64(r.IntN(9) - 4)
				}
			}
		}
		switch trial % 5 {
		case 0:
			a.Data[r.IntN(k)], b.Data[r.IntN(k*n)] = math.Inf(1), 0
		case 1:
			b.Data[r.IntN(k*n)] = math.NaN()
		}
		if trial%3 == 0 {
			bias = nil
		}
		kernel := NewKernel(b, false, bias)
		for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
			all := tensor.New(f, 6, n)
			kernel.Forward(all, a)
			for _, lines := range []int{1, 5} {
				some := tensor.New(f, lines, n)
				kernel.Forward(some, tensor.Of(fp16.Float32, a.Data[:lines*k], lines, k))
				for i, got := range some.Data {
					if math.Float64bits(got) != math.Float64bits(all.Data[i]) {
						t.Fatalf("trial %d, %d of %d x %d in %v: number %d is %v, want %v", trial, lines, k, n, f, i, got, all.Data[i])
					}
				}
			}
		}
	}
}
