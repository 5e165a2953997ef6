package graph

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

func init() {
	for _, name := range pointwise.Names() {
		if notInPyTorch[name] == "" {
			ruleRow(name, name, false)
		}
	}
	ruleRow("clamp", "clamp", false)
	for _, name := range pointwise.OpNames() {
		if name == "prelu" {
			ruleRow("prelu", "prelu", false)
			continue
		}
		if name == "trunc_divide" { // div with rounding_mode
			continue
		}
		ruleRow(name+", both", name, false)
		ruleRow(name+", float32", name, true)
	}
	ruleRow("div, trunc", "div", false)
	ruleRow("div, floor", "div", false)
	ruleRow("glu", "glu", false)
	ruleRow("where, both", "where", false)
	ruleRow("where, float32", "where", true)
	ruleRow("sub, scaled", "sub", false)
	ruleRow("mul, python number", "mul", false)
}

// ofEach runs an operation alone.
func ofEach(t *testing.T, m Mode, name, attributes string, in ...*tensor.Tensor) (*tensor.Tensor, error) {
	t.Helper()
	op, err := Bind(name, []byte(attributes))
	if err != nil {
		t.Fatal(err)
	}
	g := New(new(Kept))
	var values []int
	var types []Type
	for _, x := range in {
		values, types = append(values, g.Input("x")), append(types, Type{x.Shape, x.Format})
	}
	g.Outputs = []int{g.Add(op, "y", values...)}
	p, err := g.Infer(m, types...)
	if err != nil {
		return nil, err
	}
	out, err := p.Run(&Run{}, in...)
	if err != nil {
		return nil, err
	}
	if got, want := out[0].Format, p.Type(g.Outputs[0]).Format; got != want {
		t.Fatalf("%s: %v, inferred %v", name, got, want)
	}
	return out[0], nil
}

// TestPointwiseOfTorch: operations of each number are PyTorch's, with its attributes and
// types: float16 numbers rounded once from the same numbers in float64, and whole numbers.
func TestPointwiseOfTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/pointwise.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Op         string
		Attributes json.RawMessage
		Inputs     []struct {
			Shape []int
			Type  string
			Data  []float64
		}
		Type   string
		Shape  []int
		Output []float64
		Wide   []float64 // of float64 numbers
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	formats := map[string]fp16.Format{"float16": fp16.Float16, "bfloat16": fp16.BFloat16, "float32": fp16.Float32,
		"int64": fp16.Int64, "bool": fp16.Int64}
	names := map[string]bool{}
	for _, c := range cases {
		names[c.Op] = true
		var in, wide []*tensor.Tensor
		for _, x := range c.Inputs {
			f := formats[x.Type]
			in = append(in, tensor.Of(f, x.Data, x.Shape...))
			if f != fp16.Int64 {
				f = fp16.Float64
			}
			wide = append(wide, tensor.Of(f, x.Data, x.Shape...))
		}
		y, err := ofEach(t, Mode{Precision: fp16.Float32}, c.Op, string(c.Attributes), in...)
		if err != nil {
			t.Fatalf("%s %s: %v", c.Op, c.Attributes, err)
		}
		if y.Format != formats[c.Type] || !slices.Equal(y.Shape, c.Shape) {
			t.Fatalf("%s %s: %v of shape %v, PyTorch has %s of shape %v", c.Op, c.Attributes, y.Format, y.Shape, c.Type, c.Shape)
		}
		z, err := ofEach(t, Mode{Precision: fp16.Float64}, c.Op, string(c.Attributes), wide...)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.Wide {
			if got := z.Data[i]; math.Abs(got-want) > 1e-14*(1+math.Abs(want)) {
				t.Errorf("%s %s, float64, element %d: %v, PyTorch %v", c.Op, c.Attributes, i, got, want)
			}
			// PyTorch computes half types in float32 and rounds to float16: an ulp from what is rounded once.
			ulp := 0.0
			if y.Format != fp16.Int64 {
				ulp = 1.01 * y.Format.Ulp(c.Output[i])
			}
			if got, want := y.Data[i], c.Output[i]; math.Abs(got-want) > ulp {
				t.Errorf("%s %s, element %d: %v, PyTorch %v", c.Op, c.Attributes, i, got, want)
			}
		}
	}
	for _, name := range slices.Concat(pointwise.Names(), pointwise.OpNames(), []string{"where", "clamp", "glu"}) {
		if !names[name] && notInPyTorch[name] == "" && name != "trunc_divide" {
			t.Errorf("%s is not held to PyTorch", name)
		}
	}
}

