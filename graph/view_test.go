package graph_test

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/tensor"
)

// viewed runs a graph that build makes of an input x [2,3], with and without somebody who
// sees its values (then nothing is done in place), and compares the outputs and the input.
func viewed(t *testing.T, build func(g *graph.Graph, x int) []int) (x *tensor.Tensor, out []*tensor.Tensor) {
	t.Helper()
	g := graph.New(new(graph.Kept))
	g.Outputs = build(g, g.Input("x"))
	x = tensor.Of(fp16.Float32, []float64{-3, -2, -1, 1, 2, 3}, 2, 3)
	p := infer(t, g, float32s, x)
	want, err := p.Run(&graph.Run{Seen: func(int, *tensor.Tensor) {}}, x)
	if err != nil {
		t.Fatal(err)
	}
	out, err = p.Run(&graph.Run{}, x)
	if err != nil {
		t.Fatal(err)
	}
	for k := range want {
		if !slices.Equal(out[k].Data, want[k].Data) || !slices.Equal(out[k].Shape, want[k].Shape) {
			t.Errorf("output %d: %v of %v, want %v of %v", k, out[k].Data, out[k].Shape, want[k].Data, want[k].Shape)
		}
	}
	if !slices.Equal(x.Data, []float64{-3, -2, -1, 1, 2, 3}) {
		t.Errorf("the input is %v", x.Data)
	}
	return x, out
}

// TestViews: a view shares memory, and nothing that somebody still reads is overwritten.
func TestViews(t *testing.T) {
	flat := graph.Reshape{Shape: graph.Ints{6}}
	relu := graph.Act{Func: act.ReLU}
	t.Run("of the input, which stays", func(t *testing.T) {
		viewed(t, func(g *graph.Graph, x int) []int {
			return []int{g.Add(relu, "y", g.Add(flat, "v", x))}
		})
	})
	t.Run("of a value that is read later", func(t *testing.T) {
		_, out := viewed(t, func(g *graph.Graph, x int) []int {
			y := g.Add(graph.Addition, "y", x, x)
			z := g.Add(relu, "z", g.Add(flat, "v", y))
			return []int{g.Add(graph.Addition, "sum", y, x), z}
		})
		if !slices.Equal(out[0].Data, []float64{-9, -6, -3, 3, 6, 9}) {
			t.Errorf("%v", out[0].Data)
		}
	})
	t.Run("read after its value was", func(t *testing.T) {
		_, out := viewed(t, func(g *graph.Graph, x int) []int {
			y := g.Add(graph.Addition, "y", x, x)
			v := g.Add(flat, "v", y)
			z := g.Add(relu, "z", y)
			return []int{z, g.Add(graph.Addition, "sum", v, v)}
		})
		if !slices.Equal(out[1].Data, []float64{-12, -8, -4, 4, 8, 12}) {
			t.Errorf("%v", out[1].Data)
		}
	})
	t.Run("of a view", func(t *testing.T) {
		_, out := viewed(t, func(g *graph.Graph, x int) []int {
			y := g.Add(graph.Addition, "y", x, x)
			w := g.Add(graph.Unsqueeze{Axes: graph.Ints{0}}, "w", g.Add(flat, "v", y))
			z := g.Add(relu, "z", y)
			return []int{z, g.Add(relu, "last", w)}
		})
		if !slices.Equal(out[1].Shape, []int{1, 6}) {
			t.Errorf("%v", out[1].Shape)
		}
	})
	t.Run("beside its value in one operation", func(t *testing.T) {
		_, out := viewed(t, func(g *graph.Graph, x int) []int {
			y := g.Add(graph.Addition, "y", x, x)
			places := g.Constant("places", tensor.Of(fp16.Int64, []float64{3, 4, 5, 0, 1, 2}, 6))
			source := g.Add(flat, "v", g.Add(graph.Unsqueeze{Axes: graph.Ints{0}}, "u", g.Add(flat, "f", y)))
			return []int{g.Add(graph.Scatter{}, "z", g.Add(flat, "w", y), places, source)}
		})
		if !slices.Equal(out[0].Data, []float64{2, 4, 6, -6, -4, -2}) {
			t.Errorf("%v", out[0].Data)
		}
	})
	t.Run("as an output it is nobody else's", func(t *testing.T) {
		x, out := viewed(t, func(g *graph.Graph, x int) []int {
			y := g.Add(graph.Addition, "y", x, x)
			return []int{g.Add(flat, "v", x), g.Add(flat, "w", y), y}
		})
		out[0].Data[0], out[1].Data[0] = 77, 78
		if x.Data[0] != -3 || out[2].Data[0] != -6 {
			t.Error("an output shares memory")
		}
	})
	t.Run("shares", func(t *testing.T) {
		g := graph.New(new(graph.Kept))
		x := g.Input("x")
		y := g.Add(graph.Addition, "y", x, x)
		v := g.Add(flat, "v", y)
		g.Outputs = []int{g.Add(relu, "z", v)}
		in := tensor.New(fp16.Float32, 2, 3)
		at := map[int]*float64{}
		run(t, infer(t, g, float32s, in), &graph.Run{Seen: func(v int, x *tensor.Tensor) { at[v] = &x.Data[0] }}, in)
		if at[y] != at[v] {
			t.Error("a view was copied")
		}
	})
	t.Run("known", func(t *testing.T) {
		g := graph.New(new(graph.Kept))
		x := g.Input("x")
		y := g.Add(graph.Addition, "y", x, x)
		g.Outputs = []int{g.Add(relu, "z", g.Add(flat, "v", y))}
		in, known := numbers(1, 2, 3), numbers(2, 2, 3)
		before := slices.Clone(known.Data)
		p := infer(t, g, float32s, in)
		of := make([]*tensor.Tensor, len(g.Values))
		of[y] = known
		run(t, p, &graph.Run{Known: of}, in)
		if !slices.Equal(known.Data, before) {
			t.Error("a known tensor was changed through a view")
		}
	})
}
