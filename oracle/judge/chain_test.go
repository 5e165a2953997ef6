package judge

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestChain: the roundings of a chain of operations are found, also where they explain every bit.
func TestChain(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	x := tensor.New(fp16.BFloat16, 20, 30)
	for i := range x.Data {
		x.Data[i] = fp16.BFloat16.Round(r.NormFloat64())
	}
	g := graph.New(nil)
	in := g.Input("input")
	s := g.Add(unary("sigmoid"), "gate", in)
	g.Outputs = []int{g.Add(plus, "sum", s, in)}
	for _, round := range []bool{false, true} {
		y, err := one(unary("sigmoid"), x)
		if err != nil {
			t.Fatal(err)
		}
		out := tensor.New(fp16.BFloat16, 20, 30)
		want := []string(nil)
		for i, v := range y.Data {
			if round {
				v, want = fp16.BFloat16.Round(v), []string{"gate"}
			}
			out.Data[i] = fp16.BFloat16.Round(v + x.Data[i])
		}
		rep, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: out})
		if err != nil || rep.Verdict != Pass || !slices.Equal(rep.Contract.Round, want) {
			t.Errorf("%v: %+v %v", round, rep, err)
		}
	}
}
