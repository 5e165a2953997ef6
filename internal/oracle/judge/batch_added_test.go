package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestMaskedProducts: baddbmm with a mask of infinite numbers as what it adds passes, and fails where the mask, or its
// factor, is forgotten.
func TestMaskedProducts(t *testing.T) {
	const batch, n, k = 2, 9, 24
	r := rand.New(rand.NewPCG(95, 96))
	a, b := drawn(r, fp16.BFloat16, batch, n, k), drawn(r, fp16.BFloat16, batch, k, n)
	mask := tensor.New(fp16.BFloat16, batch, n, n)
	for i := range mask.Data {
		if mask.Data[i] = fp16.BFloat16.Round(r.NormFloat64()); i%n > i/n%n {
			mask.Data[i] = math.Inf(-1)
		}
	}
	for _, c := range []struct {
		beta float64
		want string
	}{{1, Pass}, {0, Fail}, {1.25, Fail}} {
		y := tensor.New(fp16.BFloat16, batch, n, n)
		for i := range y.Data {
			sum := float32(0)
			for j := range k {
				sum += float32(a.Data[i/n*k+j] * b.Data[i/(n*n)*k*n+j*n+i%n])
			}
			if y.Data[i] = float64(sum); c.beta != 0 {
				y.Data[i] += c.beta * mask.Data[i]
			}
			y.Data[i] = fp16.BFloat16.Round(y.Data[i])
		}
		g, _, err := Kernel("baddbmm", []byte("{}"), []string{"input", "batch1", "batch2"})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{mask, a, b}, Output: y})
		if err != nil || answer.Verdict != c.want {
			t.Errorf("beta %v: %+v, %v: want %s", c.beta, answer, err, c.want)
		}
	}
}
