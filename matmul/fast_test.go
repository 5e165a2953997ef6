package matmul

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/single"
	"github.com/refrun/refrun/tensor"
)

// TestFast: every element is the chain of fused multiply-adds that docs/NUMERICS.md writes
// down, for a batch and for each row alone.
func TestFast(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range [][3]int{{1, 1, 1}, {1, 512, 70}, {7, 13, 5}, {50, 129, 40}, {13, 300, 33}, {110, 40, 16}, {197, 260, 31}} {
		m, k, n := s[0], s[1], s[2]
		a, b := random(r, fp16.Float32, m, k), random(r, fp16.Float32, n, k)
		bias := random(r, fp16.Float32, n).Data
		if m == 13 {
			a.Data[3*k+1], b.Data[7*k+200] = math.Inf(1), math.Inf(-1)
			a.Data[5*k+200] = 0
		}
		kernel, y := NewKernel(b, true, bias).Fast(), tensor.New(fp16.Float32, m, n)
		kernel.Forward(y, a)
		for i := range m {
			one := tensor.New(fp16.Float32, 1, n)
			kernel.Forward(one, tensor.Of(fp16.Float32, a.Data[i*k:][:k], 1, k))
			for j := range n {
				var total, sum float32
				for l := range k {
					if l%128 == 0 && l > 0 {
						total += sum // the first is added to zero: none of these is -0
						sum = 0
					}
					sum = single.FMA(float32(a.Data[i*k+l]), float32(b.Data[j*k+l]), sum)
				}
				want := float64(total + sum + float32(bias[j]))
				if want != want {
					want = fp16.NaN
				}
				for _, got := range []float64{y.Data[i*n+j], one.Data[j]} {
					if math.Float64bits(got) != math.Float64bits(want) {
						t.Fatalf("%v: element (%d, %d) is %v, want %v", s, i, j, got, want)
					}
				}
			}
		}
	}
}
