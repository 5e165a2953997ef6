package graph

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

func init() {
	for _, row := range []string{"sum", "mean", "prod", "amax", "amin", "max", "min", "any", "all", "logsumexp", "var",
		"std", "linalg_vector_norm", "softmax", "log_softmax", "cumsum"} {
		ruleRow(row, row, false)
	}
	moving = append(moving, "sum", "mean", "prod", "amax", "amin", "max", "min", "any", "all", "logsumexp", "var",
		"std", "softmax", "log_softmax", "cumsum", "linalg_vector_norm", "mean_variance_normalization", "layer_norm",
		"rms_norm", "group_norm", "instance_norm", "batch_norm")
	notInPyTorch["mean_variance_normalization"] = "ONNX's"
}

// anyNumber is one of a JSON file, in which NaN and infinities are strings.
type anyNumber float64

func (n *anyNumber) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*n = anyNumber(v)
	return err
}

func floatsOf(of []anyNumber) (data []float64) {
	for _, v := range of {
		data = append(data, fp16.Float64.Round(float64(v)))
	}
	return data
}

// TestReductionsOfTorch: shapes, places and numbers are PyTorch's: what is exact and what is
// whole to the bit, the rest of float64 numbers but for some roundings, and of float16 numbers
// what float64 rounds to.
func TestReductionsOfTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/reductions.json")
	if err != nil {
		t.Fatal(err)
	}
	var inputs []struct {
		Whole bool
		Shape []int
		Data  []anyNumber
		Cases []reductionOfTorch
	}
	if err := json.Unmarshal(data, &inputs); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, x := range inputs {
		formats := []fp16.Format{fp16.Float64, fp16.Float32, fp16.Float16}
		if x.Whole {
			formats = []fp16.Format{fp16.Int64}
		}
		for _, f := range formats {
			for _, c := range x.Cases {
				c.check(t, tensor.Of(f, floatsOf(x.Data), x.Shape...))
				checked++
			}
		}
	}
	if checked < 1000 {
		t.Errorf("%d results", checked)
	}
}

// reductionOfTorch is one that PyTorch did.
type reductionOfTorch struct {
	Op         string
	Attributes json.RawMessage
	Outputs    []struct {
		Whole bool
		Shape []int
		Data  []anyNumber
	}
}

func (c *reductionOfTorch) check(t *testing.T, x *tensor.Tensor) {
	op, err := Bind(c.Op, c.Attributes)
	if err != nil {
		t.Fatal(err)
	}
	m := Mode{Precision: fp16.Float32}
	if x.Format == fp16.Float64 {
		m.Precision = fp16.Float64
	}
	g := New(new(Kept))
	g.Outputs = g.AddNode(op, "y", len(c.Outputs), g.Input("x"))
	p, err := g.Infer(m, Type{x.Shape, x.Format})
	if err != nil {
		t.Fatalf("%s %s of %v: %v", c.Op, c.Attributes, x.Shape, err)
	}
	out, err := p.Run(&Run{}, x)
	if err != nil {
		t.Fatal(err)
	}
	for k, y := range out {
		to := x.Format
		if c.Outputs[k].Whole {
			to = fp16.Int64
		}
		if y.Format != to || !slices.Equal(y.Shape, c.Outputs[k].Shape) {
			t.Fatalf("%s %s of %v in %v: output %d is %v %v, PyTorch's %v",
				c.Op, c.Attributes, x.Shape, x.Format, k, y.Format, y.Shape, c.Outputs[k].Shape)
		}
		for i, want := range floatsOf(c.Outputs[k].Data) {
			want = to.Round(want)
			got := y.Data[i]
			alike := got == want || got != got && want != want ||
				x.Format == fp16.Float64 && math.Abs(got-want) <= 1e-14*math.Abs(want)+1e-15
			if !alike {
				t.Fatalf("%s %s of %v in %v, output %d, element %d: %v, PyTorch %v",
					c.Op, c.Attributes, x.Data, x.Format, k, i, got, want)
			}
		}
	}
}

