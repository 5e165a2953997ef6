package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/tensor"
)

// TestMinusOne: e^x - 1 by a subtraction, as of kernels without expm1, passes after ELU, CELU and SELU of numbers of
// every size, next to which 1 is all there is of e^x, alone and before what follows; half of the negative ones twice
// as large fail where float32 tells.
func TestMinusOne(t *testing.T) {
	for _, op := range []string{"elu", "celu", "selu"} {
		for k, exponent := range []int{-130, -126, -60, -40, -25, -12, -3, 0} {
			r, scale := rand.New(rand.NewPCG(uint64(k), 3)), map[bool]float64{true: 1.0507009873554805, false: 1}[op == "selu"]
			alpha := map[bool]float64{true: 1.6732632423543772, false: 1}[op == "selu"]
			x := tensor.New(fp16.Float32, 19, 60)
			y, wrong := tensor.New(fp16.Float32, 19, 60), tensor.New(fp16.Float32, 19, 60)
			for i := range x.Data {
				x.Data[i] = float64(float32(math.Ldexp(r.NormFloat64(), exponent)))
				v := float32(scale) * float32(x.Data[i])
				if x.Data[i] < 0 {
					v = float32(scale*alpha) * (float32(elem.Exp(x.Data[i])) - 1)
				}
				y.Data[i], wrong.Data[i] = float64(v), float64(v)
				if x.Data[i] < 0 && i%2 == 0 {
					wrong.Data[i] *= 2
				}
			}
			g := graph.New(nil)
			g.Outputs = []int{g.Add(unary("abs"), "size", g.Add(unary(op), "function", g.Input("input")))}
			size := tensor.New(fp16.Float32, 19, 60)
			for i, v := range y.Data {
				size.Data[i] = math.Abs(v)
			}
			what := fmt.Sprintf("%s of 2^%d", op, exponent)
			if a := ask(t, op, "", x, y); a.Verdict == Fail {
				t.Errorf("%s: %+v", what, a)
			}
			if a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: size}); err != nil || a.Verdict == Fail {
				t.Errorf("%s, and its size: %+v, %v", what, a, err)
			}
			if a := ask(t, op, "", x, wrong); (a.Verdict == Fail) != (exponent > -25) {
				t.Errorf("%s, twice as large: %+v", what, a)
			}
		}
	}
}
