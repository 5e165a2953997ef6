package plan_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestMoving: views, indices and operations of several outputs between convolutions have
// in a plan the bits of Run.
func TestMoving(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	g := graph.New(new(graph.Kept))
	x := g.Input("x")
	weights := func() int { return g.Constant("w", random(r, fp16.Float32, 4, 4, 3, 3)) }
	places := g.Constant("places", tensor.Of(fp16.Int64, []float64{2, 0, -1, 2, 1, 0, 0, 3}, 8))
	a := g.Add(graph.Conv{Params: conv.Square(1, 1, conv.Zeros)}, "first", x, weights())
	channels := g.Add(graph.Permute{Axes: graph.Ints{1, 0, 2, 3}}, "channels", a)
	v := g.Add(graph.Flatten{Start: 1, End: -1}, "flat", channels)
	w := g.Add(graph.IndexAdd{FromEnd: true}, "sums", v, places,
		g.Add(graph.IndexSelect{FromEnd: true}, "taken", v, places))
	back := g.Add(graph.Permute{Axes: graph.Ints{1, 0, 2, 3}}, "back",
		g.Add(graph.Unflatten{Axis: 1, Sizes: graph.Ints{2, 6, -1}}, "image", w))
	parts := g.AddNode(graph.Chunk{Chunks: 2, Axis: 1}, "parts", 2, back)
	joined := g.Add(graph.Cat{Axis: 1}, "joined", parts[1], parts[0])
	b := g.Add(graph.Conv{Params: conv.Square(1, 1, conv.Zeros)}, "last", joined, weights())
	best := g.AddNode(graph.TopK{K: 3, Axis: -1, Largest: true}, "best", 2, b)
	g.Outputs = []int{b, best[0], best[1], v}
	for _, m := range [][2]string{{"float32", ""}, {"bfloat16", "cpu"}} {
		mode, err := graph.ParseMode(m[0], m[1])
		if err != nil {
			t.Fatal(err)
		}
		of := graph.Type{Shape: []int{2, 4, 6, 5}, Format: fp16.Float32}
		p, err := plan.New(g, mode, of)
		if err != nil {
			t.Fatal(err)
		}
		program, err := g.Infer(mode, of)
		if err != nil {
			t.Fatal(err)
		}
		var out []*tensor.Tensor
		for k := range g.Outputs {
			out = append(out, tensor.New(p.Type(k).Format, p.Type(k).Shape...))
		}
		for range 3 {
			in := []*tensor.Tensor{random(r, fp16.Float32, of.Shape...)}
			want, err := program.Run(&graph.Run{}, in...)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Run(nil, noise.Time{}, out, in); err != nil {
				t.Fatal(err)
			}
			for k := range want {
				if !slices.Equal(out[k].Data, want[k].Data) || out[k].Format != want[k].Format {
					t.Errorf("%v: output %d differs", mode, k)
				}
			}
		}
	}
}

// TestConstantOutput: an output may be a constant, or the input.
func TestConstantOutput(t *testing.T) {
	g := graph.New(new(graph.Kept))
	x := g.Input("x")
	g.Outputs = []int{g.Constant("c", tensor.Of(fp16.Float32, []float64{1, 2, 3}, 3)), x}
	of := graph.Type{Shape: []int{2}, Format: fp16.Float32}
	p, err := plan.New(g, graph.Mode{Precision: fp16.Float32}, of)
	if err != nil {
		t.Fatal(err)
	}
	out := []*tensor.Tensor{tensor.New(fp16.Float32, 3), tensor.New(fp16.Float32, 2)}
	if err := p.Run(nil, noise.Time{}, out, []*tensor.Tensor{tensor.Of(fp16.Float32, []float64{5, 6}, 2)}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(out[0].Data, []float64{1, 2, 3}) || !slices.Equal(out[1].Data, []float64{5, 6}) {
		t.Errorf("%v", out)
	}
}
