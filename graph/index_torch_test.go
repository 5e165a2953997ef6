package graph_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// stored is a tensor of testdata/index.
type stored struct {
	Shape []int
	Count bool
	Int   bool
	Data  []*float64
}

func (s stored) tensor() *tensor.Tensor {
	t := tensor.New(fp16.Float64, s.Shape...)
	if s.Int {
		t.Format = fp16.Int64
	}
	for i := range t.Data {
		switch {
		case s.Count:
			t.Data[i] = float64(i + 1)
		case s.Data[i] == nil:
			t.Data[i] = fp16.NaN
		default:
			t.Data[i] = *s.Data[i]
		}
	}
	return t
}

// TestIndexAgainstPyTorch: shapes, numbers and errors of operations that move numbers are
// those of PyTorch, through files' attributes, inference and evaluation.
func TestIndexAgainstPyTorch(t *testing.T) {
	data, err := os.ReadFile("../testdata/index/pytorch.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Calls []struct {
			Op         string
			Attributes json.RawMessage
			In, Out    []stored
			Error      string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	m := graph.Mode{Precision: fp16.Float64}
	refused := 0
	for k, call := range file.Calls {
		op, err := graph.Bind(call.Op, call.Attributes)
		if err != nil {
			t.Errorf("call %d: %v", k, err)
			continue
		}
		g := graph.New(new(graph.Kept))
		var in []*tensor.Tensor
		var values []int
		for _, s := range call.In {
			in, values = append(in, s.tensor()), append(values, g.Input("x"))
		}
		g.Outputs = g.AddNode(op, "y", max(len(call.Out), 1), values...)
		var types []graph.Type
		for _, x := range in {
			types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
		}
		if call.Error != "" {
			refused++
			p, err := g.Infer(m, types...)
			if err == nil {
				_, err = p.Run(&graph.Run{}, in...)
			}
			if err == nil {
				t.Errorf("call %d: %s %s of %v: no error, PyTorch has %q", k, call.Op, call.Attributes, types, call.Error)
			}
			continue
		}
		p, err := g.Infer(m, types...)
		if err != nil {
			t.Errorf("call %d: %s %s of %v: %v", k, call.Op, call.Attributes, types, err)
			continue
		}
		out, err := p.Run(&graph.Run{}, in...)
		if err != nil {
			t.Errorf("call %d: %s %s of %v: %v", k, call.Op, call.Attributes, types, err)
			continue
		}
		for i, s := range call.Out {
			want := s.tensor()
			same := slices.EqualFunc(out[i].Data, want.Data,
				func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
			if !same || !slices.Equal(out[i].Shape, want.Shape) || out[i].Format != want.Format {
				t.Errorf("call %d: %s %s of %v: output %d is %v %v %v, PyTorch has %v %v %v", k, call.Op, call.Attributes, types, i,
					out[i].Format, out[i].Shape, out[i].Data, want.Format, want.Shape, want.Data)
			}
		}
	}
	if len(file.Calls) < 400 || refused < 40 {
		t.Errorf("%d calls, %d of them refused: want more", len(file.Calls), refused)
	}
}
