package plan_test

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/randgraph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// transformer is the first layer of a vision transformer: patches, a norm, attention of heads
// that lie in one product, and a residual one.
func transformer(t *testing.T) (*graph.Graph, graph.Type) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	g := graph.New(new(graph.Kept))
	constant := func(shape ...int) int {
		c := tensor.New(fp16.Float32, shape...)
		for i := range c.Data {
			c.Data[i] = fp16.Float32.Round(r.NormFloat64() / 4)
		}
		return g.Constant("c", c)
	}
	whole := func(v float64) int { return g.Constant("c", tensor.Of(fp16.Int64, []float64{v})) }
	add := func(op graph.Op, in ...int) int { return g.Add(op, op.Name(), in...) }
	const heads, width, places = 3, 8, 12 // 24 channels, 3x4 windows
	x := g.Input("x")
	v := add(graph.Conv{Params: conv.Params{Stride: [2]int{4, 2}}}, x, constant(24, 3, 4, 2), constant(24))
	v = add(graph.Reshape{Shape: graph.Ints{2, 24, places}}, v)
	v = add(graph.Permute{Axes: graph.Ints{0, 2, 1}}, v)
	v = add(graph.Addition, v, constant(1, places, 24))
	first := v
	v = add(graph.LayerNorm{Eps: 1e-6}, v, constant(24), constant(24))
	v = add(graph.MatMul{}, v, constant(24, 72))
	v = add(graph.Addition, constant(72), v)
	v = add(graph.Reshape{Shape: graph.Ints{2, places, 3, heads, width}}, v)
	v = add(graph.Permute{Axes: graph.Ints{2, 0, 3, 1, 4}}, v)
	q, k, w := add(graph.IndexSelect{}, v, whole(0)), add(graph.IndexSelect{}, v, whole(1)),
		add(graph.IndexSelect{FromEnd: true}, v, whole(-1))
	s := add(graph.MatMul{}, q, add(graph.Transpose{A: -2, B: -1}, k))
	s = add(graph.Binary{Of: pointwise.Mul}, s, g.Constant("c", tensor.Of(fp16.Float32, []float64{0.375})))
	s = add(graph.Softmax{Axis: -1}, s)
	v = add(graph.MatMul{}, s, w)
	v = add(graph.Permute{Axes: graph.Ints{0, 2, 1, 3}}, v)
	v = add(graph.Reshape{Shape: graph.Ints{2, places, 24}}, v)
	v = add(graph.Linear{}, v, constant(24, 24), constant(24))
	v = add(graph.Addition, first, v)
	second := v
	v = add(graph.MatMul{}, v, constant(24, 50))
	v = add(graph.Act{Func: act.GELU}, v)
	v = add(graph.MatMul{}, v, constant(50, 24))
	v = add(graph.Addition, v, second)
	g.Outputs = []int{v, s, add(graph.IndexSelect{Axis: 1}, v, whole(0))}
	return g, graph.Type{Shape: []int{2, 3, 13, 9}, Format: fp16.Float32}
}

// everywhere holds a plan of the transformer to the bits of Run, on all instruction sets and with some
// numbers of goroutines, and calls see with each.
func everywhere(t *testing.T, mode graph.Mode, see func(isa string, p *plan.Plan, run func())) {
	t.Helper()
	defer asm.Use(asm.ISA())
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	g, of := transformer(t)
	program, err := g.Infer(mode, of)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	x := tensor.New(of.Format, of.Shape...)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(r.NormFloat64())
	}
	var first []byte
	for _, isa := range asm.ISAs() {
		for _, procs := range []int{1, 2, 5} {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			runtime.GOMAXPROCS(procs)
			want, err := program.Run(&graph.Run{}, x)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = randgraph.Digest(want, nil)
			}
			p, err := plan.New(g, mode, of)
			if err != nil {
				t.Fatal(err)
			}
			var out []*tensor.Tensor
			for i := range g.Outputs {
				out = append(out, tensor.New(p.Type(i).Format, p.Type(i).Shape...))
			}
			run := func() {
				if err := p.Run(nil, noise.Time{}, out, []*tensor.Tensor{x}); err != nil {
					t.Fatal(err)
				}
			}
			run()
			for i := range out {
				for k, v := range out[i].Data {
					if v != want[i].Data[k] {
						t.Fatalf("%s, %d goroutines: output %d, number %d is %v, want %v", isa, procs, i, k, v, want[i].Data[k])
					}
				}
			}
			if got := randgraph.Digest(out, nil); string(got) != string(first) {
				t.Errorf("%s, %d goroutines: other bits", isa, procs)
			}
			see(isa, p, run)
		}
	}
}

