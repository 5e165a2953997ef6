package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// returned are outputs of an operation as a float32 kernel has them, each step rounded, and all of them stored in a
// format.
func returned(
	t *testing.T, op, attributes string, in map[string]*tensor.Tensor, names []string, f fp16.Format,
) Several {
	t.Helper()
	var given []string
	for name := range in {
		given = append(given, name)
	}
	g, order, err := KernelOutputs(op, []byte(attributes), given, in, names)
	if err != nil {
		t.Fatal(err)
	}
	s := Several{Graphs: []*graph.Graph{g}, Names: names}
	var types []graph.Type
	var wide []*tensor.Tensor
	for _, name := range order {
		s.Inputs = append(s.Inputs, in[name])
		wide = append(wide, tensor.Of(fp16.Float32, in[name].Data, in[name].Shape...))
		types = append(types, graph.Type{Shape: in[name].Shape, Format: fp16.Float32})
	}
	p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, types...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(new(graph.Run), wide...)
	if err != nil {
		t.Fatal(err)
	}
	for _, y := range out {
		s.Outputs = append(s.Outputs, tensor.Of(f, slices.Clone(y.Data), y.Shape...))
		f.RoundSlice(s.Outputs[len(s.Outputs)-1].Data, y.Data)
	}
	return s
}

func gaussian(r *rand.Rand, f fp16.Format, shape ...int) *tensor.Tensor {
	x := tensor.New(f, shape...)
	for i := range x.Data {
		x.Data[i] = f.Round(r.NormFloat64() + 0.5)
	}
	return x
}

// TestSeveralOutputs: each output of a kernel is judged in its row, and one contract is that of all.
func TestSeveralOutputs(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
		q, x := gaussian(r, f, 2, 10, 8), gaussian(r, f, 9, 30)
		weights := map[string]*tensor.Tensor{"input": x, "weight": gaussian(r, f, 30), "bias": gaussian(r, f, 30)}
		image := map[string]*tensor.Tensor{"input": gaussian(r, f, 3, 4, 5)}
		for _, c := range []struct {
			op, attributes string
			in             map[string]*tensor.Tensor
			names          []string
		}{
			{"layer_norm", `{"normalized_shape": [30]}`, weights, []string{"output", "mean", "rstd"}},
			{"rms_norm", `{"normalized_shape": [30]}`, map[string]*tensor.Tensor{"input": x}, []string{"output", "rstd"}},
			{"group_norm", `{"num_groups": 2}`, image, []string{"output", "mean", "rstd"}},
			{"instance_norm", ``, image, []string{"mean", "rstd"}},
			{"batch_norm", `{"training": true}`, image, []string{"output", "mean", "rstd"}},
			{"scaled_dot_product_attention", `{"is_causal": true}`, map[string]*tensor.Tensor{
				"query": q, "key": gaussian(r, f, 2, 10, 8), "value": gaussian(r, f, 2, 10, 8),
			}, []string{"lse", "output"}},
		} {
			s := returned(t, c.op, c.attributes, c.in, c.names, f)
			got, err := CheckSeveral(s)
			if err != nil || got.Verdict != Pass || got.Contract == nil || len(got.Outputs) != len(c.names) {
				t.Errorf("%s in %v: %+v, %v: want PASS with one contract", c.op, f, got, err)
				continue
			}
			last := s.Outputs[len(s.Outputs)-1].Data
			for i := range last {
				last[i] = f.Round(last[i] * 1.05)
			}
			got, err = CheckSeveral(s)
			if err != nil || got.Verdict != Fail || !strings.HasPrefix(got.Reason, c.names[len(c.names)-1]+": ") ||
				got.Outputs[0].Verdict != Pass {
				t.Errorf("%s in %v: %+v, %v: want FAIL of the last output alone", c.op, f, got, err)
			}
		}
	}
}

// TestLooseShapes: the statistics of rows may lack the axes of size 1.
func TestLooseShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	s := returned(t, "layer_norm", `{"normalized_shape": [30]}`,
		map[string]*tensor.Tensor{"input": gaussian(r, fp16.Float32, 9, 30)}, []string{"output", "mean"}, fp16.Float32)
	s.Outputs[1] = tensor.Of(fp16.Float32, s.Outputs[1].Data, 9)
	if _, err := CheckSeveral(s); err == nil || !strings.Contains(err.Error(), "mean: output of shape [9]: want [9 1]") {
		t.Error(err)
	}
	s.Loose = []string{"mean"}
	if got, err := CheckSeveral(s); err != nil || got.Verdict != Pass {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestNoOutput: an output that an operation does not have is an error, and NaN no pass.
func TestNoOutput(t *testing.T) {
	in := map[string]*tensor.Tensor{"input": gaussian(rand.New(rand.NewPCG(25, 26)), fp16.Float32, 3, 4)}
	if _, _, err := KernelOutputs("softmax", []byte(`{"dim": -1}`), []string{"input"}, in, []string{"mean"}); err ==
		nil || err.Error() != `softmax: output "mean": want [output]` {
		t.Error(err)
	}
	s := returned(t, "rms_norm", `{"normalized_shape": [4]}`, in, []string{"output", "rstd"}, fp16.Float32)
	for i := range s.Outputs[1].Data {
		s.Outputs[1].Data[i] = math.NaN()
	}
	if got, err := CheckSeveral(s); err != nil || got.Verdict != Fail || got.Outputs[1].Verdict != Fail {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPartsOfOne: the parts in which the terms of one product are added up say nothing of another output's product,
// which has too few terms for so many.
func TestPartsOfOne(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	d, x, w := gaussian(r, fp16.BFloat16, 11, 34), gaussian(r, fp16.BFloat16, 11, 107), gaussian(r, fp16.BFloat16, 107, 34)
	g := graph.New(nil)
	a, b, c := g.Input("d"), g.Input("x"), g.Input("w")
	turned := func(v int) int { return g.Add(graph.Transpose{A: 0, B: 1}, "turned", v) }
	g.Outputs = []int{g.Add(graph.MatMul{}, "dx", a, turned(c)), g.Add(graph.MatMul{}, "dw", turned(b), a)}
	dx, dw := tensor.New(fp16.BFloat16, 11, 107), tensor.New(fp16.BFloat16, 107, 34)
	for i := range 11 {
		for j := range 107 {
			stored := 0.0
			for k := 0; k < 34; k += 16 { // in three parts
				sum := float32(stored)
				for l := k; l < min(k+16, 34); l++ {
					sum += float32(d.Data[i*34+l] * w.Data[j*34+l])
				}
				stored = fp16.BFloat16.Round(float64(sum))
			}
			dx.Data[i*107+j] = stored
		}
	}
	for i := range 107 {
		for j := range 34 {
			sum := float32(0)
			for l := range 11 {
				sum += float32(x.Data[l*107+i] * d.Data[l*34+j])
			}
			dw.Data[i*34+j] = fp16.BFloat16.Round(float64(sum))
		}
	}
	got, err := CheckSeveral(Several{Graphs: []*graph.Graph{g}, Inputs: []*tensor.Tensor{d, x, w},
		Names: []string{"dx", "dw"}, Outputs: []*tensor.Tensor{dx, dw}})
	if err != nil || got.Verdict != Pass || got.Outputs[0].Contract.Parts == "" || got.Outputs[1].Contract.Parts != "" {
		t.Errorf("%+v, %v: want PASS, the first in parts", got, err)
	}
}
