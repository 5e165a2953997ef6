package steps

import (
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// TestElementary: a device that stores the elementary operations of its activations, and products before their bias, as
// JAX does on a CPU, is right, and the report says so; another activation in such operations is wrong.
func TestElementary(t *testing.T) {
	t.Parallel()
	f := fp16.BFloat16
	silu := func(by float64) func(x float64) float64 {
		return func(x float64) float64 { return x * f.Round(1/f.Round(1+f.Round(math.Exp(-by*x)))) }
	}
	for _, c := range []struct {
		name, act string
		of        func(x float64) float64
		right     bool
	}{
		{"silu", "silu", silu(1), true},
		{"swish of 1.05", "silu", silu(1.05), false},
		{"gelu", "gelu", func(x float64) float64 { return x / 2 * f.Round(math.Erfc(x*f.Round(-math.Sqrt2/2))) }, true},
		{"ReLU", "gelu", func(x float64) float64 { return max(x, 0) }, false},
	} {
		b := newStepBench(t, "bfloat16", "cpu", "none", convex(.3))
		b.unnamed = true
		b.build(operator.Config{InputChannels: 3, Nodes: []operator.NodeConfig{
			{Op: "conv", Name: "a", OutChannels: 8, KernelSize: 3, PaddingMode: "zeros"},
			{Op: "act", Name: "t", Activation: c.act},
			{Op: "conv", Name: "out", OutChannels: 3, KernelSize: 1, PaddingMode: "zeros"},
		}}, "none")
		b.wide()
		for i := range b.gate.e.Machine.Nodes {
			if bias := b.gate.e.Machine.Nodes[i].Bias; bias != nil {
				for k := range bias.Data { // which the first of an operator are not
					bias.Data[k] = fp16.Float32.Round(.3 * math.Sin(float64(3*k+i)))
				}
			}
		}
		b.device = func(int) *emulate.Device {
			p := b.gate.claim
			p.Points = p.Points&^(emulate.AtOut|emulate.AtShare) | emulate.AtBias
			d := b.correct(p, 1)
			sums := d.Perturb
			d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
				if !emulate.IsAct(&b.gate.e.Machine.Nodes[i]) { // whose product of two half numbers is exact, and may be a tie
					sums(i, y, in)
				}
			}
			d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if !emulate.IsAct(&b.gate.e.Machine.Nodes[i]) {
					return nil, nil
				}
				y := tensor.Like(in[0])
				for k, x := range in[0].Data {
					y.Data[k] = c.of(x)
				}
				return y, nil
			}
			return d
		}
		r := b.check()
		const how = "operations in elementary ones"
		if right := len(r.Findings) == 0; right != c.right || right && !strings.Contains(r.Contract, how) {
			t.Errorf("%s: contract %q, findings %v: want right %v", c.name, r.Contract, r.Findings, c.right)
		}
	}
}
