package plan_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

func random(r *rand.Rand, f fp16.Format, shape ...int) *tensor.Tensor {
	t := tensor.New(f, shape...)
	for i := range t.Data {
		t.Data[i] = f.Round(r.NormFloat64())
	}
	return t
}

// network is a graph of two inputs and three outputs: a residual block with a strided
// convolution, whose output, a sum of it and an input itself are wanted.
func network(r *rand.Rand) *graph.Graph {
	g := graph.New(new(graph.Kept))
	x, y := g.Input("x"), g.Input("y")
	constant := func(name string, shape ...int) int { return g.Constant(name, random(r, fp16.Float32, shape...)) }
	weighted := func(of, oc, ic, side, stride int) int {
		return g.Add(graph.Conv{Params: conv.Square(stride, side/2, conv.Zeros)}, "conv", of,
			constant("w", oc, ic, side, side), constant("b", oc))
	}
	a := weighted(x, 12, 3, 3, 1)
	n := g.Add(graph.InstanceNorm{Eps: 1e-5}, "norm", a, constant("w", 12), constant("b", 12))
	b := g.Add(graph.Act{Func: act.ReLU}, "relu", n)
	down := weighted(b, 8, 12, 3, 2)
	last := g.Add(graph.Act{Func: act.GELU}, "gelu", weighted(down, 8, 8, 3, 1))
	twice := g.Add(graph.Addition, "twice", last, last)
	sum := g.Add(graph.Addition, "sum", twice, y)
	g.Outputs = []int{sum, down, y}
	return g
}

// TestRun: a plan has the bits of Run, of every output, in every mode, again and again.
func TestRun(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	g := network(r)
	for _, m := range [][2]string{{"float32", ""}, {"tf32", ""}, {"float16", "cuda"}, {"bfloat16", "cpu"}} {
		mode, err := graph.ParseMode(m[0], m[1])
		if err != nil {
			t.Fatal(err)
		}
		types := []graph.Type{
			{Shape: []int{2, 3, 9, 12}, Format: fp16.Float32}, {Shape: []int{2, 8, 5, 6}, Format: fp16.Float32},
		}
		p, err := plan.New(g, mode, types...)
		if err != nil {
			t.Fatal(err)
		}
		program, err := g.Infer(mode, types...)
		if err != nil {
			t.Fatal(err)
		}
		var out []*tensor.Tensor
		for k := range g.Outputs {
			out = append(out, tensor.New(p.Type(k).Format, p.Type(k).Shape...))
		}
		for range 3 {
			in := []*tensor.Tensor{random(r, fp16.Float32, 2, 3, 9, 12), random(r, fp16.Float32, 2, 8, 5, 6)}
			want, err := program.Run(&graph.Run{}, in...)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Run(nil, noise.Time{}, out, in); err != nil {
				t.Fatal(err)
			}
			for k := range want {
				if !slices.Equal(out[k].Data, want[k].Data) {
					t.Errorf("%v: output %d differs", mode, k)
				}
			}
		}
		var kernels []string
		for _, n := range p.Nodes() {
			if n.Kernel == "definition" {
				kernels = append(kernels, n.Name+" "+n.Op)
			}
		}
		t.Log(mode, kernels)
	}
}

// TestConvolutions: convolutions of any stride, groups, window, padding and size have the
// bits of Run, and those that the kernels can run are run by them.
func TestConvolutions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	kernels := map[string]int{}
	for trial := range 150 {
		g := graph.New(new(graph.Kept))
		side := []int{1, 3, 3, 5, 7, 2}[trial%6]
		op := graph.Conv{Params: conv.Square(1+r.IntN(4), side/2, conv.Padding(r.IntN(4))), Groups: 1}
		op.Same = trial%7 == 6
		ic, oc := 1+r.IntN(20), 1+r.IntN(20)
		if trial%3 == 0 {
			op.Groups = 2 + r.IntN(2)
			each := []int{8, 16, 3, 1}[r.IntN(4)]
			ic, oc = op.Groups*each, op.Groups*each
		}
		if op.Same {
			op.Params = conv.Square(1, 0, op.Padding)
		}
		h, w := side+1+r.IntN(12), side+1+r.IntN(20)
		x := g.Input("x")
		in := []int{x, g.Constant("w", random(r, fp16.Float32, oc, ic/op.Groups, side, side))}
		if r.IntN(2) == 0 {
			in = append(in, g.Constant("b", random(r, fp16.Float32, oc)))
		}
		before := g.Add(graph.Act{Func: act.SiLU}, "before", x)
		in[0] = before
		y := g.Add(op, "conv", in...)
		z := g.Add(graph.Act{Func: act.ReLU}, "after", y)
		g.Outputs = []int{z, y}
		m := [][2]string{
			{"float32", ""}, {"tf32", ""}, {"float16", "cuda"}, {"bfloat16", "cpu"}, {"float16", "cuda:1.13"},
		}[trial%5]
		mode, err := graph.ParseMode(m[0], m[1])
		if err != nil {
			t.Fatal(err)
		}
		of := graph.Type{Shape: []int{1 + r.IntN(2), ic, h, w}, Format: fp16.Float32}
		p, err := plan.New(g, mode, of)
		if err != nil {
			t.Fatal(err)
		}
		program, err := g.Infer(mode, of)
		if err != nil {
			t.Fatal(err)
		}
		out := []*tensor.Tensor{
			tensor.New(p.Type(0).Format, p.Type(0).Shape...), tensor.New(p.Type(1).Format, p.Type(1).Shape...),
		}
		for range 2 {
			image := random(r, fp16.Float32, of.Shape...)
			want, err := program.Run(&graph.Run{}, image)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Run(nil, noise.Time{}, out, []*tensor.Tensor{image}); err != nil {
				t.Fatal(err)
			}
			for k := range want {
				if !slices.Equal(out[k].Data, want[k].Data) {
					t.Errorf("trial %d: %+v of %v by %v, %v: output %d differs",
						trial, op, of.Shape, g.Values[in[1]].Const.Shape, mode, k)
				}
			}
		}
		for _, n := range p.Nodes() {
			if n.Name == "conv" {
				kernels[n.Kernel]++
			}
		}
	}
	t.Log(kernels)
	if asm.RowKernels() != nil && kernels["definition"] > 75 {
		t.Errorf("%d of 150 convolutions have no kernel", kernels["definition"])
	}
}

