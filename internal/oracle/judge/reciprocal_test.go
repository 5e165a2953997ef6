package judge

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// TestReciprocals: a quotient by a number that is written in a graph may be a product with its reciprocal in the half
// type, as XLA makes it; with another reciprocal it is wrong.
func TestReciprocals(t *testing.T) {
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		for seed := range uint64(12) {
			r := rand.New(rand.NewPCG(seed, uint64(f)))
			x := drawn(r, f, 26, 27)
			c := .05 + 3*r.Float64()
			if seed == 0 { // which the types have, and not its reciprocal
				c = 7
			}
			g := graph.New(nil)
			g.Outputs = []int{g.Add(graph.Binary{Of: pointwise.Div, Other: &c}, "y", g.Input("x"))}
			by := f.Round(1 / f.Round(c))
			for _, off := range []float64{0, 3} {
				out := tensor.New(f, x.Shape...)
				for i, v := range x.Data {
					out.Data[i] = f.Round(v * (by + off*f.Ulp(by)))
				}
				a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: out})
				if err != nil || (a.Verdict == Pass) != (off == 0) {
					t.Errorf("%v, %v, reciprocal %v places off: %+v, %v", f, c, off, a, err)
				}
			}
		}
	}
}
