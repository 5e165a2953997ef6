package gradient_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/gradient"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// TestATen: ATen's backward operations are those of their forward passes, of what their schemas have.
func TestATen(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, c := range []struct {
		of         int // in forwards
		op         string
		attributes string
		tensors    map[string]string // by the name in the schema: an input, or what is saved
		outputs    []string
	}{
		{2, "native_layer_norm_backward", `{"normalized_shape": [40], "output_mask": [true, true, true]}`,
			map[string]string{"input": "input", "weight": "weight", "bias": "bias", "mean": "mean", "rstd": "rstd"},
			[]string{"input", "weight", "bias"}},
		{6, "gelu_backward", `{"approximate": "none"}`, map[string]string{"self": "input"}, []string{"input"}},
		{7, "silu_backward", ``, map[string]string{"self": "input"}, []string{"input"}},
		{12, "convolution_backward", `{"padding": [1, 1], "transposed": false, "groups": 1}`,
			map[string]string{"input": "input", "weight": "weight"}, []string{"input", "weight"}},
		{13, "embedding_dense_backward", `{"num_weights": 11, "padding_idx": -1, "scale_grad_by_freq": false}`,
			map[string]string{"indices": "input"}, []string{"weight"}},
	} {
		q := forwards[c.of].question(t, r, fp16.Float32, 0)
		given := "grad_output"
		if strings.HasPrefix(c.op, "native") {
			given = "grad_out"
		}
		tensors := map[string]*tensor.Tensor{given: q.GradOutputs[0]}
		for name, as := range c.tensors {
			for k, v := range q.Graph.Inputs {
				if q.Graph.Values[v].Name == as {
					tensors[name] = q.Inputs[k]
				}
			}
		}
		if c.of == 2 {
			tensors["mean"], tensors["rstd"] = statistics(q.Inputs[0])
		}
		var outputs []*tensor.Tensor
		for _, name := range c.outputs {
			outputs = append(outputs, q.Grads[name])
		}
		of, err := gradient.ATen(c.op, []byte(c.attributes), tensors, outputs)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := gradient.Check(*of); err != nil || got.Verdict != judge.Pass || len(got.Outputs) != len(c.outputs) {
			t.Errorf("%s: %v, %v: want PASS", c.op, got, err)
		}
		for i := range outputs[0].Data {
			outputs[0].Data[i] *= 1.01
		}
		if got, err := gradient.Check(*of); err != nil || got.Verdict != judge.Fail {
			t.Errorf("%s: %v, %v: want FAIL", c.op, got, err)
		}
	}
}

// statistics are those of rows.
func statistics(x *tensor.Tensor) (mean, rstd *tensor.Tensor) {
	n := x.Shape[1]
	mean, rstd = tensor.New(fp16.Float32, x.Shape[0], 1), tensor.New(fp16.Float32, x.Shape[0], 1)
	for i := range mean.Data {
		var sum, squares float64
		for _, v := range x.Data[i*n : (i+1)*n] {
			sum += v / float64(n)
		}
		for _, v := range x.Data[i*n : (i+1)*n] {
			squares += (v - sum) * (v - sum) / float64(n)
		}
		mean.Data[i], rstd.Data[i] = fp16.Float32.Round(sum), fp16.Float32.Round(1/math.Sqrt(squares+1e-5))
	}
	return mean, rstd
}

// TestATenRefused: what a schema does not have is an error of one line.
func TestATenRefused(t *testing.T) {
	x := tensor.New(fp16.Float32, 2, 3)
	for _, c := range []struct{ op, attributes, tensors, want string }{
		{"gelu_backward", `{"approximat": "none"}`, "grad_output self",
			`gelu_backward: attribute "approximat": want [approximate]`},
		{"gelu_backward", ``, "grad_output input", `gelu_backward: tensor "input": want [self]`},
		{"gelu_backward", ``, "self", "gelu_backward: no tensor grad_output: want the gradient by the output"},
		{"threshold_backward", `{"threshold": 1}`, "grad_output self", "threshold_backward: threshold: 1: want 0"},
		{"convolution_backward", `{"transposed": true}`, "grad_output input weight",
			"convolution_backward: transposed: true: want false"},
		{"sigmoid_backward", ``, "grad_output", "sigmoid_backward: sigmoid: no tensor input"},
		{"embedding_dense_backward", `{"scale_grad_by_freq": true}`, "grad_output indices",
			"scale_grad_by_freq: true: want false"},
		{"prod_backward", ``, "grad_output", `unknown backward operation "prod_backward"`},
	} {
		tensors := map[string]*tensor.Tensor{}
		for name := range strings.FieldsSeq(c.tensors) {
			tensors[name] = x
		}
		if _, err := gradient.ATen(c.op, []byte(c.attributes), tensors, []*tensor.Tensor{x}); err == nil ||
			!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", c.op, err, c.want)
		}
	}
	if _, err := gradient.ATen("gelu_backward", nil, map[string]*tensor.Tensor{"grad_output": x, "self": x},
		[]*tensor.Tensor{x, x}); err == nil || !strings.Contains(err.Error(), "2 outputs: want 1") {
		t.Error(err)
	}
}