// TestNew: what cannot be compiled is said.
func TestNew(t *testing.T) {
	g := network(rand.New(rand.NewPCG(1, 2)))
	image := graph.Type{Shape: []int{1, 3, 8, 8}, Format: fp16.Float32}
	for _, k := range []struct {
		mode graph.Mode
		in   []graph.Type
		says string
	}{
		{graph.Mode{Precision: fp16.Float64}, []graph.Type{image, image}, "float64 mode"},
		{graph.Mode{Precision: fp16.Float32}, []graph.Type{image, image}, "sum: shapes"},
		{graph.Mode{Precision: fp16.Float16}, []graph.Type{image, image}, "want an autocast"},
		{graph.Mode{Precision: fp16.Float32}, []graph.Type{image}, "input"},
	} {
		if _, err := plan.New(g, k.mode, k.in...); err == nil || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%v, want %q", err, k.says)
		}
	}
}

func TestMisuse(t *testing.T) {
	g := network(rand.New(rand.NewPCG(1, 2)))
	types := []graph.Type{
		{Shape: []int{1, 3, 8, 8}, Format: fp16.Float32}, {Shape: []int{1, 8, 4, 4}, Format: fp16.Float32},
	}
	p, err := plan.New(g, graph.Mode{Precision: fp16.Float32}, types...)
	if err != nil {
		t.Fatal(err)
	}
	x, y := tensor.New(fp16.Float32, 1, 3, 8, 8), tensor.New(fp16.Float32, 1, 8, 4, 4)
	for name, run := range map[string]func(){
		"another number of tensors": func() { p.Run(nil, noise.Time{}, []*tensor.Tensor{y, y, y}, []*tensor.Tensor{x}) },
		"another shape":             func() { p.Run(nil, noise.Time{}, []*tensor.Tensor{y, y, y}, []*tensor.Tensor{x, x}) },
		"nil":                       func() { p.Run(nil, noise.Time{}, []*tensor.Tensor{y, y, nil}, []*tensor.Tensor{x, y}) },
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(r.(string), "plan: ") {
					t.Errorf("%s: %v", name, r)
				}
			}()
			run()
		}()
	}
	if err := p.Run(nil, noise.Time{}, []*tensor.Tensor{y, y.Clone(), y.Clone()},
		[]*tensor.Tensor{x, tensor.Like(y)}); err != nil {
		t.Errorf("after misuse: %v", err)
	}
}

// TestWiderThanInput: an input that is rounded where it is read keeps to its rows, also
// where other images of the plan are wider. (Rows were rounded in pieces as long as the
// widest, so that those of other workers were overwritten.)
func TestWiderThanInput(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	g := graph.New(new(graph.Kept))
	x := g.Input("x")
	c := g.Add(graph.Conv{Params: conv.Square(1, 1, conv.Zeros)}, "conv", x,
		g.Constant("w", random(r, fp16.Float32, 8, 3, 3, 3)))
	up := g.Add(graph.Interpolate{Scale: graph.Floats{8}, Mode: "nearest"}, "up", c)
	g.Outputs = []int{g.Add(graph.Act{Func: act.ReLU}, "relu", up)}
	mode := graph.Mode{Precision: fp16.TF32}
	in := random(r, fp16.Float32, 4, 3, 6, 5)
	types := graph.Type{Shape: in.Shape, Format: fp16.Float32}
	program, err := g.Infer(mode, types)
	if err != nil {
		t.Fatal(err)
	}
	want, err := program.Run(new(graph.Run), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 2, 4} {
		p, err := plan.NewFor(workers, g, mode, types)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			got := tensor.New(fp16.Float32, want[0].Shape...)
			if err := p.Run(nil, noise.Time{}, []*tensor.Tensor{got}, []*tensor.Tensor{in}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Data, want[0].Data) {
				t.Fatalf("%d workers: other bits than Run", workers)
			}
		}
	}
}
