package rollout

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestStepGraph: a step as a graph, by Run and by a plan, is the stepper's, for every
// policy, post-processing and mode.
func TestStepGraph(t *testing.T) {
	op, err := operator.Init(operator.Config{
		InputChannels: 2, OutputChannels: 2, BaseChannels: 8, NumLayers: 2, NoiseType: "gaussian", NoiseScale: 0.1,
	}, 3)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(21, 22))
	draws := func() noise.Draws {
		d, err := noise.Counter{Seed: 7}.At(1, 0, 3)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, name := range [][2]string{{"float64", ""}, {"float32", ""}, {"tf32", ""}, {"float16", "cuda"},
		{"bfloat16", "cuda"}, {"bfloat16", "cpu"}, {"float16", "cuda:1.13"}, {"bfloat16", "cpu:1.13"}} {
		mode, err := graph.ParseMode(name[0], name[1])
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []Config{
			{Policy: Autoregressive}, {Policy: Residual, Dt: 0.01}, {Policy: Convex, Alpha: 0.3}, {Alpha: 0.7},
			{Policy: Convex, Alpha: 0.3, Normalization: MinMax},
			{Policy: Residual, Dt: 0.3, Normalization: ZScore, EngineBatch: 3},
			{Policy: Autoregressive, Normalization: ZScore},
			{Policy: Convex, Alpha: 0.1, Normalization: MinMax, EngineBatch: 3, Clamp: &[2]float64{0.1, 0.7}},
			{Policy: Residual, Dt: 2, Clamp: &[2]float64{-0.3, 0.3}},
		} {
			x := tensor.Of(c.StateFormat(op.Output(mode)), numbers(r, 3*2*12*9, 1), 3, 2, 12, 9)
			x.Format.RoundSlice(x.Data, x.Data)
			want, err := (&Stepper{Operator: op, Config: c, Mode: mode, Batch: i % 3}).Step(x, draws())
			if err != nil {
				t.Fatal(err)
			}
			g := op.Graph(true)
			g.Outputs[0] = c.Step(g, g.Inputs[0], g.Outputs[0])
			of := graph.Type{Shape: x.Shape, Format: x.Format}
			program, err := g.Infer(mode, of)
			if err != nil {
				t.Fatalf("%v, %+v: %v", mode, c, err)
			}
			ran, err := program.Run(&graph.Run{Draws: draws()}, x)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]*tensor.Tensor{"Run": ran[0]}
			if mode.Precision != fp16.Float64 { // of which there are no plans
				p, err := plan.New(g, mode, of)
				if err != nil {
					t.Fatal(err)
				}
				got["plan"] = tensor.New(p.Type(0).Format, p.Type(0).Shape...)
				if err := p.Run(draws(), noise.Time{}, []*tensor.Tensor{got["plan"]}, []*tensor.Tensor{x}); err != nil {
					t.Fatal(err)
				}
			}
			for what, y := range got {
				if y.Format != want.Format {
					t.Errorf("%v, %+v, %s: states of %v, want %v", mode, c, what, y.Format, want.Format)
				}
				for k := range want.Data {
					if !same(y.Data[k], want.Data[k]) {
						t.Errorf("%v, %+v, %s: element %d is %v, want %v", mode, c, what, k, y.Data[k], want.Data[k])
						break
					}
				}
			}
		}
	}
}
