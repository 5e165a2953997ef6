package judge

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestUnexcused: a long product of half numbers whose sum is right, times a factor near 1, fails by that name, though
// its errors are less than those of sums that are stored in parts.
func TestUnexcused(t *testing.T) {
	const rows, n, columns = 28, 213, 27
	r := rand.New(rand.NewPCG(5, 6))
	x, w := drawn(r, fp16.BFloat16, rows, n), drawn(r, fp16.BFloat16, n, columns)
	out := tensor.New(fp16.BFloat16, rows, columns)
	for i := range rows {
		for j := range columns {
			var s float64
			for k := range n {
				s += x.Data[i*n+k] * w.Data[k*columns+j]
			}
			out.Data[i*columns+j] = fp16.BFloat16.Round(fp16.Float32.Round(s) * 1.003)
		}
	}
	a, err := Check(question(t, "matmul", "", out, x, w))
	if err != nil || a.Verdict != Fail || a.Fault == "" {
		t.Errorf("%+v, %v: want it named", a, err)
	}
}
