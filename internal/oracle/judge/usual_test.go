package judge

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// TestSmallShares: of a result that takes a hundredth of what is rounded to half, a rounding that is not there is far
// less than a place of half, and shows in the distance as it does elsewhere.
func TestSmallShares(t *testing.T) {
	x, o := tensor.New(fp16.Float32, 1, 2, 8, 8), tensor.New(fp16.Float32, 1, 2, 8, 8)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range x.Data {
		x.Data[i], o.Data[i] = fp16.Float32.Round(r.NormFloat64()), fp16.Float32.Round(r.NormFloat64())
	}
	dt := 0x1p-7
	step := func(rounded bool) *graph.Graph {
		g := graph.New(nil)
		a, b := g.Input("state"), g.Input("output")
		if rounded {
			b = g.Add(graph.Cast{Dtype: "float16"}, "stored", b)
		}
		g.Outputs = []int{g.Add(graph.Addition, "next", a, g.Add(graph.Binary{Of: pointwise.Mul, Other: &dt}, "share", b))}
		return g
	}
	y := tensor.New(fp16.Float32, x.Shape...)
	exact := make([]float64, len(y.Data))
	for i := range y.Data {
		exact[i] = x.Data[i] + dt*o.Data[i]
		y.Data[i] = fp16.Float32.Round(x.Data[i] + dt*fp16.Float16.Round(o.Data[i]))
	}
	off := func(rounded bool) float64 {
		m := &Many{N: 1, Memory: new(Memory), At: func(int) (Question, error) {
			return Question{Graph: step(rounded), Inputs: []*tensor.Tensor{x, o}, Output: y, Written: true,
				Narrow: fp16.Float16, Truth: func() ([]float64, error) { return exact, nil }}, nil
		}}
		far, err := m.Off(Contract{Form: Form{written: true}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return far.Mean
	}
	if right, wrong := off(true), off(false); right > 1e-3 || wrong < .1 {
		t.Errorf("the device's contract is %.3g bits off and one without its rounding %.3g: want next to none, and a tenth",
			right, wrong)
	}
}
