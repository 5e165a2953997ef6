package emulate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

// TestLean: sums of one sign that a matrix unit truncates lose as much toward zero as the
// legal device that leans most, or less, and the worst unit nearly as much.
func TestLean(t *testing.T) {
	const terms, pixels = 576, 256
	for _, c := range []struct {
		format fp16.Format
		input  tensorcore.Input
		worst  string
		others []string
	}{
		{fp16.Float16, tensorcore.FP16, "v100", []string{"a100", "h100"}},
		{fp16.BFloat16, tensorcore.BF16, "a100", []string{"h100"}},
		{fp16.TF32, tensorcore.TF32, "a100", []string{"h100"}},
	} {
		r := rand.New(rand.NewPCG(5, 6))
		x, w := tensor.New(fp16.Float64, 1, terms, 1, pixels), tensor.New(fp16.Float64, 1, terms, 1, 1)
		for _, v := range [][]float64{x.Data, w.Data} {
			for k := range v {
				v[k] = c.format.Round(math.Abs(r.NormFloat64()))
			}
		}
		exact := Conv(x, conv.NewKernel(w, nil), conv.Params{})
		y := exact.Clone()
		n := operator.Node{Op: operator.OpConv, Weight: &operator.Param{Shape: w.Shape, Data: w.Data}}
		l := &Legal{Machine: &Machine{Nodes: []operator.Node{n}}, U: 0x1p-24, Lean: MostLean(c.format)}
		l.sums(0, &n, y, x)
		lost := func(of func(k int) float64) (mean float64) {
			for k, v := range exact.Data {
				mean += (v - of(k)) / v / pixels
			}
			return mean
		}
		leans := lost(func(k int) float64 { return y.Data[k] })
		for _, name := range append([]string{c.worst}, c.others...) {
			m, err := tensorcore.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			u, err := m.Unit(c.input, fp16.Float32)
			if err != nil {
				t.Fatal(err)
			}
			has := lost(func(k int) float64 {
				a := make([]float64, terms)
				for j := range a {
					a[j] = x.Data[j*pixels+k]
				}
				return u.Dot(a, w.Data, 0)
			})
			if has > 1.1*leans || name == c.worst && has < 0.6*leans {
				t.Errorf("%v, %s: loses %.3g of its sums, the legal device %.3g", c.format, name, has, leans)
			}
		}
	}
}
