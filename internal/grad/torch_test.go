package grad_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/grad"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// recorded is a tensor of testdata/gradients.json.
type recorded struct {
	Shape []int `json:"shape"`
	Data  []any `json:"data"` // numbers, or NaN
	Whole bool  `json:"whole"`
}

func (r *recorded) tensor() *tensor.Tensor {
	f := fp16.Float64
	if r.Whole {
		f = fp16.Int64
	}
	t := tensor.New(f, r.Shape...)
	for i, v := range r.Data {
		t.Data[i] = math.NaN()
		if x, ok := v.(float64); ok {
			t.Data[i] = x
		}
	}
	return t
}

type gradientCase struct {
	Op         string          `json:"op"`
	Attributes json.RawMessage `json:"attributes"`
	Inputs     []*recorded     `json:"inputs"`
	By         []int           `json:"by"`
	Outputs    []*recorded     `json:"outputs"` // what they are multiplied with, nil for places
	Gradients  []*recorded     `json:"gradients"`
}

func readCases(t *testing.T) []gradientCase {
	t.Helper()
	b, err := os.ReadFile("testdata/gradients.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []gradientCase
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// graph is the sum of the outputs times given numbers.
func (c *gradientCase) graph(t *testing.T) (g *graph.Graph, total int, in []*tensor.Tensor, types []graph.Type) {
	t.Helper()
	op, err := graph.Bind(c.Op, c.Attributes)
	if err != nil {
		t.Fatal(err)
	}
	g = graph.New(new(graph.Kept))
	var values []int
	for k, x := range c.Inputs {
		values = append(values, g.Input(fmt.Sprint("x", k)))
		in = append(in, x.tensor())
		types = append(types, graph.Type{Shape: x.Shape, Format: in[k].Format})
	}
	total = -1
	for k, y := range g.AddNode(op, "y", len(c.Outputs), values...) {
		if c.Outputs[k] == nil {
			continue
		}
		w := g.Constant(fmt.Sprint("w", k), c.Outputs[k].tensor())
		sum := g.Add(graph.Reduction{Of: "sum"}, fmt.Sprint("sum", k),
			g.Add(graph.Binary{Of: pointwise.Mul}, fmt.Sprint("wy", k), y, w))
		if total >= 0 {
			sum = g.Add(graph.Addition, fmt.Sprint("total", k), total, sum)
		}
		total = sum
	}
	return g, total, in, types
}

// gradients evaluates them.
func (c *gradientCase) gradients(t *testing.T, m graph.Mode) []*tensor.Tensor {
	t.Helper()
	g, total, in, _ := c.graph(t)
	var by []int
	for _, k := range c.By {
		by = append(by, g.Inputs[k])
	}
	return runBy(t, g, m, total, by, in)
}

// TestGradients compares every rule with PyTorch's gradients in float64. Both are a few operations
// with errors of some 2^-53 each of what they add: 1e-13 of the greatest gradient is 900 of them.
func TestGradients(t *testing.T) {
	covered := map[string]bool{}
	for i, c := range readCases(t) {
		t.Run(fmt.Sprintf("%s %d", c.Op, i), func(t *testing.T) {
			covered[c.Op] = true
			for k, got := range c.gradients(t, graph.Mode{}) {
				want := c.Gradients[k].tensor()
				if got.Dims() != want.Dims() {
					t.Fatalf("input %d: gradient of shape %s, want %s", c.By[k], got.Dims(), want.Dims())
				}
				scale := 0.0
				for _, v := range want.Data {
					if !math.IsInf(v, 0) {
						scale = max(scale, math.Abs(v))
					}
				}
				for j, w := range want.Data {
					if g := got.Data[j]; g != w && !(math.IsNaN(g) && math.IsNaN(w)) && !(math.Abs(g-w) <= 1e-13*scale) {
						t.Errorf("input %d: element %d: %v, want %v", c.By[k], j, g, w)
					}
				}
			}
		})
	}
	for _, name := range grad.Operations() {
		if !covered[name] {
			t.Errorf("%s: has a rule and no case", name)
		}
	}
}
