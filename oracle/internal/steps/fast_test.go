package steps

import (
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// offBy makes activations of a device wrong by up to a share of each number, which is a function of that number.
func offBy(b *stepBench, d *emulate.Device, share float64) {
	disturb := d.Perturb
	d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
		disturb(i, y, in)
		if n := b.gate.e.Machine.Nodes[i]; n.Op == operator.OpAct && n.Act != act.Identity {
			for k, v := range y.Data {
				y.Data[k] = v * (1 + share*(float64(measure.Mix64(math.Float64bits(v))%1001)/500-1))
			}
		}
	}
}

// TestFastExponentials: an activation by a fast exponential is found in large planes too, whose statistics a right
// device may have added up one number after another; and a right device with all that is inexact at once passes.
func TestFastExponentials(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0x1p-22, 0x1p-18} {
		b := pointwise(t, "silu", 1)
		b.gate.e.States.H, b.gate.e.States.W = 48, 48
		b.device = func(int) *emulate.Device {
			d := b.gate.device(b.gate.claim, 1, &emulate.Legal{
				Machine: b.gate.e.Machine, U: b.gate.u, Lambda: 1, Whole: true, Blocks: true, Member: 1 << 30,
			})
			offBy(b, d, share)
			return d
		}
		if r := b.check(); failed(r) != (share > 0x1p-20) {
			t.Errorf("off by %.3g: %v, RMS %.3g", share, r.Findings, r.OneStep.RMSOverExpected)
		}
	}
}

func failed(r *report.Report) bool {
	return slices.ContainsFunc(r.Findings, func(f report.Finding) bool { return f.Verdict.Failed() })
}
