package graph

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// recorded are the sets of testdata/autocast: a PyTorch on a CPU and the half type
// of its autocast.
var recorded = []Mode{
	{Precision: fp16.BFloat16, Autocast: CPU113},
	{Precision: fp16.BFloat16, Autocast: CPU2},
	{Precision: fp16.Float16, Autocast: CPU2},
}

// ruleRows are the operations of rules.json that the project has, with what the
// table calls them and whether a float32 tensor is the second argument.
var ruleRows = []struct {
	row, op string
	wide    bool
}{
	{"conv2d", "conv2d", false},
	{"conv_transpose2d", "conv_transpose2d", false},
	{"instance_norm", "instance_norm", false},
	{"batch_norm", "batch_norm", false},
	{"group_norm", "group_norm", false},
	{"gelu", "gelu", false},
	{"gelu_tanh", "gelu", false},
	{"silu", "silu", false},
	{"relu", "relu", false},
	{"tanh", "tanh", false},
	{"add, both", "add", false},
	{"add, float32", "add", true},
	{"cat, both", "cat", false},
	{"cat, float32", "cat", true},
	{"mul, float32 without dimensions", "noise", false}, // the scale
	{"mul, python number", "noise", false},
	{"mul, both", "noise", false}, // dropout's mask, multiplicative noise
	{"randn_like", "noise", false},
	{"exponential_", "noise", false},
	{"sign", "noise", false},
	{"dropout2d", "noise", false},
	{"avg_pool2d", "avg_pool2d", false},
	{"interpolate nearest", "interpolate", false},
	{"interpolate bilinear", "interpolate", false},
	{"grid_sampler", "grid_sampler", false},
}

// notInPyTorch are operations that it has not, or only of whole numbers, with the reason
// why their rule is what it is.
var notInPyTorch = map[string]string{
	"identity":     "it is no operation of PyTorch's: its rule is to do nothing",
	"clip":         "ONNX's name of clamp",
	"hard_sigmoid": "ONNX's, with parameters; PyTorch's hardsigmoid has none",
	"swish":        "ONNX's, with a parameter; PyTorch's silu has none",
	"sum_squares":  "ONNX's", "log_sum": "ONNX's", "inverse_std": "ONNX's", "running_mean": "ONNX's",
	"running_var": "ONNX's", "lp_normalize": "ONNX's",
}

// TestAutocastRules: every type that PyTorch's CPU returned, and every error,
// is what the table says.
func TestAutocastRules(t *testing.T) {
	data, err := os.ReadFile("../testdata/autocast/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var releases map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &releases); err != nil {
		t.Fatal(err)
	}
	release := map[Autocast]string{CPU113: "1.13.1", CPU2: "2.9.1"}
	checked, refused, ops := 0, 0, map[string]bool{}
	for _, m := range recorded {
		var rows map[string]map[string]string
		if err := json.Unmarshal(releases[release[m.Autocast]][m.Precision.String()], &rows); err != nil {
			t.Fatalf("%s: %v", m, err)
		}
		for _, r := range ruleRows {
			ops[r.op] = true
			if registry[r.op].casts[m.Autocast-CUDA113] == unrecorded {
				continue
			}
			for _, in := range []fp16.Format{m.Precision, fp16.Float32} {
				want := rows[r.row][in.String()]
				if want == "" {
					t.Fatalf("%s: no row %q for %v", m, r.row, in)
				}
				inputs := []fp16.Format{in}
				if r.wide {
					inputs = append(inputs, fp16.Float32)
				}
				got, err := m.Result(r.op, inputs...)
				if want == "bool" { // whole numbers here
					got, err = truthsOf(t, m, r.op, inputs)
					want = "int64"
				}
				switch strings.HasPrefix(want, "error: ") {
				case true:
					refused++
					if err == nil {
						t.Errorf("%s: %s of %v: %v, PyTorch stops with %q", m, r.row, in, got, want)
					}
				case false:
					if err != nil || got.String() != want {
						t.Errorf("%s: %s of %v: %v, %v: PyTorch returns %s", m, r.row, in, got, err, want)
					}
				}
				checked++
			}
		}
	}
	for op := range registry {
		if !ops[op] && notInPyTorch[op] == "" {
			t.Errorf("%s: no row of rules.json is about it", op)
		}
	}
	t.Logf("%d results, %d of them errors", checked, refused)
}

// truthsOf returns the format of a comparison's results.
func truthsOf(t *testing.T, m Mode, name string, in []fp16.Format) (fp16.Format, error) {
	op, err := Bind(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	var types []Type
	for _, f := range in {
		types = append(types, Type{[]int{3}, f})
	}
	if b, is := op.(Binary); is && len(in) == 1 {
		types = append(types, types[0])
		op = b
	}
	inf, err := op.Infer(m, types)
	return inf.Out[0].Format, err
}
