package oracle

import (
	"testing"

	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestRecordedDraws: a right device whose tape has the same draws at every step, or none, has the
// wrong noise, and that speaks; with draws of its own for each step it passes.
func TestRecordedDraws(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, kind string
		of         func(r *rig.Rig, t int) *emulate.Draws
		want       report.Verdict
		id         string
	}{
		{"right", "gaussian", func(r *rig.Rig, t int) *emulate.Draws { return r.Draws(t) }, report.PassConforming, ""},
		{"right masks", "dropout", func(r *rig.Rig, t int) *emulate.Draws { return r.Draws(t) }, report.PassConforming, ""},
		{"one step's", "gaussian", func(r *rig.Rig, _ int) *emulate.Draws { return r.Draws(1) }, report.FailRNG,
			"noise.the-same-noise-at-every-step"},
		{"one step's masks", "dropout", func(r *rig.Rig, _ int) *emulate.Draws { return r.Draws(1) }, report.FailRNG,
			"noise.the-same-noise-at-every-step"},
		{"zeros", "laplace", func(r *rig.Rig, t int) *emulate.Draws {
			d := r.Draws(t)
			clear(d.Data[0])
			return d
		}, report.FailRNG, "noise.no-noise"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rig.NewRig(t, "float32", c.kind, 0.2)
			s := r.Run(func(r *rig.Rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) { *d = *c.of(r, t) })
			e := r.Exam(s, true).Evidence
			e.Stream = rollout.NewStream("tape", func(_, _, _, t int) (noise.Draws, error) { return c.of(r, t).Rewind(), nil })
			got, err := examine(e, 0, "rig")
			if err != nil {
				t.Fatal(err)
			}
			id := ""
			if len(got.Findings) > 0 {
				id = got.Findings[0].ID
			}
			if got.Verdict != c.want || id != c.id {
				t.Errorf("%s %q: want %s %q\n%s", got.Verdict, id, c.want, c.id, got.Reason)
			}
		})
	}
}
