package judge

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

// TestCores: what the matrix units of all known devices give passes, of numbers of both signs, of one
// sign, and of sums that cancel; and half the result does not.
func TestCores(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range tensorcore.Names() {
		m, err := tensorcore.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, shift := range []float64{0, 1, 8} {
			for _, of := range []struct {
				in tensorcore.Input
				f  fp16.Format
			}{{tensorcore.FP16, fp16.Float16}, {tensorcore.BF16, fp16.BFloat16}} {
				unit, err := m.Unit(of.in, fp16.Float32)
				if err != nil {
					continue
				}
				a, b := tensor.New(of.f, 24, 512), tensor.New(of.f, 512, 16)
				for _, x := range []*tensor.Tensor{a, b} {
					for i := range x.Data {
						x.Data[i] = of.f.Round(shift + r.NormFloat64())
					}
				}
				wide := func(x *tensor.Tensor) *tensor.Tensor { return tensor.Of(fp16.Float64, x.Data, x.Shape...) }
				y := tensor.New(fp16.Float32, 24, 16)
				unit.MatMul(y, wide(a), wide(b), nil, 1)
				g, _, err := Kernel("matmul", nil, []string{"input", "other"})
				if err != nil {
					t.Fatal(err)
				}
				rep, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{a, b}, Output: y})
				if err != nil || rep.Verdict != Pass {
					t.Errorf("%s %v shift %v: %+v %v", name, of.in, shift, rep, err)
				}
			}
		}
	}
}
