package chain

import (
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/rollout"
)

// alsoCalled are names of what is one and the same in square images, or in any.
var alsoCalled = map[string]string{
	"noise.noise-of-rows-read-as-columns": "noise.noise-transposed",
	"noise.noise-in":                      "kernel.input-rounded",
	"rollout.alpha-in-place-of-1-alpha":   "rollout.alpha-wrong",
}

// TestOthersNamed: a device that makes one step as a fault of the policy, the post-processing, the noise or the states
// has it is wrong at that step, by that fault. Those that are one and the same in an operator have the first's name.
func TestOthersNamed(t *testing.T) {
	t.Parallel()
	named, asked := map[string]bool{}, []string(nil)
	for _, of := range []struct {
		name string
		edit func(r *rig.Rig)
	}{
		{"gaussian", func(*rig.Rig) {}},
		{"multiplicative", func(r *rig.Rig) {
			*r = *rig.NewRig(t, "float32", "multiplicative", .1)
			r.Config.Normalization, r.Config.EngineBatch = rollout.ZScore, 3
		}},
		{"dropout", func(r *rig.Rig) {
			*r = *rig.NewRig(t, "float32", "dropout", .3)
			r.Config.Normalization, r.Config.Clamp = rollout.MinMax, &[2]float64{.2, .8}
		}},
		{"residual", func(r *rig.Rig) {
			r.Config.Policy, r.Config.Dt, r.Config.Clamp = rollout.Residual, .3, &[2]float64{-1.5, 1.5}
		}},
	} {
		name := of.name
		r := rig.NewRig(t, "float32", "gaussian", .1)
		of.edit(r)
		r.Size, r.Config.Timesteps, r.Config.Realizations = 10, 4, 3
		right := r.Run(nil)
		c := ofOperator(facts.Begin(r.Exam(right, true).Evidence, r.Exam(right, true).Facts))
		k := c.claim.Contracts(c.step.g)[0]
		all := slices.Concat(c.others(k), c.otherModes(k), c.narrowStates(k), c.otherDraws(k), c.around(k))
		at := slices.IndexFunc(c.places, func(p place) bool { return p.t == 3 })
		for _, o := range all {
			if base, _, _ := strings.Cut(o.ID, ":"); !share.All() && len(base)%3 != 0 {
				continue
			}
			q, err := o.At(at)
			if err != nil {
				t.Fatal(name, o.ID, err)
			}
			base, _, _ := strings.Cut(o.ID, ":")
			if q.Graph == nil || o.ID == noOperator || named[o.ID] || named[base] && base != "rollout.clamp-to" {
				continue
			}
			m := judge.Many{N: 1, At: func(int) (judge.Question, error) { return o.At(at) }}
			plain, err := m.Plain(0)
			if err != nil {
				t.Fatal(name, o.ID, err)
			}
			j, err := m.Under(plain)
			if err != nil {
				t.Fatal(name, o.ID, err)
			}
			s := *right
			s.Data = slices.Clone(right.Data)
			for m := range c.places[at].hi - c.places[at].lo {
				copy(s.At(c.places[at].lo+m, 3), j.Stored[m*s.CHW():(m+1)*s.CHW()])
			}
			if slices.Equal(s.Data, right.Data) {
				continue
			}
			if base != "rollout.clamp-to" {
				o.ID = base
			}
			asked = append(asked, o.ID)
			w := r.Exam(&s, true)
			c := ofOperator(facts.Begin(w.Evidence, w.Facts))
			f, err := c.own()
			if err == nil {
				err = c.faults(f)
			}
			if err != nil {
				t.Fatal(name, o.ID, err)
			}
			switch {
			case f.First() != at && (f.Cause == nil || f.Cause.First != at):
				t.Logf("%s: %s: first wrong step %d, %+v", name, o.ID, f.First(), f.Cause)
			case f.Cause == nil:
				t.Logf("%s: %s: no cause", name, o.ID)
			case f.Cause.ID == o.ID, strings.HasPrefix(f.Cause.ID, o.ID+":"), f.Cause.ID == alsoCalled[base]:
				named[o.ID], named[base] = true, true
			default:
				t.Logf("%s: %s: %+v", name, o.ID, f.Cause)
			}
		}
	}
	slices.Sort(asked)
	for _, id := range slices.Compact(asked) {
		if !named[id] {
			t.Errorf("%s is not named", id)
		}
	}
	t.Log(len(named), "named")
}
