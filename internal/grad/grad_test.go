package grad_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/grad"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// run evaluates the gradients of a graph's output by its inputs.
func run(t *testing.T, g *graph.Graph, m graph.Mode, in ...*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	return runBy(t, g, m, g.Outputs[0], g.Inputs, in)
}

// runBy evaluates the gradients of a value by others.
func runBy(t *testing.T, g *graph.Graph, m graph.Mode, of int, by []int, in []*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	var types []graph.Type
	for _, x := range in {
		types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	d, err := grad.Of(g, m, of, by, types...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Infer(m, types...)
	if err != nil {
		t.Fatal(err)
	}
	y, err := p.Run(new(graph.Run), in...)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

func mode(t *testing.T, precision string) graph.Mode {
	t.Helper()
	m, err := graph.ParseMode(precision, "")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A value that is read three times has the sum of what comes back; an input on no way to the
// output has zeros.
func TestSumsAndZeros(t *testing.T) {
	g := graph.New(nil)
	x, unused := g.Input("x"), g.Input("unused")
	y := g.Add(graph.Binary{Of: pointwise.Mul}, "y", x, x)
	g.Outputs = []int{g.Add(graph.Addition, "z", y, x)}
	got := run(t, g, graph.Mode{}, tensor.Of(fp16.Float64, []float64{3, -1}, 2),
		tensor.Of(fp16.Float64, []float64{1, 1, 1}, 3))
	if s := fmt.Sprint(got[1].Data, got[2].Data); s != "[7 -1] [0 0 0]" {
		t.Errorf("%s, want [7 -1] [0 0 0]", s)
	}
	_ = unused
}

// Every node without a rule is listed by one error, and only those between inputs and output.
func TestUnsupported(t *testing.T) {
	g := graph.New(nil)
	x := g.Input("x")
	one, err := graph.Bind("prod", nil)
	if err != nil {
		t.Fatal(err)
	}
	a := g.Add(one, "first", x)
	b := g.Add(graph.Einsum{Equation: "ii->i"}, "second", g.Add(graph.MatMul{}, "square", x, x))
	g.Add(one, "aside", x)
	g.Outputs = []int{g.Add(graph.Addition, "sum", a, b)}
	_, err = grad.Of(g, graph.Mode{}, g.Outputs[0], g.Inputs, graph.Type{Shape: []int{2, 2}, Format: fp16.Float64})
	var all grad.Unsupported
	if !errors.As(err, &all) || len(all) != 2 || !strings.HasPrefix(all[0], "first: prod: ") ||
		!strings.HasPrefix(all[1], "second: einsum: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v: want first and second in one line", err)
	}
	if _, err := grad.Of(g, graph.Mode{}, a, g.Inputs, graph.Type{Shape: []int{2, 2}, Format: fp16.Int64}); err == nil {
		t.Error("gradients by whole numbers")
	}
}

// Of numbers that are put to one place the last one stays, and has the gradient.
func TestLastOneStays(t *testing.T) {
	g := graph.New(nil)
	x, src := g.Input("x"), g.Input("source")
	index := g.Constant("index", tensor.Of(fp16.Int64, []float64{2, 0, 2}, 3))
	y := g.Add(graph.Scatter{}, "y", x, index, src)
	w := g.Constant("w", tensor.Of(fp16.Float64, []float64{10, 20, 30}, 3))
	g.Outputs = []int{g.Add(graph.Binary{Of: pointwise.Mul}, "wy", y, w)}
	got := run(t, g, graph.Mode{}, tensor.Of(fp16.Float64, []float64{1, 2, 3}, 3),
		tensor.Of(fp16.Float64, []float64{4, 5, 6}, 3))
	if s := fmt.Sprint(got[1].Data, got[2].Data); s != "[0 20 0] [0 10 30]" {
		t.Errorf("%s, want [0 20 0] [0 10 30]", s)
	}
}

// A gradient has the format of its value, whatever the operations between have. Of the eight operations
// on the way each errs by 2^-9 at most in bfloat16, of gradients up to 3: 0.05 in all.
func TestFormats(t *testing.T) {
	for _, precision := range []string{"float32", "tf32", "float16", "bfloat16"} {
		m := mode(t, precision)
		g := graph.New(new(graph.Kept))
		x := g.Input("x")
		w := g.Constant("w", tensor.FromFloat32([]float32{0.5, -2, 1.25, 3}, 2, 2))
		h := g.Add(graph.Linear{}, "h", x, w)
		e, _ := graph.Bind("exp", nil)
		g.Outputs = []int{
			g.Add(graph.Reduction{Of: "sum"}, "e", g.Add(graph.Act{Func: act.SiLU}, "silu", g.Add(e, "exp", h))),
		}
		got := run(t, g, m, tensor.FromFloat32([]float32{0.1, 0.2, 0.3, -0.4}, 2, 2))[1]
		if got.Format != fp16.Float32 {
			t.Errorf("%s: a gradient of %v numbers by float32 ones", precision, got.Format)
		}
		wide := run(t, g, graph.Mode{}, tensor.Of(fp16.Float64, []float64{0.1, 0.2, 0.3, -0.4}, 2, 2))[1]
		for i, v := range wide.Data {
			if d := got.Data[i] - v; d > 0.05 || d < -0.05 {
				t.Errorf("%s: element %d: %v, float64 %v", precision, i, got.Data[i], v)
			}
		}
	}
}

// TestConstantExponent: the gradient of a power whose exponent is a constant reads that less 1 as a number, and no node
// computes it.
func TestConstantExponent(t *testing.T) {
	x := tensor.Of(fp16.Float64, []float64{-3, -.5, 2}, 3)
	for _, n := range []float64{2, 3, -1} {
		g := graph.New(nil)
		of := g.Add(graph.Binary{Of: pointwise.Pow}, "y", g.Input("x"),
			g.Constant("n", tensor.Of(fp16.Float64, []float64{n}, 1)))
		g.Outputs = []int{of}
		d, err := grad.Of(g, mode(t, "float64"), of, g.Inputs, graph.Type{Shape: x.Shape, Format: x.Format})
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range d.Nodes {
			if node.Op.Name() == "sub" {
				t.Errorf("x^%v: a node %s", n, d.Name(&node))
			}
		}
		y := run(t, g, mode(t, "float64"), x)[1]
		for i, v := range x.Data {
			if want := n * math.Pow(v, n-1); math.Abs(y.Data[i]-want) > 1e-14*math.Abs(want) {
				t.Errorf("x^%v at %v: %v: want %v", n, v, y.Data[i], want)
			}
		}
	}
}
