package graph

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/refrun/refrun/fp16"
)

func init() {
	for _, op := range []string{"reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "permute", "transpose",
		"expand", "split", "chunk", "unbind", "slice", "select", "flip", "roll", "repeat", "repeat_interleave", "tril",
		"triu", "pixel_shuffle", "pixel_unshuffle"} {
		ruleRow(op, op, false)
	}
	ruleRow("pad zeros", "pad", false)
	ruleRow("pad circular", "pad", false)
	ruleRow("stack, both", "stack", false)
	ruleRow("stack, float32", "stack", true)
	notInPyTorch["depth_to_space"] = "ONNX's; that of pixel_shuffle"
	notInPyTorch["space_to_depth"] = "ONNX's; that of pixel_unshuffle"
}

// ruleRow adds a row to the operations whose rules are recorded.
func ruleRow(row, op string, wide bool) {
	ruleRows = append(ruleRows, struct {
		row, op string
		wide    bool
	}{row, op, wide})
}

// recordedRules returns what PyTorch 2.9.1 returned under autocast on its CPU, by the half
// type, the operation and the type of its input.
func recordedRules(t *testing.T) (of map[string]map[string]map[string]string) {
	t.Helper()
	data, err := os.ReadFile("../testdata/autocast/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var releases map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &releases); err != nil {
		t.Fatal(err)
	}
	of = map[string]map[string]map[string]string{}
	for _, half := range []string{"bfloat16", "float16"} {
		var rows map[string]map[string]string
		if err := json.Unmarshal(releases["2.9.1"][half], &rows); err != nil {
			t.Fatal(err)
		}
		of[half] = rows
	}
	return of
}

// TestPadAutocast: the rule goes by the mode.
func TestPadAutocast(t *testing.T) {
	rules := recordedRules(t)
	for _, m := range recorded[1:] {
		for row, mode := range map[string]string{
			"pad zeros": "constant", "pad circular": "circular", "pad reflect": "reflect", "pad replicate": "replicate",
		} {
			for _, f := range []fp16.Format{m.Precision, fp16.Float32} {
				inf, err := Pad{Before: Ints{1, 1}, After: Ints{1, 1}, Mode: mode}.Infer(m, []Type{{[]int{2, 4, 8, 8}, f}})
				if want := rules[m.Precision.String()][row][f.String()]; err != nil || inf.Out[0].Format.String() != want {
					t.Errorf("%v: %s of %v: %v, %v: want %s", m, row, f, inf, err, want)
				}
			}
		}
	}
}