// TestFlat: a transformer in fast arithmetic, whose numbers stay float32 numbers from the first
// node to the last, has the bits of Run, whatever runs it, and takes no memory.
func TestFlat(t *testing.T) {
	everywhere(t, graph.Mode{Precision: fp16.Float32, Fast: true}, func(isa string, p *plan.Plan, run func()) {
		for _, n := range p.Nodes() {
			if n.Kernel == "definition" {
				t.Errorf("%s: %s is evaluated by its definition", n.Name, n.Op)
			}
		}
		if n := testing.AllocsPerRun(10, run); n > 0 && isa != "purego" {
			t.Errorf("%s: %v allocations", isa, n)
		}
	})
}

// TestTransformer: in exact arithmetic a transformer has the bits of Run, whatever runs it, and none of
// what attention only sees in another order is moved.
func TestTransformer(t *testing.T) {
	everywhere(t, graph.Mode{Precision: fp16.Float32}, func(isa string, p *plan.Plan, _ func()) {
		moved := 0
		for _, n := range p.Nodes() {
			if (n.Op == "permute" || n.Op == "index_select" || n.Op == "transpose") && n.Kernel == "definition" {
				moved++
			}
		}
		if moved != 3 { // patches to places, heads to places, and the first place
			t.Errorf("%s: %d nodes move numbers", isa, moved)
		}
	})
}

// TestFlatAndImages: pixels that go through a linear layer and come back to images have the bits of
// Run, whichever comes first.
func TestFlatAndImages(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	g := graph.New(new(graph.Kept))
	constant := func(shape ...int) int {
		c := tensor.New(fp16.Float32, shape...)
		for i := range c.Data {
			c.Data[i] = fp16.Float32.Round(r.NormFloat64() / 4)
		}
		return g.Constant("c", c)
	}
	add := func(op graph.Op, in ...int) int { return g.Add(op, op.Name(), in...) }
	same := graph.Conv{Params: conv.Square(1, 1, conv.Zeros)}
	x := g.Input("x")
	image := add(same, x, constant(5, 3, 3, 3))
	v := add(graph.Permute{Axes: graph.Ints{0, 2, 3, 1}}, image)
	v = add(graph.Linear{}, v, constant(5, 5), constant(5))
	v = add(graph.Act{Func: act.SiLU}, v)
	v = add(graph.Permute{Axes: graph.Ints{0, 3, 1, 2}}, v)
	sum := add(graph.Addition, image, v)
	other := add(graph.Addition, v, add(same, x, constant(5, 3, 3, 3)))
	g.Outputs = []int{add(same, sum, constant(2, 5, 3, 3)), add(graph.Softmax{Axis: -1}, other), v}
	of, mode := graph.Type{Shape: []int{2, 3, 6, 7}, Format: fp16.Float32}, graph.Mode{Precision: fp16.Float32, Fast: true}
	in := tensor.New(of.Format, of.Shape...)
	for i := range in.Data {
		in.Data[i] = fp16.Float32.Round(r.NormFloat64())
	}
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
	var out []*tensor.Tensor
	for i := range g.Outputs {
		out = append(out, tensor.New(p.Type(i).Format, p.Type(i).Shape...))
	}
	for range 2 {
		if err := p.Run(nil, noise.Time{}, out, []*tensor.Tensor{in}); err != nil {
			t.Fatal(err)
		}
		if got := randgraph.Digest(out, nil); string(got) != string(randgraph.Digest(want, nil)) {
			t.Errorf("other bits than Run's")
		}
	}
}
