package judge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/safetensors"
)

// TestCUDA: what PyTorch's kernels returned on a GPU is right: a group norm that keeps its statistics in half, a
// product whose sum is stored in parts, attentions of float32 numbers that take TF32 for one product and not for the
// other, or three products of parts. Sixteen places more, in one row, are wrong.
func TestCUDA(t *testing.T) {
	dir := filepath.Join("testdata", "cuda")
	b, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Kernels []struct {
			File, Op, Precision, What string
			Attrs                     json.RawMessage
		}
	}
	if err := json.Unmarshal(b, &index); err != nil {
		t.Fatal(err)
	}
	for i, k := range index.Kernels {
		f, err := safetensors.Open(filepath.Join(dir, k.File))
		if err != nil {
			t.Fatal(err)
		}
		names := slices.DeleteFunc(slices.Clone(f.Names()), func(n string) bool { return n == "output" })
		g, order, err := Kernel(k.Op, k.Attrs, names)
		if err != nil {
			t.Fatal(k.File, err)
		}
		q := Question{Graph: g, Output: readTensor(t, f, "output")}
		for _, n := range order {
			q.Inputs = append(q.Inputs, readTensor(t, f, n))
		}
		if k.Precision == "tf32" {
			q.Claimed = &Contract{Form: Form{Operands: "tf32"}}
		}
		r, err := Check(q)
		if err != nil || r.Verdict != Pass {
			t.Errorf("%s, %s: %v %v, %s under %v", k.File, k.What, err, r.Verdict, r.Reason, r.Contract)
		}
		if !share.All() && i%3 > 0 {
			continue
		}
		wrong := *q.Output
		wrong.Data = slices.Clone(wrong.Data)
		row := wrong.Shape[len(wrong.Shape)-1]
		most := 0.
		for _, v := range wrong.Data {
			most = max(most, v)
		}
		step := 16 * wrong.Format.Ulp(most)
		if k.Precision == "tf32" {
			step *= 1 << 11 // four places of TF32
		}
		for i := range row {
			wrong.Data[row+i] += step
		}
		q.Output = &wrong
		if r, err := Check(q); err != nil || r.Verdict != Fail {
			t.Errorf("%s, with a wrong row: %v %v under %v", k.File, err, r.Verdict, r.Contract)
		}
	}
}
