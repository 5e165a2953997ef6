package judge

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
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

// TestCancellingChain: where terms cancel, one rounding that a right kernel makes otherwise, as of a tie that the
// scalar in float32 breaks, is a thousand places of the result: the contract is found all the same.
func TestCancellingChain(t *testing.T) {
	scale, half := 1.3, 0.5
	g := graph.New(nil)
	x, y := g.Input("x"), g.Input("y")
	product := g.Add(graph.Binary{Of: pointwise.Mul, Other: &scale}, "product", x)
	g.Outputs = []int{g.Add(graph.Binary{Of: pointwise.Sub, Other: &half}, "difference",
		g.Add(graph.Binary{Of: pointwise.Minimum}, "minimum", product, y))}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		a, b, out := drawn(r, fp16.BFloat16, 30, 40), drawn(r, fp16.BFloat16, 30, 40), tensor.New(fp16.BFloat16, 30, 40)
		for i := range out.Data {
			p := fp16.BFloat16.Round(float64(float32(a.Data[i]) * float32(scale)))
			out.Data[i] = fp16.BFloat16.Round(min(p, b.Data[i]) - half)
		}
		rep, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{a, b}, Output: out})
		if err != nil || rep.Verdict != Pass || len(rep.Contract.Round) == 0 {
			t.Errorf("seed %d: %+v %v", seed, rep, err)
		}
	}
}
