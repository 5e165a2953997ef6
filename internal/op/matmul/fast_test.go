package matmul

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/single"
	"github.com/refrun/refrun/tensor"
)

// TestFast: every element is the chain of fused multiply-adds that docs/NUMERICS.md writes
// down, for a batch and for each row alone.
func TestFast(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range [][3]int{
		{1, 1, 1}, {1, 512, 70}, {7, 13, 5}, {50, 129, 40}, {13, 300, 33}, {110, 40, 16}, {197, 260, 31},
	} {
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

// TestFastBatch: products of matrices that are no constants, spread over leading dimensions, are the
// same chains, on every instruction set, whatever way their numbers lie.
func TestFastBatch(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range [][3]int{
		{1, 1, 1}, {1, 260, 300}, {2, 129, 160}, {3, 17, 5}, {7, 40, 131}, {14, 64, 33}, {29, 130, 40}, {200, 9, 70},
	} {
		m, k, n := s[0], s[1], s[2]
		a, b := random(r, fp16.Float32, 2, 3, m, k), random(r, fp16.Float32, 3, k, n)
		a.Data[k/2] = math.Inf(1)
		var want []float32
		for matrix := range 6 {
			for i := range m {
				for j := range n {
					u, v := make([]float32, (k+7)/8*8), make([]float32, (k+7)/8*8)
					for l := range k {
						u[l], v[l] = float32(b.Data[(matrix%3*k+l)*n+j]), float32(a.Data[(matrix*m+i)*k+l])
					}
					want = append(want, oneNaN(single.Dot(u, v, 128)+0))
				}
			}
		}
		for _, isa := range asm.ISAs() {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			y, seen := tensor.New(fp16.Float32, 2, 3, m, n), make([]int, 6*m*n)
			ForwardFast(y, a, b, func(at, count int) {
				for i := range seen[at:][:count] {
					seen[at+i]++
				}
			})
			// The same numbers in columns.
			x, z, across := make([]float32, 6*m*k), make([]float32, 3*k*n), make([]float32, 6*m*n)
			for i, v := range a.Data {
				x[i/(m*k)*m*k+i%k*m+i/k%m] = float32(v)
			}
			for i, v := range b.Data {
				z[i/(k*n)*k*n+i%n*k+i/n%k] = float32(v)
			}
			places := Places([]int{2, 3}, []int{3}, []int{k * n})
			FastSingles(across, Matrices{x, []int{0, m * k, 2 * m * k, 3 * m * k, 4 * m * k, 5 * m * k}, 1, m},
				Matrices{z, places, 1, k}, 6, m, k, n, nil)
			for i, w := range want {
				if math.Float64bits(y.Data[i]) != math.Float64bits(number(w)) ||
					math.Float32bits(across[i]) != math.Float32bits(w) || seen[i] != 1 {
					t.Fatalf("%s, %v: element %d is %v and %v, want %v; done with %d times",
						isa, s, i, y.Data[i], across[i], w, seen[i])
				}
			}
		}
	}
}

// number is a float32 number as tensors hold it.
func number(v float32) float64 {
	if v != v {
		return fp16.NaN
	}
	return float64(v)
}
