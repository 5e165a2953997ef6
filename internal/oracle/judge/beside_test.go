package judge

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// TestBesideNearest: a chain of ten operations that stores seven of them, recorded. The nearest contract rounds a
// constant and a sum besides, which one of 779 elements shows.
func TestBesideNearest(t *testing.T) {
	f, err := safetensors.Open(filepath.Join("testdata", "chain_bfloat16.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	g := graph.New(nil)
	q := Question{Graph: g, Output: readTensor(t, f, "output")}
	var in []int
	for _, name := range []string{"x", "w", "b", "v"} {
		in = append(in, g.Input(name))
		q.Inputs = append(q.Inputs, readTensor(t, f, name))
	}
	scalar := func(of pointwise.Op, v float64) graph.Op { return graph.Binary{Of: of, Other: &v} }
	unary := func(name string, params map[string]float64) graph.Op {
		f, err := pointwise.Parse(name, params)
		if err != nil {
			t.Fatal(err)
		}
		return graph.Unary{Func: f}
	}
	y := g.Add(graph.Linear{}, "linear", in[:3]...)
	y = g.Add(graph.Unary{Func: clip(-1.5, 2)}, "clamp", y)
	y = g.Add(unary("leaky_relu", map[string]float64{"negative_slope": .01}), "leaky_relu", y)
	y = g.Add(graph.Binary{Of: pointwise.Mul}, "mul", y, in[3])
	y = g.Add(graph.Unary{Func: clip(-1.5, 2)}, "clamp_1", y)
	y = g.Add(scalar(pointwise.Add, 0.9471518906887058), "add", y)
	y = g.Add(graph.Softmax{Axis: -1}, "softmax", y)
	y = g.Add(scalar(pointwise.Div, 0.9980452928709937), "div", y)
	y = g.Add(unary("sigmoid", nil), "sigmoid", y)
	g.Outputs = []int{g.Add(scalar(pointwise.Mul, .5), "mul_1", y)}
	for _, wrong := range []bool{false, true} {
		if wrong {
			r := rand.New(rand.NewPCG(22, 19))
			q.Output = tensor.Of(fp16.BFloat16, append([]float64(nil), q.Output.Data...), q.Output.Shape...)
			for range 3 {
				q.Output.Data[r.IntN(len(q.Output.Data))] *= 1 + 0x1p-6
			}
		}
		a, err := Check(q)
		if err != nil || (a.Verdict == Pass) == wrong {
			t.Errorf("with a wrong element %v: %+v, %v", wrong, a, err)
		}
	}
}