// TestReductionsRefuse: what does not fit is said.
func TestReductionsRefuse(t *testing.T) {
	x, none, whole := Type{[]int{2, 6, 5}, fp16.Float32}, Type{[]int{2, 0}, fp16.Float32}, Type{[]int{2, 6}, fp16.Int64}
	for _, k := range []struct {
		op, attributes, says string
		in                   []Type
	}{
		{"sum", `{"dim": [0, -3]}`, "dim: [0 -3]: want each axis once", []Type{x}},
		{"sum", `{"dim": 3}`, "dim: 3: want an axis of rank 3", []Type{x}},
		{"sum", `{"dim": -9223372036854775808}`, "dim: -9223372036854775808: want", []Type{x}},
		{"sum", `{}`, "2 inputs: want 1", []Type{x, x}},
		{"mean", `{}`, "input 0: int64", []Type{whole}},
		{"var", `{}`, "input 0: int64", []Type{whole}},
		{"std", `{"correction": -1}`, "correction: -1: want 0 or more", []Type{x}},
		{"amax", `{"dim": 1}`, "input of shape [2 0]: want numbers along the axes [1]", []Type{none}},
		{"max", `{"dim": 1}`, "input of shape [2 0]: want numbers", []Type{none}},
		{"min", `{"keepdim": true}`, "keepdim: true: want dim beside it", []Type{x}},
		{"linalg_vector_norm", `{"ord": 3}`, "ord: 3: want 0, 1, 2, inf or -inf", []Type{x}},
		{"linalg_vector_norm", `{"ord": "inf"}`, "input of shape [2 0]: want numbers", []Type{none}},
		{"softmax", `{"dim": 3}`, "dim: 3: want", []Type{x}},
		{"log_softmax", `{}`, "input 0: int64", []Type{whole}},
		{"mean_variance_normalization", `{}`, "axes: 3: want an axis of rank 3", []Type{x}},
		{"mean_variance_normalization", `{"axes": [0, 0]}`, "axes: [0 0]: want each axis once", []Type{x}},
		{"cumsum", `{"dim": -4}`, "dim: -4: want", []Type{x}},
	} {
		op, err := Bind(k.op, []byte(k.attributes))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := op.Infer(Mode{Precision: fp16.Float32}, k.in); err == nil || !strings.HasPrefix(err.Error(), k.says) {
			t.Errorf("%s %s: %v, want %q", k.op, k.attributes, err, k.says)
		}
	}
	for _, op := range []string{"sum", "prod", "cumsum"} { // what float64 does not hold for certain
		if _, err := ofEach(
			t, Mode{Precision: fp16.Float32}, op, "", tensor.Of(fp16.Int64, []float64{1 << 52, 3, 1 << 53}, 3),
		); err == nil || !strings.Contains(err.Error(), "want whole numbers within 2^53") {
			t.Errorf("%s: %v", op, err)
		}
	}
	// And what it holds in the end, but not on the way.
	y, err := ofEach(t, Mode{Precision: fp16.Float32}, "sum", "",
		tensor.Of(fp16.Int64, []float64{1 << 53, 1, -1 << 53, 1 << 53, 1, -1 << 53}, 6))
	if err != nil || y.Data[0] != 2 {
		t.Errorf("sum of whole numbers: %v, %v", y, err)
	}
}

// TestWiderReductions: autocast on CUDA sums half numbers, and takes their softmax, in float32;
// whole numbers stay whole.
func TestWiderReductions(t *testing.T) {
	m := Mode{Precision: fp16.Float16, Autocast: CUDA2}
	x := tensor.Of(fp16.Float16, []float64{2048, 1}, 2)
	if y, err := ofEach(t, m, "sum", "", x); err != nil || y.Format != fp16.Float32 || y.Data[0] != 2049 {
		t.Errorf("sum: %v, %v", y, err)
	}
	if y, err := ofEach(t, m, "mean", `{"dim": 0}`, x); err != nil || y.Format != fp16.Float16 || y.Data[0] != 1024 {
		t.Errorf("mean: %v, %v", y, err)
	}
	if y, err := ofEach(t, m, "sum", "", tensor.Of(fp16.Int64, []float64{2, 3}, 2)); err != nil ||
		y.Format != fp16.Int64 || y.Data[0] != 5 {
		t.Errorf("sum of whole numbers: %v, %v", y, err)
	}
	for _, op := range []string{"sum", "softmax", "logsumexp", "layer_norm", "exp"} {
		if y, err := ofEach(t, m, op, "", tensor.Of(fp16.Float64, []float64{2, 3}, 2)); err != nil ||
			y.Format != fp16.Float64 {
			t.Errorf("%s of float64 numbers: %v, %v", op, y, err)
		}
	}
}

// TestOrder: an infinite order is a string in JSON, both ways.
func TestOrder(t *testing.T) {
	for _, ord := range []string{`"inf"`, `"-inf"`, `1`} {
		op, err := Bind("linalg_vector_norm", []byte(`{"ord":`+ord+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := json.Marshal(op); err != nil || !strings.Contains(string(b), `"ord":`+ord) {
			t.Errorf("%s: %s, %v", ord, b, err)
		}
	}
	if _, err := Bind("linalg_vector_norm", []byte(`{"ord":"fro"}`)); err == nil {
		t.Error("any string is an order")
	}
}

// TestMeanVariance: the example of ONNX's own tests, which numpy computed in float32: each
// channel over all samples and places.
func TestMeanVariance(t *testing.T) {
	x := []float64{
		0.8439683, 0.5665144, 0.05836735, 0.02916367, 0.12964272, 0.5060197, 0.79538304, 0.9411346, 0.9546573,
		0.17730942, 0.46192095, 0.26480448, 0.6746842, 0.01665257, 0.62473077, 0.9240844, 0.9722341, 0.11965699,
		0.41356155, 0.9129373, 0.59330076, 0.81929934, 0.7862604, 0.11799799, 0.69248444, 0.54119414, 0.07513223,
	}
	want := []float64{
		1.3546423, 0.33053496, -1.5450814, -1.2106764, -0.8925952, 0.29888135, 0.38083088, 0.81808794, 0.85865635,
		-1.1060555, -0.05552877, -0.78310335, 0.83281356, -1.250282, 0.67467856, 0.7669372, 0.9113869, -1.6463585,
		-0.23402764, 1.6092131, 0.42940593, 1.2906139, 1.1860244, -0.92945826, 0.0721334, -0.38174, -1.7799333,
	}
	y, err := ofEach(t, Mode{Precision: fp16.Float32}, "mean_variance_normalization", "",
		tensor.Of(fp16.Float32, rounded(x), 3, 3, 3, 1))
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if math.Abs(y.Data[i]-w) > 2e-6 {
			t.Errorf("element %d: %v, want %v", i, y.Data[i], w)
		}
	}
}

// rounded returns numbers as float32 has them.
func rounded(of []float64) []float64 {
	fp16.Float32.RoundSlice(of, of)
	return of
}
