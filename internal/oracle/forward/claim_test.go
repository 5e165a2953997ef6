package forward_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/internal/oracle/forward"
	"github.com/refrun/refrun/tensor"
)

// TestOwn: a network whose results are of a half type claims that type, whatever its inputs are. A device passes then
// that keeps all of x / sqrt(x^2/10 + 1) in float32 but the end, which the types of the results do not say.
func TestOwn(t *testing.T) {
	f := fp16.Float16
	r := rand.New(rand.NewPCG(1, 2))
	x, y := tensor.New(f, 40, 50), tensor.New(f, 40, 50)
	for i := range x.Data {
		x.Data[i] = f.Round(r.NormFloat64())
		y.Data[i] = f.Round(x.Data[i] / math.Sqrt(x.Data[i]*x.Data[i]/10+1))
	}
	tenth, one := .1, 1.
	made := func(casts string) *graph.Graph {
		g := graph.New(nil)
		in := g.Input("x")
		v := in
		if casts != "" {
			v = g.Add(graph.Cast{Dtype: casts}, "cast", v)
		}
		square := g.Add(graph.Binary{Of: pointwise.Mul}, "square", v, v)
		sum := g.Add(graph.Binary{Of: pointwise.Add, Other: &one}, "sum",
			g.Add(graph.Binary{Of: pointwise.Mul, Other: &tenth}, "tenth", square))
		root := g.Add(graph.Binary{Of: pointwise.Pow, Other: ptr(.5)}, "root", sum)
		v = g.Add(graph.Binary{Of: pointwise.Div}, "y", v, root)
		if casts != "" {
			v = g.Add(graph.Cast{Dtype: "float16"}, "back", v)
		}
		g.Outputs = []int{v}
		return g
	}
	for casts, want := range map[string]string{"": "float16/no-autocast", "float32": "float32",
		"bfloat16": "bfloat16/no-autocast"} {
		g := made(casts)
		claim := forward.Own(g, []*tensor.Tensor{x})
		if claim.String() != want {
			t.Errorf("casts to %q: claim %v, want %s", casts, claim, want)
		}
		if casts != "" {
			continue
		}
		for _, c := range []struct {
			claim  forward.Claim
			passes bool
		}{{claim, true}, {forward.Claim{Mode: graph.Mode{Precision: fp16.Float32}}, false}} {
			a, err := forward.Check(context.Background(), forward.Question{Name: "y", Graph: g,
				Inputs: []*tensor.Tensor{x}, Outputs: []*tensor.Tensor{y}, Claim: c.claim})
			if err != nil || a.Verdict.Passed() != c.passes {
				t.Errorf("claim %v: %v, %v", c.claim, a.Verdict, err)
			}
		}
	}
}

func ptr(v float64) *float64 { return &v }

// TestDouble: a network whose results are float64 claims it. What is made in float32 fails with that name.
func TestDouble(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	g := graph.New(nil)
	in := g.Input("x")
	scaled := g.Add(graph.Binary{Of: pointwise.Mul, Other: ptr(.3)}, "scaled", in)
	g.Outputs = []int{g.Add(graph.Softmax{Axis: -1}, "y", scaled)}
	x := tensor.New(fp16.Float64, 20, 30)
	for i := range x.Data {
		x.Data[i] = 5 * r.NormFloat64()
	}
	for _, made := range []fp16.Format{fp16.Float64, fp16.Float32} {
		q := forward.Question{Name: "y", Graph: g, Inputs: []*tensor.Tensor{x}, Claim: forward.Own(g, []*tensor.Tensor{x})}
		given := tensor.New(made, x.Shape...)
		made.RoundSlice(given.Data, x.Data)
		p, err := g.Infer(graph.Mode{Precision: made}, graph.Type{Shape: x.Shape, Format: made})
		if err != nil {
			t.Fatal(err)
		}
		if q.Outputs, err = p.Run(new(graph.Run), given); err != nil {
			t.Fatal(err)
		}
		q.Outputs[0].Format = fp16.Float64
		a, err := forward.Check(context.Background(), q)
		if err != nil || a.Claim != "float64" || a.Verdict.Passed() != (made == fp16.Float64) ||
			made == fp16.Float32 && a.Findings[0].ID != "kernel.steps-in:float32" {
			t.Errorf("made in %v: %+v, %v", made, a, err)
		}
	}
}

// TestQuantizedOutput: whole numbers that a network ends in are judged as what they are made of is: a product with the
// reciprocal of the scale is right, and one more is not.
func TestQuantizedOutput(t *testing.T) {
	f := fp16.Float32
	r := rand.New(rand.NewPCG(3, 4))
	x, y := tensor.New(f, 300, 10), tensor.New(fp16.Int64, 300, 10)
	scale := tensor.Of(f, []float64{f.Round(.03)}, 1)
	for i := range x.Data {
		x.Data[i] = f.Round(scale.Data[0] * (float64(r.IntN(200)-100) + .5))
		y.Data[i] = max(-128, min(127, math.RoundToEven(f.Round(x.Data[i]*f.Round(1/scale.Data[0])))))
	}
	g := graph.New(nil)
	g.Outputs = []int{g.Add(graph.QuantizeLinear{Dtype: "int8"}, "y", g.Input("x"), g.Constant("scale", scale))}
	for _, passes := range []bool{true, false} {
		a, err := forward.Check(context.Background(), forward.Question{Name: "y", Graph: g, Inputs: []*tensor.Tensor{x},
			Outputs: []*tensor.Tensor{y}, Claim: forward.Claim{Mode: graph.Mode{Precision: f}}})
		if err != nil || a.Verdict.Passed() != passes {
			t.Errorf("%v: %s, %v", a.Verdict, a.Reason, err)
		}
		y.Data[7] += 3
	}
}
