package quantizer

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// TestScaledMM: what torch._scaled_mm returned on an H200 passes as its units' sums, of both kinds, with scales that
// are powers of two too; another number in one place fails.
func TestScaledMM(t *testing.T) {
	f, err := safetensors.Open(filepath.Join("testdata", "h200_scaled_mm.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string, format fp16.Format) *tensor.Tensor {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := x.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		return tensor.Of(format, v, x.Shape...)
	}
	a, b := read("input", fp16.Float32), read("other", fp16.Float32)
	for _, c := range []struct {
		output string
		format fp16.Format
		says   string
	}{{"fast", fp16.Float32, "K ascending"}, {"slow", fp16.BFloat16, "sums of 128"}} {
		for _, scale := range []float64{1, .25} {
			p := Product{A: a, B: b, OfA: fp16.E4M3, OfB: fp16.E4M3, Output: read(c.output, c.format),
				ScaleA: tensor.Of(fp16.Float32, []float64{scale}, 1), ScaleB: tensor.Of(fp16.Float32, []float64{1}, 1)}
			for i := range p.Output.Data {
				p.Output.Data[i] *= scale
			}
			r, form, err := CheckProduct(p)
			if err != nil || r.Verdict != judge.Pass || !strings.Contains(form, c.says) {
				t.Errorf("%s, scale %v: %+v, %q, %v", c.output, scale, r, form, err)
			}
			p.Output.Data[7] += 2 * c.format.Ulp(p.Output.Data[7])
			if r, form, err = CheckProduct(p); err != nil || r.Verdict != judge.Fail {
				t.Errorf("%s, scale %v, one wrong: %+v, %q, %v", c.output, scale, r, form, err)
			}
		}
	}
}
