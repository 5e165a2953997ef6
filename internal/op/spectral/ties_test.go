package spectral

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestTies: transforms that are rational, also where they are sums of irrational
// cosines divided by an irrational root, and lie in the middle of two numbers.
func TestTies(t *testing.T) {
	// Gauss's sums: the transform of (j/p) at 1 is sqrt(p), or -i sqrt(p), for p = 3
	// modulo 4; of the character modulo 8 sqrt(8), of that modulo 12 sqrt(12).
	character := map[int]func(j int) float64{
		8:  func(j int) float64 { return []float64{0, 1, 0, -1, 0, -1, 0, 1}[j] },
		12: func(j int) float64 { return []float64{0, 1, 0, 0, 0, -1, 0, -1, 0, 0, 0, 1}[j] },
		24: func(j int) float64 {
			return []float64{1: 1, 5: 1, 7: -1, 11: -1, 13: -1, 17: -1, 19: 1, 23: 1}[j]
		},
	}
	for _, p := range []int{3, 5, 7, 11, 13, 17, 29, 101} {
		character[p] = func(j int) float64 {
			if j == 0 {
				return 0
			}
			for a := 1; a < p; a++ {
				if a*a%p == j {
					return 1
				}
			}
			return -1
		}
	}
	for n, chi := range character {
		for _, c := range []struct{ x, bfloat16 float64 }{
			{1, 1}, {1 + 0x1p-8, 1}, {1 + 0x1p-8 + 0x1p-23, 1 + 0x1p-7}, {1 + 0x1p-8 - 0x1p-23, 1},
			{1 + 0x3p-8, 1 + 0x1p-6}, {0x1p-134, 0}, {0x3p-134, 0x1p-132},
		} {
			for _, m := range []int{1, 2} { // alone, and together with another axis
				x, y := tensor.New(fp16.Float32, m, n, 1), tensor.New(fp16.BFloat16, m, n, 2)
				for j := range n {
					x.Data[j] = c.x * chi(j)
				}
				size := c.bfloat16
				if FFT(y, x, []int{1}, Ortho); m == 2 {
					FFT(y, x, []int{1, 0}, Ortho)
					size = fp16.BFloat16.Round(c.x / math.Sqrt2) // no tie
				}
				for k := range n {
					want, part := size*chi(k), 0
					if n%4 == 3 {
						want, part = -want, 1
					}
					if chi(k) == 0 {
						want = 0
					}
					got, other := y.Data[2*k+part], y.Data[2*k+1-part]
					if !equal(got, want) || !equal(other, 0) {
						t.Errorf("%d points, %d axes: number %d of %v in bfloat16 is %v, "+
							"the other part %v: want %v and 0", n, m, k, c.x, got, other, want)
					}
				}
			}
		}
	}
}

// TestHardSums: sums of which nothing is left but what two words do not hold.
func TestHardSums(t *testing.T) {
	x, y := tensor.New(fp16.Float32, 6, 1), tensor.New(fp16.Float32, 6, 2)
	copy(x.Data, []float64{0x1p120, -0x1p120, 0, 0x1p-30, 0, 0})
	// number 0 is 2^-30; number 3 is 2^121 - 2^-30; number 1 is half of 2^120 and more
	FFT(y, x, []int{0}, Backward)
	if y.Data[0] != 0x1p-30 || y.Data[6] != 0x1p121 || y.Data[2] != 0x1p119 {
		t.Errorf("cancelled: %v, %v and %v", y.Data[0], y.Data[6], y.Data[2])
	}
	copy(x.Data, []float64{1, 0x1p-24, 0, 0x1p-149, 0, 0})
	FFT(y, x, []int{0}, Backward)
	if y.Data[0] != 1+0x1p-23 || y.Data[6] != 1-0x1p-24 {
		t.Errorf("beside ties: %v and %v", y.Data[0], y.Data[6])
	}
	copy(x.Data, []float64{1, 0x1p-24, 0, -0x1p-149, 0, 0})
	FFT(y, x, []int{0}, Backward)
	if y.Data[0] != 1 {
		t.Errorf("beside a tie: %v", y.Data[0])
	}

	// What is 0 at 1 tells nothing of 3 if the numbers are complex.
	z, w := tensor.New(fp16.Float32, 8, 2), tensor.New(fp16.BFloat16, 8, 2)
	z.Data[0], z.Data[5] = 0.5+0x1p-9, -0.5-0x1p-9
	FFT(w, z, []int{0}, Backward)
	if !equal(w.Data[2], 0) || w.Data[6] != 1 {
		t.Errorf("complex numbers: %v and %v, want 0 and 1", w.Data[2], w.Data[6])
	}
}