// TestPReLUCasts: autocast casts the slopes of prelu, too, as it casts the operands of products.
func TestPReLUCasts(t *testing.T) {
	x := tensor.Of(fp16.BFloat16, []float64{-3, 2}, 2)
	slope := tensor.Of(fp16.Float32, []float64{float64(float32(.3)), 1}, 2)
	y, err := ofEach(t, Mode{Precision: fp16.BFloat16, Autocast: CPU2}, "prelu", "{}", x, slope)
	if err != nil {
		t.Fatal(err)
	}
	want := fp16.BFloat16.Round(-3 * fp16.BFloat16.Round(.3))
	if y.Format != fp16.BFloat16 || y.Data[0] != want || want == fp16.BFloat16.Round(-3*slope.Data[0]) {
		t.Errorf("%v %v: want %v in bfloat16", y.Format, y.Data, want)
	}
}

// TestScalars: a number beside an operand is rounded as PyTorch rounds it, and the result
// once.
func TestScalars(t *testing.T) {
	m := Mode{Precision: fp16.Float32}
	x := tensor.Of(fp16.Float16, []float64{fp16.Float16.Round(0.7), 3}, 2)
	for _, k := range []struct {
		name, attributes string
		want             [2]float64
	}{
		{"gt", `{"other": 0.7}`, [2]float64{0, 1}}, // 0.7 in float16
		{"mul", `{"other": 0.1}`, [2]float64{
			fp16.Float16.Round(x.Data[0] * float64(float32(0.1))), fp16.Float16.Round(3 * float64(float32(0.1))),
		}},
		{"sub", `{"self": 1}`, [2]float64{1 - x.Data[0], -2}},
		{"pow", `{"self": 2}`, [2]float64{fp16.Float16.Round(math.Exp2(x.Data[0])), 8}},
	} {
		y, err := ofEach(t, m, k.name, k.attributes, x)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range k.want {
			if y.Data[i] != want {
				t.Errorf("%s %s: element %d is %v, want %v", k.name, k.attributes, i, y.Data[i], want)
			}
		}
	}
	// 1 + 2^-11 is a tie of float16, and 2^-30 more is not: a sum of products is rounded once.
	one := tensor.Of(fp16.Float16, []float64{1, 1}, 2)
	y, err := ofEach(t, m, "add", `{"alpha": 0.00048828218504786491}`, one, one) // 2^-11 and a bit
	if err != nil {
		t.Fatal(err)
	}
	if y.Data[0] != 1+0x1p-10 {
		t.Errorf("1 + alpha is %v, want %v", y.Data[0], 1+0x1p-10)
	}
}

// TestWholeNumbers: what leaves the whole numbers that float64 holds is an error.
func TestWholeNumbers(t *testing.T) {
	m := Mode{Precision: fp16.Float32}
	x := tensor.Of(fp16.Int64, []float64{1 << 52, -3}, 2)
	if _, err := ofEach(t, m, "mul", "", x, x); err == nil || !strings.HasPrefix(err.Error(), "y: element 0: 2.028") {
		t.Errorf("a product beyond 2^53: %v", err)
	}
	for _, k := range []struct {
		name, attributes string
		format           fp16.Format
		want             float64
	}{{"add", `{"other": 2}`, fp16.Int64, -1}, {
		"add", `{"other": 0.5}`, fp16.Float32, -2.5,
	}, {"neg", "", fp16.Int64, 3}, {"div", `{"other": 2}`, fp16.Float32, -1.5}, {"exp2", "", fp16.Float32, 0.125},
		{"lt", `{"other": 0}`, fp16.Int64, 1}, {"clamp", `{"min": -2}`, fp16.Int64, -2},
		{"div", `{"other": 2, "rounding_mode": "floor"}`, fp16.Int64, -2}, {
			"div", `{"other": 2, "rounding_mode": "trunc"}`, fp16.Int64, -1,
		}, {"remainder", `{"other": 2}`, fp16.Int64, 1},
		{"fmod", `{"other": 2}`, fp16.Int64, -1}, {"floor_divide", `{"other": 2}`, fp16.Int64, -2},
		{"isnan", "", fp16.Int64, 0}} {
		y, err := ofEach(t, m, k.name, k.attributes, x)
		if err != nil {
			t.Fatal(err)
		}
		if y.Format != k.format || y.Data[1] != k.want {
			t.Errorf("%s %s of -3: %v %v, want %v %v", k.name, k.attributes, y.Format, y.Data[1], k.format, k.want)
		}
	}
}

