package plan_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestCuts: parts of a tensor that are its numbers one after the other are no copies, and have the bits of Run: of
// inputs and of what nodes make, parts of parts and in other shapes, which are outputs, and are read by nodes that work
// in place; those of axes after others are copies.
func TestCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(47, 48))
	none := 0
	for trial := range 60 {
		g := graph.New(new(graph.Kept))
		op := func(name, attributes string, outputs int, in ...int) []int {
			o, err := graph.Bind(name, []byte(attributes))
			if err != nil {
				t.Fatal(err)
			}
			return g.AddNode(o, "", outputs, in...)
		}
		first := 1 + trial%2 // of an axis before that which is cut
		x := g.Input("x")
		y := x
		if trial%3 > 0 {
			y = op("add", `{"other": 1}`, 1, x)[0]
		}
		parts := op("split", `{"split_size": [3, 5, 4], "dim": 1}`, 3, y)
		small := op("chunk", `{"chunks": 2, "dim": -2}`, 2, parts[2])
		lines := op("unbind", `{"dim": 1}`, 5, parts[1])
		view := op("reshape", `{"shape": [-1]}`, 1, small[1])[0]
		changed := op("sigmoid", `{}`, 1, parts[0])[0]
		changed = op("mul", `{}`, 1, changed, parts[0])[0]
		sum := op("add", `{}`, 1, lines[0], op("tanh", `{}`, 1, lines[4])[0])[0]
		g.Outputs = []int{changed, sum, view, small[0], lines[2], op("exp", `{}`, 1, lines[3])[0]}
		if trial%4 == 0 {
			g.Outputs = append(g.Outputs, y)
		}
		mode, err := graph.ParseMode([]string{"float32", "bfloat16", "tf32"}[trial%3], "")
		if err != nil {
			t.Fatal(err)
		}
		mode.Fast = trial%3 == 0 && trial%2 == 0
		in := random(r, fp16.Float32, first, 12, 1+trial%5)
		of := graph.Type{Shape: in.Shape, Format: in.Format}
		program, err := g.Infer(mode, of)
		if err != nil {
			t.Fatal(err)
		}
		want, err := program.Run(&graph.Run{}, in)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.New(g, mode, of)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range p.Nodes() {
			if n.Op == "split" && n.Kernel == "none" {
				none++
			}
		}
		var got []*tensor.Tensor
		for _, y := range want {
			got = append(got, tensor.New(y.Format, y.Shape...))
		}
		for range 2 {
			if err := p.Run(nil, noise.Time{}, got, []*tensor.Tensor{in}); err != nil {
				t.Fatal(err)
			}
			for i, y := range want {
				for j, v := range y.Data {
					if math.Float64bits(got[i].Data[j]) != math.Float64bits(v) {
						t.Fatalf("trial %d, output %d, number %d: %x, want %x", trial, i, j, got[i].Data[j], v)
					}
				}
			}
		}
	}
	if none != 30 {
		t.Errorf("%d splits are no copies, want 30", none)
	}
}
