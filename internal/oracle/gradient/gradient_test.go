package gradient_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/grad"
	"github.com/refrun/refrun/internal/oracle/gradient"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// forward is an operation with the shapes of its inputs; names with a # have whole numbers below what follows.
type forward struct {
	op, attributes string
	inputs         []string
	shapes         [][]int
}

var forwards = []forward{
	{"softmax", `{"dim": -1}`, []string{"input"}, [][]int{{9, 37}}},
	{"log_softmax", `{"dim": -1}`, []string{"input"}, [][]int{{9, 37}}},
	{"layer_norm", `{"normalized_shape": [40]}`, []string{"input", "weight", "bias"}, [][]int{{12, 40}, {40}, {40}}},
	{"rms_norm", `{"normalized_shape": [40], "eps": 1e-6}`, []string{"input", "weight"}, [][]int{{12, 40}, {40}}},
	{"group_norm", `{"num_groups": 2}`, []string{"input", "weight", "bias"}, [][]int{{3, 6, 5, 4}, {6}, {6}}},
	{"batch_norm", `{"training": true}`, []string{"input", "weight", "bias"}, [][]int{{5, 4, 6}, {4}, {4}}},
	{"gelu", ``, []string{"input"}, [][]int{{9, 37}}},
	{"silu", ``, []string{"input"}, [][]int{{9, 37}}},
	{"tanh", ``, []string{"input"}, [][]int{{9, 37}}},
	{"sigmoid", ``, []string{"input"}, [][]int{{9, 37}}},
	{"swiglu", ``, []string{"gate", "up"}, [][]int{{9, 37}, {9, 37}}},
	{"linear", ``, []string{"input", "weight", "bias"}, [][]int{{14, 20}, {12, 20}, {12}}},
	{"conv2d", `{"padding": 1}`, []string{"input", "weight"}, [][]int{{2, 3, 7, 6}, {4, 3, 3, 3}}},
	{"embedding", ``, []string{"weight", "input#11"}, [][]int{{11, 8}, {60}}},
	{"scaled_dot_product_attention", `{"is_causal": true}`, []string{"query", "key", "value"},
		[][]int{{2, 12, 8}, {2, 12, 8}, {2, 12, 8}}},
	{"cross_entropy", `{"reduction": "mean"}`, []string{"input", "target#19"}, [][]int{{16, 19}, {16}}},
	{"rotary_embedding", ``, []string{"input", "cos", "sin"}, [][]int{{2, 6, 8}, {6, 8}, {6, 8}}},
	{"dropout", `{"p": 0.25}`, []string{"input", "mask#2"}, [][]int{{9, 37}, {9, 37}}},
	{"embedding", ``, []string{"weight", "input#60"}, [][]int{{60, 16}, {200}}},
}

