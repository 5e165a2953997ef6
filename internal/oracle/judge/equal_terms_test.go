package judge

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestEqualTerms: sums of equal numbers, one after another in float32, whose roundings are all to one side, are right;
// what is eight times as far off is not.
func TestEqualTerms(t *testing.T) {
	const rows, n = 48, 1 << 12
	r := rand.New(rand.NewPCG(15, 16))
	x := tensor.New(fp16.Float32, rows, n)
	right, wrong := tensor.New(fp16.Float32, rows), tensor.New(fp16.Float32, rows)
	for row := range rows {
		v, s := fp16.Float32.Round(1+r.Float64()), float32(0)
		for i := range n {
			x.Data[row*n+i] = v
			s += float32(v)
		}
		right.Data[row] = float64(s / n)
		wrong.Data[row] = float64(float32(v + 8*(right.Data[row]-v)))
	}
	g, _, err := Kernel("mean", []byte(`{"dim":[1]}`), []string{"input"})
	if err != nil {
		t.Fatal(err)
	}
	for y, want := range map[*tensor.Tensor]string{right: Pass, wrong: Fail} {
		if a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y}); err != nil || a.Verdict != want {
			t.Errorf("want %s: %+v %v", want, a, err)
		}
	}
}