// TestPointwiseRefuses: what does not fit is said.
func TestPointwiseRefuses(t *testing.T) {
	a, b := tensor.New(fp16.Float32, 2, 3), tensor.New(fp16.Float32, 4)
	for _, k := range []struct {
		name, attributes, says string
		in                     []*tensor.Tensor
	}{
		{"add", "", "y: shapes [[2 3] [4]]: want", []*tensor.Tensor{a, b}},
		{"add", "", "y: 1 inputs: want 2", []*tensor.Tensor{a}},
		{"mul", `{"other": 1}`, "y: 2 inputs: want 1", []*tensor.Tensor{a, a}},
		{"mul", `{"other": 1, "self": 2}`, "y: self, other: want one", nil},
		{"mul", `{"alpha": 2}`, "y: alpha: 2: want it of add and sub only", []*tensor.Tensor{a, a}},
		{"where", "", "y: 2 inputs: want 3", []*tensor.Tensor{a, a}},
		{"exp", "", "y: 2 inputs: want 1", []*tensor.Tensor{a, a}},
		{"glu", "", "y: dim: -1: want an axis of even size, not 3", []*tensor.Tensor{a}},
		{"glu", `{"dim": 2}`, "y: dim: 2: want an axis of rank 2", []*tensor.Tensor{a}},
		{"glu", `{"dim": 0}`, "y: input 0: int64 numbers: want floating-point ones",
			[]*tensor.Tensor{tensor.New(fp16.Int64, 2)}},
		{"fmod", "", "y: element 0: NaN: want whole numbers within 2^53",
			[]*tensor.Tensor{tensor.New(fp16.Int64, 2), tensor.New(fp16.Int64, 2)}},
	} {
		if _, err := ofEach(t, Mode{Precision: fp16.Float32}, k.name, k.attributes, k.in...); err == nil ||
			!strings.HasPrefix(err.Error(), k.says) {
			t.Errorf("%s %s: %v, want %q", k.name, k.attributes, err, k.says)
		}
	}
	for _, k := range [][3]string{
		{"exp", `{"base": 2}`, `exp: exp: unknown parameter "base": want none`},
		{"elu", `{"alpha": "x"}`, "elu: alpha: \"x\": want a number"},
		{"softplus", `{"beta": 0}`, "softplus: softplus: beta: 0: want a positive number"},
		{"gelu", `{"approximate": "erf"}`, `gelu: approximate: "erf": want none or tanh`},
		{"relu", `{"x": 1}`, `relu: "x": no such attribute: want none`},
		{"div", `{"rounding_mode": "up"}`, `div: rounding_mode: "up": want floor or trunc`},
		{"mul", `{"rounding_mode": "floor"}`, `mul: rounding_mode: "floor": want it of div only`},
		{"add", `{"scale": 1}`, `add: "scale": no such attribute: want alpha, other, rounding_mode, self`},
	} {
		if _, err := Bind(k[0], []byte(k[1])); err == nil || !strings.HasPrefix(err.Error(), k[2]) {
			t.Errorf("%s %s: %v, want %q", k[0], k[1], err, k[2])
		}
	}
}
