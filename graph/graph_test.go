package graph_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/tensor"
)

// float32s is the mode of most tests.
var float32s = graph.Mode{Precision: fp16.Float32}

// numbers returns a tensor of small float32 numbers of both signs.
func numbers(seed int, shape ...int) *tensor.Tensor {
	x := tensor.New(fp16.Float32, shape...)
	for i := range x.Data {
		x.Data[i] = float64((i*7+seed*3)%11-5) / 4
	}
	return x
}

// residual is relu(conv(x)) + x, and the values of its parts.
func residual() (g *graph.Graph, x, y, z, sum int) {
	g = graph.New(new(graph.Kept))
	x = g.Input("x")
	w := g.Constant("w", numbers(1, 2, 2, 3, 3))
	y = g.Add(graph.Conv{Params: conv.Square(1, 1, conv.Zeros)}, "y", x, w)
	z = g.Add(graph.Act{Func: act.ReLU}, "z", y)
	sum = g.Add(graph.Addition, "sum", z, x)
	g.Outputs = []int{sum}
	return
}

func infer(t *testing.T, g *graph.Graph, m graph.Mode, in ...*tensor.Tensor) *graph.Program {
	t.Helper()
	var types []graph.Type
	for _, x := range in {
		types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	p, err := g.Infer(m, types...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func run(t *testing.T, p *graph.Program, r *graph.Run, in ...*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	out, err := p.Run(r, in...)
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestRun: the values are those of the operations one by one, with and without
// somebody who sees them; the inputs stay as they are.
func TestRun(t *testing.T) {
	g, _, y, z, sum := residual()
	x := numbers(2, 1, 2, 4, 5)
	before := slices.Clone(x.Data)
	p := infer(t, g, float32s, x)
	seen := map[int][]float64{}
	got := run(t, p, &graph.Run{Seen: func(v int, t *tensor.Tensor) { seen[v] = slices.Clone(t.Data) }}, x)
	wantY, wantZ := tensor.Like(x), tensor.Like(x)
	conv.Forward(wantY, x, conv.NewKernel(numbers(1, 2, 2, 3, 3), nil), conv.Square(1, 1, conv.Zeros))
	act.Forward(wantZ, wantY, act.ReLU)
	want := tensor.Like(x)
	for i := range want.Data {
		want.Data[i] = fp16.Float32.Round(wantZ.Data[i] + x.Data[i])
	}
	for v, of := range map[int]*tensor.Tensor{y: wantY, z: wantZ, sum: want} {
		if !slices.Equal(seen[v], of.Data) {
			t.Errorf("%s: %v, want %v", g.Values[v].Name, seen[v], of.Data)
		}
	}
	if len(seen) != 3 || !slices.Equal(got.Data, want.Data) {
		t.Errorf("output %v, want %v; %d values seen", got.Data, want.Data, len(seen))
	}
	for range 2 { // in place, where that is possible, and with kept weights
		if again := run(t, p, &graph.Run{}, x); !slices.Equal(again.Data, want.Data) {
			t.Error("another output when nobody looks")
		}
	}
	if !slices.Equal(x.Data, before) {
		t.Error("the input was changed")
	}
}

// TestKnown: what depends on a known value is evaluated from it, the rest is not, and
// a known tensor stays as it is.
func TestKnown(t *testing.T) {
	g, _, y, z, sum := residual()
	x := numbers(2, 1, 2, 4, 5)
	p := infer(t, g, float32s, x)
	other := numbers(9, 1, 2, 4, 5)
	kept := slices.Clone(other.Data)
	known := make([]*tensor.Tensor, len(g.Values))
	known[y] = other
	for _, look := range []bool{false, true} {
		var made []int
		r := &graph.Run{Known: known}
		if look {
			r.Seen = func(v int, _ *tensor.Tensor) { made = append(made, v) }
		}
		got := run(t, p, r, x)
		for i, v := range got.Data {
			if want := max(other.Data[i], 0) + x.Data[i]; v != want {
				t.Fatalf("element %d is %v, want %v", i, v, want)
			}
		}
		if look && !slices.Equal(made, []int{z, sum}) {
			t.Errorf("values %v were made, want %v and %v", made, z, sum)
		}
	}
	if !slices.Equal(other.Data, kept) {
		t.Error("the known tensor was changed")
	}
}

// TestMake: a device makes some nodes itself, in formats of its own, or hands an input on,
// and every value is let go once, when nothing reads it any more.
func TestMake(t *testing.T) {
	g, _, y, z, sum := residual()
	x := numbers(3, 1, 2, 4, 5)
	p := infer(t, g, float32s, x)
	plain := run(t, p, &graph.Run{}, x)
	var gone []int
	r := &graph.Run{
		Make: func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			switch g.Nodes[i].Out[0] {
			case y:
				return x, nil
			case z:
				if in[0] != x {
					t.Error("the node behind does not read what was made")
				}
				out := tensor.New(fp16.Float16, in[0].Shape...)
				for k, v := range in[0].Data {
					out.Data[k] = fp16.Float16.Round(v / 3)
				}
				return out, nil
			}
			return nil, nil
		},
		Gone: func(v int, _ *tensor.Tensor) { gone = append(gone, v) },
	}
	before := slices.Clone(x.Data)
	for i, v := range run(t, p, r, x).Data {
		if want := fp16.Float32.Round(fp16.Float16.Round(before[i]/3) + before[i]); v != want {
			t.Fatalf("element %d is %v, want %v", i, v, want)
		}
	}
	if !slices.Equal(gone, []int{y, z}) || !slices.Equal(x.Data, before) {
		t.Errorf("values %v were let go, want %v and %v; %v is the output", gone, y, z, sum)
	}
	r = &graph.Run{Make: func(int, []*tensor.Tensor) (*tensor.Tensor, error) { return nil, nil }}
	if got := run(t, p, r, x); !slices.Equal(got.Data, plain.Data) {
		t.Error("nodes that are left to their operations differ")
	}
	r = &graph.Run{Make: func(int, []*tensor.Tensor) (*tensor.Tensor, error) { return nil, errors.New("broken") }}
	if _, err := p.Run(r, x); err == nil || err.Error() != g.Name(&g.Nodes[0])+": broken" {
		t.Error(err)
	}
}

// TestUnneeded: a node whose output nobody needs is not evaluated.
func TestUnneeded(t *testing.T) {
	g, _, y, _, _ := residual()
	g.Outputs = []int{y}
	x := numbers(2, 1, 2, 4, 5)
	n := 0
	run(t, infer(t, g, float32s, x), &graph.Run{Seen: func(int, *tensor.Tensor) { n++ }}, x)
	if n != 1 {
		t.Errorf("%d values were made, want 1", n)
	}
}

// TestInferRefuses: each error names the node and what would be right.
func TestInferRefuses(t *testing.T) {
	image := graph.Type{Shape: []int{1, 2, 4, 5}, Format: fp16.Float32}
	relu := graph.Act{Func: act.ReLU}
	half, err := graph.Bind("avg_pool2d", []byte(`{"kernel_size": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		edit func(g *graph.Graph)
		in   []graph.Type
		want string
	}{
		{"no input", func(g *graph.Graph) {}, nil, "graph: 0 inputs: want 1"},
		{"an image of other channels", func(g *graph.Graph) {},
			[]graph.Type{{Shape: []int{1, 3, 4, 5}, Format: fp16.Float32}}, "y: input has 3 channels: want 2"},
		{"a matrix", func(g *graph.Graph) {}, []graph.Type{{Shape: []int{4, 5}, Format: fp16.Float32}},
			"y: input of shape [4 5]: want [N,C,H,W]"},
		{"a cycle", func(g *graph.Graph) { g.Nodes[0].In[0] = g.Nodes[2].Out[0] }, []graph.Type{image},
			`y: input 0: "sum" is not made yet: want an order in which each node reads what is there before it`},
		{"a value made twice", func(g *graph.Graph) { g.Nodes[2].Out = g.Nodes[1].Out }, []graph.Type{image},
			`z: output 0: "z" is made twice: want each value made once`},
		{"an output that nothing makes", func(g *graph.Graph) {
			g.Values = append(g.Values, graph.Value{Name: "lost"})
			g.Outputs = []int{len(g.Values) - 1}
		}, []graph.Type{image}, `graph: output "lost": made by no node`},
		{"an output too many", func(g *graph.Graph) { g.Nodes[1].Out = append(g.Nodes[1].Out, g.Nodes[2].Out...) },
			[]graph.Type{image}, "z: 2 outputs: want 1 of relu"},
		{"an input too many", func(g *graph.Graph) { g.Add(relu, "two", 0, 0) }, []graph.Type{image},
			"two: 2 inputs: want 1"},
		{"inputs of two shapes", func(g *graph.Graph) {
			g.Add(graph.Addition, "odd", 0, g.Add(half, "half", 0))
		}, []graph.Type{image},
			"odd: shapes [[1 2 4 5] [1 2 2 2]]: want dimensions that are equal, or 1, from the last one on"},
		{"an image too large", func(g *graph.Graph) {
			g.Add(graph.Interpolate{Scale: graph.Floats{1 << 20}, Mode: "nearest"}, "huge", 0)
		}, []graph.Type{image}, "huge: output [1 2 4194304 5242880]: want at most 2^40 elements"},
		{"groups that do not divide", func(g *graph.Graph) {
			c := g.Constant("one", numbers(1, 2))
			g.Add(graph.GroupNorm{Groups: 3}, "norm", 0, c, c)
		}, []graph.Type{image}, "norm: num_groups: 3: want a divisor of the 2 channels"},
	} {
		g, _, _, _, _ := residual()
		c.edit(g)
		if _, err := g.Infer(float32s, c.in...); err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v: want %s", c.what, err, c.want)
		}
	}
	g, _, _, _, _ := residual()
	c := g.Constant("one", numbers(1, 2))
	g.Add(graph.GroupNorm{Groups: 1}, "norm", g.Nodes[0].Out[0], c, c)
	m, err := graph.ParseMode("bfloat16", "cpu:1.13")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Infer(m, image); err == nil || !strings.HasPrefix(err.Error(), "norm: group_norm of bfloat16 numbers") {
		t.Errorf("a norm that autocast refuses: error %v", err)
	}
}

// TestKept: packed weights are kept between runs and programs of the same constants,
// and forgotten on demand.
func TestKept(t *testing.T) {
	g, _, _, _, _ := residual()
	x := numbers(2, 1, 2, 4, 5)
	if g.Kept.Bytes() != 0 {
		t.Error("something is kept of nothing")
	}
	run(t, infer(t, g, float32s, x), &graph.Run{}, x)
	n := g.Kept.Bytes()
	run(t, infer(t, g, float32s, x), &graph.Run{}, x)
	if n == 0 || g.Kept.Bytes() != n {
		t.Errorf("%d bytes kept, then %d: want as many", n, g.Kept.Bytes())
	}
	m, err := graph.ParseMode("bfloat16", "cuda")
	if err != nil {
		t.Fatal(err)
	}
	run(t, infer(t, g, m, x), &graph.Run{}, x)
	if g.Kept.Bytes() <= n {
		t.Error("the weights of another mode are not kept")
	}
	if g.Kept.Forget(); g.Kept.Bytes() != 0 {
		t.Error("something is left")
	}
}
