package grad_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/grad"
	"github.com/refrun/refrun/tensor"
)

// backward evaluates the gradients of a recorded case, of the gradients by outputs that are its factors.
func (c *gradientCase) backward(t *testing.T, form grad.Form, kept ...*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	op, err := graph.Bind(c.Op, c.Attributes)
	if err != nil {
		t.Fatal(err)
	}
	g := graph.New(nil)
	var values []int
	var in []*tensor.Tensor
	var types []graph.Type
	for k, x := range c.Inputs {
		values = append(values, g.Input(fmt.Sprint("x", k)))
		in = append(in, x.tensor())
		types = append(types, graph.Type{Shape: x.Shape, Format: in[k].Format})
	}
	a := grad.Ask{Form: form}
	for _, k := range c.By {
		a.By = append(a.By, values[k])
	}
	for k, y := range g.AddNode(op, "output", len(c.Outputs), values...) {
		if c.Outputs[k] != nil {
			a.Of = append(a.Of, y)
			in = append(in, c.Outputs[k].tensor())
		}
	}
	for k, x := range kept {
		a.Saved = append(a.Saved, grad.Saved{Name: savedNames[c.Op][k], Shape: x.Shape})
		in = append(in, x)
	}
	d, err := grad.Backward(g, graph.Mode{Precision: fp16.Float64}, a, types...)
	if err != nil {
		t.Fatalf("%v: %v", form, err)
	}
	types = nil
	for _, x := range in {
		types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	p, err := d.Infer(graph.Mode{Precision: fp16.Float64}, types...)
	if err != nil {
		t.Fatal(err)
	}
	y, err := p.Run(new(graph.Run), in...)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// savedNames are what rules read that a forward pass has saved.
var savedNames = map[string][]string{"layer_norm": {"mean", "rstd"}, "scaled_dot_product_attention": {"lse"}}

// near compares gradients with PyTorch's.
func (c *gradientCase) near(t *testing.T, what string, got []*tensor.Tensor) {
	t.Helper()
	for k, y := range got {
		want, scale := c.Gradients[k].tensor(), 0.0
		for _, v := range want.Data {
			if !math.IsInf(v, 0) {
				scale = max(scale, math.Abs(v))
			}
		}
		if y.Dims() != want.Dims() {
			t.Fatalf("%s: input %d: gradient of shape %s, want %s", what, c.By[k], y.Dims(), want.Dims())
		}
		for j, w := range want.Data {
			if g := y.Data[j]; g != w && !(math.IsNaN(g) && math.IsNaN(w)) && !(math.Abs(g-w) <= 1e-13*scale) {
				t.Errorf("%s: input %d: element %d: %v, want %v", what, c.By[k], j, g, w)
			}
		}
	}
}

// TestForms: all rules of an operation are the same functions as PyTorch's.
func TestForms(t *testing.T) {
	others := map[string]bool{}
	for i, c := range readCases(t) {
		op, err := graph.Bind(c.Op, c.Attributes)
		if err != nil {
			t.Fatal(err)
		}
		g := graph.New(nil)
		g.Add(op, "output")
		forms := grad.Forms(g)
		for _, form := range forms {
			c.near(t, fmt.Sprint(c.Op, " ", i, " ", form), c.backward(t, form))
		}
		others[c.Op] = len(forms) > 1
	}
	for _, op := range []string{"softmax", "log_softmax", "layer_norm", "group_norm", "instance_norm", "batch_norm",
		"rms_norm", "silu", "tanh", "scaled_dot_product_attention"} {
		if !others[op] {
			t.Errorf("%s: one form", op)
		}
	}
}

// TestSaved: a gradient reads what is saved, and nothing else in its place: with a mean of 0 and rstd of 1, a layer
// norm's by the bias is that of the case, and its input's another one.
func TestSaved(t *testing.T) {
	for _, c := range readCases(t) {
		if c.Op != "layer_norm" || len(c.Inputs) != 3 {
			continue
		}
		rows := append(append([]int(nil), c.Inputs[0].Shape[:len(c.Inputs[0].Shape)-len(c.Inputs[1].Shape)]...), 1)
		zero, one := tensor.New(fp16.Float64, rows...), tensor.New(fp16.Float64, rows...)
		for i := range one.Data {
			one.Data[i] = 1
		}
		got, want := c.backward(t, nil, zero, one), c.backward(t, nil)
		if got[0].Data[0] == want[0].Data[0] || got[2].Data[0] != want[2].Data[0] {
			t.Errorf("%v and %v of what is saved, %v and %v", got[0].Data[0], got[2].Data[0], want[0].Data[0], want[2].Data[0])
		}
		return
	}
	t.Fatal("no case")
}

// TestBackwardRefused: what nothing reads, and shapes that do not fit.
func TestBackwardRefused(t *testing.T) {
	for _, c := range []struct {
		saved grad.Saved
		want  string
	}{
		{grad.Saved{Name: "lse", Shape: []int{2}}, "saved lse: no gradient here reads it"},
		{grad.Saved{Name: "output", Shape: []int{2}}, "saved output of shape [2]: want [2 3]"},
		{grad.Saved{Name: "rstd", Shape: []int{3}}, "saved rstd of shape [3]: want [2 1]"},
	} {
		g := graph.New(nil)
		op, err := graph.Bind("layer_norm", []byte(`{"normalized_shape": [3]}`))
		if err != nil {
			t.Fatal(err)
		}
		y := g.Add(op, "output", g.Input("input"))
		a := grad.Ask{Of: []int{y}, By: g.Inputs, Saved: []grad.Saved{c.saved}}
		_, err = grad.Backward(g, graph.Mode{Precision: fp16.Float64}, a,
			graph.Type{Shape: []int{2, 3}, Format: fp16.Float64})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.saved, err, c.want)
		}
	}
}
