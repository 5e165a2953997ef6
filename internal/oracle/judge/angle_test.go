package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// TestAngles: the angle of a point passes as libraries compute it, within 2 ulp, also of a point that a kernel
// computed; that of the wrong quadrant, one of few bits, and one of swapped arguments fail.
func TestAngles(t *testing.T) {
	for seed, f := range []fp16.Format{fp16.Float32, fp16.BFloat16, fp16.Float16} {
		for _, chained := range []bool{false, true} {
			if !share.All() && chained == (seed == 1) { // each of both, and each format
				continue
			}
			r := rand.New(rand.NewPCG(uint64(seed), 29))
			y, x := drawn(r, f, 20, 90), drawn(r, f, 20, 90)
			g := graph.New(nil)
			a, b, half := g.Input("y"), g.Input("x"), .3
			if chained {
				a = g.Add(graph.Binary{Of: pointwise.Mul, Other: &half}, "less", a)
			}
			g.Outputs = []int{g.Add(graph.Binary{Of: pointwise.Atan2}, "angle", a, b)}
			off := func(v float64) float32 { // a library's own error, of up to 1.5 ulp
				return float32(v * (1 + 3*0x1p-24*(2*r.Float64()-1)))
			}
			for how, kernel := range map[string]func(y, x float64) float32{
				"right":      func(y, x float64) float32 { return float32(math.Atan2(y, x)) },
				"library":    func(y, x float64) float32 { return off(math.Atan2(y, x)) },
				"quadrant":   func(y, x float64) float32 { return float32(math.Atan(y / x)) },
				"swapped":    func(y, x float64) float32 { return float32(math.Atan2(x, y)) },
				"few bits":   func(y, x float64) float32 { return float32(math.Atan2(y, x) * (1 + 0x1p-7*math.Sin(1e6*y))) },
				"times 1.01": func(y, x float64) float32 { return float32(1.01 * math.Atan2(y, x)) },
			} {
				out := tensor.New(f, y.Shape...)
				for i := range out.Data {
					v := float32(y.Data[i])
					if chained {
						v = float32(float32(half) * v)
					}
					out.Data[i] = f.Round(float64(kernel(float64(v), x.Data[i])))
				}
				a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{y, x}, Output: out})
				if right := how == "right" || how == "library"; err != nil || (a.Verdict == Pass) != right {
					t.Errorf("%v, chained %v, %s: %+v, %v", f, chained, how, a, err)
				}
			}
		}
	}
}