// question is one with random numbers of a format, whose gradients are those of float32 steps in a form, rounded once.
func (f *forward) question(t *testing.T, r *rand.Rand, narrow fp16.Format, form int) gradient.Question {
	t.Helper()
	names := make([]string, len(f.inputs))
	below := make([]int, len(f.inputs))
	for k, n := range f.inputs {
		name, n, _ := strings.Cut(n, "#")
		fmt.Sscan(n, &below[k])
		names[k] = name
	}
	g, _, err := gradient.Kernel(f.op, []byte(f.attributes), names)
	if err != nil {
		t.Fatal(f.op, err)
	}
	q := gradient.Question{Graph: g, Grads: map[string]*tensor.Tensor{}}
	a := grad.Ask{Of: g.Outputs}
	var types []graph.Type
	for k, shape := range f.shapes {
		x := tensor.New(narrow, shape...)
		if below[k] > 0 {
			x.Format = fp16.Int64
		} else {
			a.By = append(a.By, g.Inputs[k])
		}
		for i := range x.Data {
			if x.Data[i] = narrow.Round(r.NormFloat64()); below[k] > 0 {
				x.Data[i] = float64(r.IntN(below[k]))
			}
		}
		q.Inputs = append(q.Inputs, x)
		types = append(types, wide(x).at())
	}
	m := graph.Mode{Precision: fp16.Float32}
	p, err := g.Infer(m, types...)
	if err != nil {
		t.Fatal(f.op, err)
	}
	d := tensor.New(narrow, p.Type(g.Outputs[0]).Shape...)
	for i := range d.Data {
		d.Data[i] = narrow.Round(r.NormFloat64())
	}
	q.GradOutputs = []*tensor.Tensor{d}
	forms := grad.Forms(g)
	a.Form = forms[form%len(forms)]
	b, err := grad.Backward(g, m, a, types...)
	if err != nil {
		t.Fatal(f.op, err)
	}
	if p, err = b.Infer(m, append(types, wide(d).at())...); err != nil {
		t.Fatal(f.op, err)
	}
	var in []*tensor.Tensor
	for _, x := range append(slices.Clone(q.Inputs), d) {
		in = append(in, wide(x).Tensor)
	}
	all, err := p.Run(new(graph.Run), in...)
	if err != nil {
		t.Fatal(f.op, err)
	}
	for k, v := range a.By {
		y := tensor.New(narrow, all[k].Shape...)
		narrow.RoundSlice(y.Data, all[k].Data)
		q.Grads[g.Values[v].Name] = y
	}
	return q
}

// float32s is a tensor as a kernel reads it.
type float32s struct{ *tensor.Tensor }

func wide(x *tensor.Tensor) float32s {
	if x.Format == fp16.Int64 {
		return float32s{x}
	}
	return float32s{tensor.Of(fp16.Float32, x.Data, x.Shape...)}
}

func (x float32s) at() graph.Type { return graph.Type{Shape: x.Shape, Format: x.Format} }

var formats = []fp16.Format{fp16.Float32, fp16.BFloat16, fp16.Float16}

// TestRightForms: gradients of float32 steps pass in each form.
func TestRightForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i, f := range forwards {
		for form := range 4 {
			narrow := formats[(i+form)%len(formats)]
			got, err := gradient.Check(f.question(t, r, narrow, form))
			if err != nil {
				t.Fatal(f.op, err)
			}
			if got.Verdict != judge.Pass || len(got.Outputs) == 0 {
				t.Errorf("%s in %v, form %d: %s, %s", f.op, narrow, form, got.Verdict, got.Reason)
			}
		}
	}
}

// TestWrongGradients: gradients times 2, with one part in half, and without their last rows fail, and the others of the
// same question do not.
func TestWrongGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, f := range forwards {
		for what, spoil := range map[string]func(y []float64){
			"times 2": func(y []float64) {
				for i := range y {
					y[i] *= 2
				}
			},
			"zeros at the end": func(y []float64) { clear(y[len(y)-len(y)/4:]) },
			"bfloat16":         func(y []float64) { fp16.BFloat16.RoundSlice(y, y) },
		} {
			q := f.question(t, r, fp16.Float32, 0)
			name, _, _ := strings.Cut(f.inputs[0], "#")
			spoil(q.Grads[name].Data)
			got, err := gradient.Check(q)
			if err != nil {
				t.Fatal(f.op, err)
			}
			for _, row := range got.Outputs {
				if (row.Verdict == judge.Fail) != (row.Name == name) {
					t.Errorf("%s, %s: %s is %s", f.op, what, row.Name, row.Verdict)
				}
			}
			if got.Verdict != judge.Fail || !strings.HasPrefix(got.Reason, name+": ") || got.Contract != nil {
				t.Errorf("%s, %s: %s, %s", f.op, what, got.Verdict, got.Reason)
			}
		}
	}
}

