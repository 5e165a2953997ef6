package plan_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestSettled: what depends on constants alone is evaluated when a plan is compiled, and no pass is left for it, also
// where it is an output or is read by several; the bits are those of Run, in every mode; a graph that is compiled again
// is as it was. Autocast leaves it to the passes.
func TestSettled(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	op := func(g *graph.Graph, name, attributes string, in ...int) int {
		o, err := graph.Bind(name, []byte(attributes))
		if err != nil {
			t.Fatal(err)
		}
		return g.Add(o, name, in...)
	}
	for _, m := range [][2]string{{"float32", ""}, {"tf32", ""}, {"float16", "cuda"}, {"bfloat16", "cpu"}} {
		mode, err := graph.ParseMode(m[0], m[1])
		if err != nil {
			t.Fatal(err)
		}
		g := graph.New(nil)
		x, line := g.Input("x"), g.Constant("line", random(r, fp16.Float32, 7))
		window := op(g, "cos", `{}`, op(g, "mul", `{"other": 3.1}`, line))
		truths := op(g, "gt", `{"other": 0}`, window)
		y := op(g, "matmul", `{}`, op(g, "mul", `{}`, x, window), op(g, "unsqueeze", `{"dim": 1}`, window))
		g.Outputs = []int{y, window, op(g, "where", `{}`, truths, x, window), op(g, "exp", `{}`, y)}
		in := random(r, fp16.Float32, 3, 7)
		of := graph.Type{Shape: in.Shape, Format: in.Format}
		program, err := g.Infer(mode, of)
		if err != nil {
			t.Fatal(err)
		}
		want, err := program.Run(&graph.Run{}, in)
		if err != nil {
			t.Fatal(err)
		}
		nodes, constants := len(g.Nodes), slices.Clone(g.Values)
		for range 2 {
			p, err := plan.New(g, mode, of)
			if err != nil {
				t.Fatal(err)
			}
			var out []*tensor.Tensor
			for k := range g.Outputs {
				out = append(out, tensor.New(p.Type(k).Format, p.Type(k).Shape...))
			}
			for range 2 {
				if err := p.Run(nil, noise.Time{}, out, []*tensor.Tensor{in}); err != nil {
					t.Fatal(err)
				}
				for k := range out {
					for i, v := range out[k].Data {
						if math.Float64bits(v) != math.Float64bits(want[k].Data[i]) {
							t.Fatalf("%v: number %d of output %d is %v, want %v", m, i, k, v, want[k].Data[i])
						}
					}
				}
			}
			left := slices.ContainsFunc(p.Nodes(), func(n plan.Node) bool { return n.Op == "cos" || n.Op == "gt" })
			if left != (m[1] != "" || m[0] == "tf32") {
				t.Errorf("%v: passes for constants are left: %v", m, left)
			}
			for v := range g.Values {
				if len(g.Nodes) != nodes || g.Values[v].Const != constants[v].Const {
					t.Fatalf("%v: compiling changed the graph", m)
				}
			}
		}
	}
}
