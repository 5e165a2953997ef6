package judge

import (
	"path/filepath"
	"testing"

	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// TestRoundingsAreNoFault: a right causal attention in TF32, recorded. Without the maximum in its exponents some
// probabilities next to the middle of two numbers would be rounded the other way, and so they are here.
func TestRoundingsAreNoFault(t *testing.T) {
	f, err := safetensors.Open(filepath.Join("testdata", "attention_causal_tf32.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	var in []*tensor.Tensor
	for _, name := range []string{"query", "key", "value"} {
		in = append(in, readTensor(t, f, name))
	}
	g, _, err := Kernel("scaled_dot_product_attention", []byte(`{"is_causal":true}`), []string{"query", "key", "value"})
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Graph: g, Inputs: in, Output: readTensor(t, f, "output")}
	q.Claimed = &Contract{Form: Form{Operands: "tf32"}}
	if a, err := Check(q); err != nil || a.Verdict != Pass {
		t.Errorf("%+v, %v", a, err)
	}
}
