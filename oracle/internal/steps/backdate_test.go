package steps

import (
	"testing"

	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/internal/match"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// TestBackdate: a fault that was named at one step is that of all steps before
// that have it, up to one that has not.
func TestBackdate(t *testing.T) {
	t.Parallel()
	r := rig.NewRig(t, "float16", "gaussian", 0.01)
	h := fault.Library()[0]
	s := r.Run(rig.From(4, func(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
		m := emulate.New(r.Op, r.Config)
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if !emulate.IsAct(&m.Nodes[i]) {
				return nil, nil
			}
			y := tensor.Like(in[0])
			act.Forward(y, in[0], act.GELUTanh)
			return y, nil
		}
	}))
	of := r.Exam(s, true)
	g := newStepGate(of.Evidence, of.Facts)
	e := g.e
	e.Pool = match.NewPool(nil)
	if _, _, err := g.measureAll(); err != nil {
		t.Fatal(err)
	}
	e.Found = []report.Finding{{Verdict: report.FailPrecision, Gate: "filter", Step: 7}}
	if err := g.backdate(0, &match.Tried{H: h, Scope: trial.Everywhere, Near: true, Match: measure.Match{C: 1}}); err !=
		nil {
		t.Fatal(err)
	}
	if f := e.Found[0]; f.Step != 4 {
		t.Errorf("%s since step %d: want 4", h.Name, f.Step)
	}
}
