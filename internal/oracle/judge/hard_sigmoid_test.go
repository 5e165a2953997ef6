package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestHardSigmoid: ONNX's HardSigmoid of any parameters passes as kernels compute it, with the product rounded, fused,
// or as (x + beta/alpha) alpha, and fails with parameters that are a little off, or cut off elsewhere.
func TestHardSigmoid(t *testing.T) {
	cut := func(v float64) float64 { return max(min(v, 1), 0) }
	f32 := func(v float64) float64 { return float64(float32(v)) }
	type kernel func(x, a, b float64) float64
	right := map[string]kernel{
		"product and sum": func(x, a, b float64) float64 { return cut(f32(f32(a*x) + b)) },
		"fused":           func(x, a, b float64) float64 { return cut(f32(math.FMA(a, x, b))) },
	}
	sixth := map[string]kernel{"relu6": func(x, a, b float64) float64 { return f32(max(min(f32(x+3), 6), 0) / 6) }}
	wrong := map[string]kernel{
		"alpha off":    func(x, a, b float64) float64 { return cut(f32(f32(a*1.0001*x) + b)) },
		"beta off":     func(x, a, b float64) float64 { return cut(f32(f32(a*x) + b + 1e-4)) },
		"not cut off":  func(x, a, b float64) float64 { return f32(f32(a*x) + b) },
		"in bfloat16":  func(x, a, b float64) float64 { return cut(fp16.BFloat16.Round(f32(a*x) + b)) },
		"a half limit": func(x, a, b float64) float64 { return min(cut(f32(f32(a*x)+b)), 0.5) },
	}
	r := rand.New(rand.NewPCG(91, 92))
	passed, failed := 0, 0
	for n := range 12 {
		a, b := f32(0.05+r.Float64()), f32(r.Float64())
		forms := right
		if n%3 == 0 {
			a, b, forms = f32(1.0/6), 0.5, sixth
		}
		op, err := graph.Bind("hard_sigmoid", fmt.Appendf(nil, `{"alpha": %v, "beta": %v}`, a, b))
		if err != nil {
			t.Fatal(err)
		}
		x := tensor.New(fp16.Float32, 20, 30)
		for i := range x.Data {
			x.Data[i] = f32(3 * r.NormFloat64())
		}
		g := graph.New(nil)
		g.Outputs = []int{g.Add(op, "y", g.Input("x"))}
		verdict := func(f kernel) string {
			y := tensor.New(fp16.Float32, 20, 30)
			for i, v := range x.Data {
				y.Data[i] = f(v, a, b)
			}
			report, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
			if err != nil {
				t.Fatal(err)
			}
			return report.Verdict
		}
		for name, f := range forms {
			if passed++; verdict(f) != Pass {
				t.Errorf("alpha %v, beta %v, %s: %v, want a pass", a, b, name, verdict(f))
			}
		}
		for name, f := range wrong {
			if failed++; verdict(f) != Fail {
				t.Errorf("alpha %v, beta %v, %s: %v, want a failure", a, b, name, verdict(f))
			}
		}
	}
	t.Logf("%d right, %d wrong", passed, failed)
}