// TestRefused: what does not fit is an error of one line, and what has no gradient no pass.
func TestRefused(t *testing.T) {
	norm := forwards[2]
	for what, c := range map[string]struct {
		change func(q *gradient.Question)
		want   string
	}{
		"shape": {func(q *gradient.Question) { q.Grads["weight"] = tensor.New(fp16.Float32, 39) },
			"grad.weight of shape [39]: want [40], that of weight"},
		"name": {func(q *gradient.Question) { q.Grads["scale"] = tensor.New(fp16.Float32, 40) },
			"grad.scale: no input has that name: want one of input, weight, bias"},
		"none": {func(q *gradient.Question) { q.Grads = nil },
			"no gradient: want grad.NAME of one or more of input, weight, bias"},
		"output": {
			func(q *gradient.Question) { q.GradOutputs[0] = nil }, "no grad_output: want the gradient by the output",
		},
		"of shape": {func(q *gradient.Question) { q.GradOutputs[0] = tensor.New(fp16.Float32, 12) },
			"grad_output of shape [12]: want [12 40], that of the output"},
		"saved": {func(q *gradient.Question) {
			q.Saved = map[string]*tensor.Tensor{"lse": tensor.New(fp16.Float32, 12)}
		}, "saved lse: no gradient here reads it"},
	} {
		q := norm.question(t, rand.New(rand.NewPCG(5, 6)), fp16.Float32, 0)
		c.change(&q)
		if _, err := gradient.Check(q); err == nil ||
			err.Error() != c.want && !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
	g, _, err := judge.Kernel("prod", nil, []string{"input"})
	if err != nil {
		t.Fatal(err)
	}
	one := tensor.Of(fp16.Float32, []float64{2, 3}, 2)
	got, err := gradient.Check(gradient.Question{Graph: g, Inputs: []*tensor.Tensor{one}, GradOutputs: []*tensor.Tensor{
		tensor.Of(fp16.Float32, []float64{1}),
	}, Grads: map[string]*tensor.Tensor{"input": one}})
	if err != nil || got.Verdict != judge.NoPower || !strings.Contains(got.Reason, "prod: no rule") {
		t.Errorf("%v, %v: want NO-POWER of an operation without a rule", got, err)
	}
}

// TestSavedIsRead: gradients of a mean that was saved are held to that mean, right or wrong.
func TestSavedIsRead(t *testing.T) {
	norm := forwards[2]
	q := norm.question(t, rand.New(rand.NewPCG(7, 8)), fp16.Float32, 0)
	x := q.Inputs[0]
	n := x.Shape[1]
	mean := tensor.New(fp16.Float32, x.Shape[0])
	for i := range mean.Data {
		for _, v := range x.Data[i*n : (i+1)*n] {
			mean.Data[i] += v
		}
		mean.Data[i] = fp16.Float32.Round(mean.Data[i] / float64(n))
	}
	q.Saved = map[string]*tensor.Tensor{"mean": mean}
	if got, err := gradient.Check(q); err != nil || got.Verdict != judge.Pass {
		t.Errorf("%v, %v: want PASS", got, err)
	}
	for i := range mean.Data {
		mean.Data[i] += 0.01
	}
	if got, err := gradient.Check(q); err != nil || got.Verdict != judge.Fail {
		t.Errorf("%v, %v: want FAIL of another mean", got, err)
	}
}

// TestNamedFaults: faults of gradients are named, each by what it is.
func TestNamedFaults(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, c := range []struct {
		of     int // in forwards
		grad   string
		narrow fp16.Format
		spoil  func(q *gradient.Question, y *tensor.Tensor)
		want   string
	}{
		{13, "weight", fp16.BFloat16, func(q *gradient.Question, y *tensor.Tensor) { byPlaces(q, y, fp16.BFloat16) },
			"sums are kept in bfloat16"},
		{13, "weight", fp16.Float32, func(q *gradient.Question, y *tensor.Tensor) { byPlaces(q, y, fp16.BFloat16) },
			"sums are kept in bfloat16"},
		{13, "weight", fp16.Float16, func(q *gradient.Question, y *tensor.Tensor) { byPlaces(q, y, fp16.Float16) },
			"sums are kept in float16"},
		{13, "weight", fp16.Float32, func(q *gradient.Question, y *tensor.Tensor) { byPlaces(q, y, fp16.Int64) },
			"of several numbers at a place the last one stays"},
		{0, "input", fp16.BFloat16, func(q *gradient.Question, y *tensor.Tensor) { // the softmax's sum is not subtracted
			d := q.GradOutputs[0].Data
			for i, p := range softmaxOf(q.Inputs[0]) {
				y.Data[i] = y.Format.Round(p * d[i])
			}
		}, "a term is not added in dx"},
		{10, "gate", fp16.BFloat16, func(q *gradient.Question, y *tensor.Tensor) { copy(y.Data, q.Grads["up"].Data) },
			"another output is returned in its place in grad(up)"},
		{6, "input", fp16.Float32, func(q *gradient.Question, y *tensor.Tensor) { // the backward pass of the other GELU
			other := forward{"gelu", `{"approximate": "tanh"}`, []string{"input"}, [][]int{{9, 37}}}
			w := other.question(t, rand.New(rand.NewPCG(13, 14)), fp16.Float32, 0)
			copy(q.Inputs[0].Data, w.Inputs[0].Data)
			copy(q.GradOutputs[0].Data, w.GradOutputs[0].Data)
			copy(y.Data, w.Grads["input"].Data)
		}, "tanh GELU"},
		{17, "input", fp16.Float32, func(q *gradient.Question, y *tensor.Tensor) { // the mask is not applied
			for i, d := range q.GradOutputs[0].Data {
				y.Data[i] = y.Format.Round(d / 0.75)
			}
		}, "the mask is not applied in mask_numbers"},
		{17, "input", fp16.BFloat16, func(q *gradient.Question, y *tensor.Tensor) { // nor the scale
			for i, d := range q.GradOutputs[0].Data {
				y.Data[i] = d * q.Inputs[1].Data[i]
			}
		}, "a factor is left out in output.backward1"},
		{18, "weight", fp16.BFloat16, func(q *gradient.Question, y *tensor.Tensor) { byPlaces(q, y, fp16.BFloat16) },
			"sums are kept in bfloat16"},
	} {
		q := forwards[c.of].question(t, r, c.narrow, 0)
		c.spoil(&q, q.Grads[c.grad])
		got, err := gradient.Check(q)
		if err != nil {
			t.Fatal(err)
		}
		if name := got.Outputs[0].Fault; got.Verdict != judge.Fail || !strings.Contains(name, c.want) {
			t.Errorf("%s in %v: %s, %q, want %q", forwards[c.of].op, c.narrow, got.Verdict, name, c.want)
		}
	}
}

// byPlaces are the rows of an embedding's gradient, each addition rounded to a format; to whole numbers, no addition.
func byPlaces(q *gradient.Question, y *tensor.Tensor, f fp16.Format) {
	clear(y.Data)
	n := y.Shape[1]
	for i, row := range q.Inputs[1].Data {
		for k := range n {
			at, d := int(row)*n+k, q.GradOutputs[0].Data[i*n+k]
			if y.Data[at] = d + y.Data[at]; f == fp16.Int64 {
				y.Data[at] = d
			} else {
				y.Data[at] = f.Round(y.Data[at])
			}
		}
	}
}

func softmaxOf(x *tensor.Tensor) []float64 {
	p, n := make([]float64, len(x.Data)), x.Shape[1]
	for row := 0; row < len(p); row += n {
		sum := 0.0
		for i := row; i < row+n; i++ {
			p[i] = elem.Exp(x.Data[i])
			sum += p[i]
		}
		for i := row; i < row+n; i++ {
			p[i] /= sum
		}
	}
	return p
}
