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
	for _, row := range []string{"sum", "mean", "prod", "amax", "amin", "max", "min", "any", "all", "logsumexp", "var", "std", "linalg_vector_norm", "softmax", "log_softmax", "cumsum"} {
		ruleRow(row, row, false)
	}
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
			t.Fatalf("%s %s of %v in %v: output %d is %v %v, PyTorch's %v", c.Op, c.Attributes, x.Shape, x.Format, k, y.Format, y.Shape, c.Outputs[k].Shape)
		}
		for i, want := range floatsOf(c.Outputs[k].Data) {
			want = to.Round(want)
			got := y.Data[i]
			alike := got == want || got != got && want != want || x.Format == fp16.Float64 && math.Abs(got-want) <= 1e-14*math.Abs(want)+1e-15
			if !alike {
				t.Fatalf("%s %s of %v in %v, output %d, element %d: %v, PyTorch %v", c.Op, c.Attributes, x.Data, x.Format, k, i, got, want)
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
		if _, err := ofEach(t, Mode{Precision: fp16.Float32}, op, "", tensor.Of(fp16.Int64, []float64{1 << 52, 3, 1 << 53}, 3)); err == nil || !strings.Contains(err.Error(), "want whole numbers within 2^53") {
			t.Errorf("%s: %v", op, err)
		}
	}
	// And what it holds in the end, but not on the way.
	y, err := ofEach(t, Mode{Precision: fp16.Float32}, "sum", "", tensor.Of(fp16.Int64, []float64{1 << 53, 1, -1 << 53, 1 << 53, 1, -1 << 53}, 6))
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
	if y, err := ofEach(t, m, "sum", "", tensor.Of(fp16.Int64, []float64{2, 3}, 2)); err != nil || y.Format != fp16.Int64 || y.Data[0] != 5 {
		t.Errorf("sum of whole numbers: %v, %v", y, err)
	}
}
