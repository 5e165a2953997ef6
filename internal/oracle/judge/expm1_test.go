package judge

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestExpm1Subtracted: e^x - 1 in float32 is a right expm1, as PyTorch compiles it for a CPU. The same in float16 is
// none.
func TestExpm1Subtracted(t *testing.T) {
	g, _, err := Kernel("expm1", nil, []string{"input"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   fp16.Format
		want string
	}{{fp16.Float32, Pass}, {fp16.Float16, Fail}} {
		x := tensor.New(fp16.Float32, 20, 50)
		y := tensor.New(fp16.Float32, 20, 50)
		for i := range x.Data {
			x.Data[i] = float64(float32(math.Sin(float64(i)) * math.Pow(10, -float64(i%5))))
			y.Data[i] = float64(float32(c.in.Round(math.Exp(x.Data[i])) - 1))
		}
		r, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
		if err != nil || r.Verdict != c.want {
			t.Errorf("in %v: %+v, %v", c.in, r, err)
		}
		if c.want == Pass && !r.Contract.Symmetric {
			t.Errorf("by %v", r.Contract)
		}
	}
}
