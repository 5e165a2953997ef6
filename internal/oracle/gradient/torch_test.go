package gradient_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/oracle/gradient"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// recorded is what PyTorch returned of some operations.
type recorded struct {
	File, Device, Precision, What string
	Nodes                         []struct {
		Op, Name   string
		In         []string
		Attributes json.RawMessage
	}
}

// question is that about it.
func (r *recorded) question(t *testing.T) gradient.Question {
	t.Helper()
	f, err := safetensors.Open(filepath.Join("testdata", "torch", r.File))
	if err != nil {
		t.Fatal(err)
	}
	q := gradient.Question{Graph: graph.New(nil), Grads: map[string]*tensor.Tensor{}}
	values := map[string]int{}
	for _, name := range slices.Sorted(slices.Values(f.Names())) {
		switch of, is := strings.CutPrefix(name, "grad."); {
		case is:
			q.Grads[of] = read(t, f, name)
		case name == "grad_output":
			q.GradOutputs = append(q.GradOutputs, read(t, f, name))
		default:
			values[name] = q.Graph.Input(name)
			q.Inputs = append(q.Inputs, read(t, f, name))
		}
	}
	for _, n := range r.Nodes {
		op, err := graph.Bind(n.Op, n.Attributes)
		if err != nil {
			t.Fatal(err)
		}
		var in []int
		for _, name := range n.In {
			in = append(in, values[name])
		}
		values[n.Name] = q.Graph.Add(op, n.Name, in...)
		q.Graph.Outputs = []int{values[n.Name]}
	}
	if r.Precision == "tf32" {
		q.Claimed = &judge.Contract{Form: judge.Form{Operands: "tf32"}}
	}
	return q
}

func read(t *testing.T, f *safetensors.File, name string) *tensor.Tensor {
	t.Helper()
	x, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	if x.DType == "I64" {
		whole, err := x.Int64s()
		if err != nil {
			t.Fatal(err)
		}
		y := tensor.New(fp16.Int64, x.Shape...)
		for i, v := range whole {
			y.Data[i] = float64(v)
		}
		return y
	}
	v, err := x.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	format := map[safetensors.DType]fp16.Format{"F32": fp16.Float32, "F16": fp16.Float16, "BF16": fp16.BFloat16}[x.DType]
	return tensor.Of(format, v, x.Shape...)
}

// TestTorch: gradients that PyTorch computes by several operations, each of which stores its result, or in an order
// of its own, are right, and one of them times 1.02 is not. Wrong ones of convolutions and of norms of images, in which
// the most ways are looked for, are TestWrongGradients'.
func TestTorch(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "torch", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for i, r := range all {
		q := r.question(t)
		got, err := gradient.Check(q)
		if err != nil || got.Verdict != judge.Pass {
			t.Errorf("%s, %s: %v, %v", r.File, r.What, err, got)
			continue
		}
		if strings.HasPrefix(r.File, "conv2d") || strings.HasPrefix(r.File, "instance_norm") ||
			!share.All() && i%3 != 0 {
			continue
		}
		name := got.Outputs[0].Name
		wrong := *q.Grads[name]
		wrong.Data = slices.Clone(wrong.Data)
		for i, v := range wrong.Data {
			wrong.Data[i] = wrong.Format.Round(v * 1.02)
		}
		q.Grads = map[string]*tensor.Tensor{name: &wrong}
		if got, err := gradient.Check(q); err != nil || got.Verdict != judge.Fail {
			t.Errorf("%s, times 1.02: %v, %v", r.File, err, got.Verdict)
		}
	}
}
