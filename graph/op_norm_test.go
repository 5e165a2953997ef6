package graph

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

func init() {
	for _, row := range []string{"layer_norm", "rms_norm"} {
		ruleRow(row, row, false)
	}
	ruleRow("layer_norm, no affine", "layer_norm", false)
	ruleRow("rms_norm, no affine", "rms_norm", false)
}

// TestNormsOfTorch: norms over any axes, with and without parameters, are PyTorch's of the
// same float64 numbers, but for some roundings.
func TestNormsOfTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/norms.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Op         string
		Attributes json.RawMessage
		Inputs     []struct {
			Shape []int
			Data  []float64
		}
		Output []float64
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 15 {
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		for _, f := range []fp16.Format{fp16.Float64, fp16.Float32} {
			op, err := Bind(c.Op, c.Attributes)
			if err != nil {
				t.Fatal(err)
			}
			g := New(new(Kept))
			var in []int
			for i, x := range c.Inputs {
				in = append(in, g.Constant(string(rune('a'+i)), tensor.Of(fp16.Float32, x.Data, x.Shape...)))
			}
			g.Outputs = []int{g.Add(op, "norm", in...)}
			p, err := g.Infer(Mode{Precision: f})
			if err != nil {
				t.Fatalf("%s %s: %v", c.Op, c.Attributes, err)
			}
			out, err := p.Run(&Run{})
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range c.Output {
				if f == fp16.Float32 {
					want = f.Round(want)
				}
				if got := out[0].Data[i]; math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
					t.Fatalf("%s %s, %v, element %d: %v, PyTorch %v", c.Op, c.Attributes, f, i, got, want)
				}
			}
		}
	}
}

// TestNormsRefuse: what does not fit is said.
func TestNormsRefuse(t *testing.T) {
	x, c, whole := Type{[]int{2, 6, 5}, fp16.Float32}, Type{[]int{6}, fp16.Float32}, Type{[]int{2, 6}, fp16.Int64}
	for _, k := range []struct {
		op, attributes, says string
		in                   []Type
	}{
		{"layer_norm", `{"normalized_shape": [6, 4]}`,
			"normalized_shape: [6 4]: want the last sizes of the input, [6 5]", []Type{x}},
		{"layer_norm", `{"normalized_shape": [1, 2, 6, 5]}`,
			"normalized_shape: [1 2 6 5]: want the last sizes of the input of shape [2 6 5]", []Type{x}},
		{"layer_norm", `{}`, "parameter of shape [6]: want [5]", []Type{x, c}},
		{"layer_norm", `{"eps": -1}`, "eps: -1: want", []Type{x}},
		{"layer_norm", `{}`, "input of shape []", []Type{{nil, fp16.Float32}}},
		{"layer_norm", `{}`, "input of shape [3 0]: want numbers", []Type{{[]int{3, 0}, fp16.Float32}}},
		{"layer_norm", `{}`, "input 0: int64", []Type{whole}},
		{"rms_norm", `{"eps": -1}`, "eps: -1: want", []Type{x}},
		{"rms_norm", `{}`, "3 inputs: want 1 to 2", []Type{x, c, c}},
		{"group_norm", `{"num_groups": 4}`, "num_groups: 4: want a divisor of the 6 channels", []Type{x, c, c}},
		{"group_norm", `{"num_groups": 2}`, "input of shape [6]: want [N,C,...]", []Type{c}},
		{"batch_norm", `{}`, "4 inputs: want a weight and a bias", []Type{x, c, c, c}},
		{"batch_norm", `{}`, "1 inputs: want 3 to 5", []Type{x}},
		{"instance_norm", `{}`, "input 0: int64", []Type{whole}},
	} {
		op, err := Bind(k.op, []byte(k.attributes))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := op.Infer(Mode{Precision: fp16.Float32}, k.in); err == nil || !strings.HasPrefix(err.Error(), k.says) {
			t.Errorf("%s %s: %v, want %q", k.op, k.attributes, err, k.says)
		}
	}
}
