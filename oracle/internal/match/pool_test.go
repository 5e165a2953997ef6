package match

import (
	"math"
	"testing"

	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

// TestPool: steps of which none shows a fault by itself show it together, from
// its first one on, whether or not steps before it are right.
func TestPool(t *testing.T) {
	for _, test := range []struct {
		name  string
		c     []float64 // amplitudes, each with a standard deviation of 0.2
		since int
		seen  bool
	}{
		{"from the start", []float64{1.1, 0.9, 1, 1.05, 0.95}, 1, true},
		{"from step 4", []float64{0.1, -0.1, 0, 1.1, 0.9, 1, 1.05, 0.95}, 4, true},
		{"from step 3, one of them weak", []float64{0, 0.05, 1.1, 0.45, 1.2, 0.95, 1.05, 1}, 3, true},
		{"never", []float64{0.1, -0.2, 0.2, 0.1, -0.1}, 0, false},
		{"of half the amplitude", []float64{0.5, 0.45, 0.55, 0.5, 0.5}, 0, false},
	} {
		p, m := &pooled{}, measure.Match{}
		for k, c := range test.c {
			const qq, sigma = 100, 0.2
			m = measure.Match{QQ: qq, RQ: c * qq, C: c, Sigma: sigma, T: c / sigma}
			p.steps = append(p.steps, stepMatch{k + 1, m.RQ, qq, qq * sigma * qq * sigma})
			if p.together(&m); k < 2 && m.T > measure.LeastT {
				t.Errorf("%s: seen after %d steps", test.name, k+1)
			}
		}
		if seen := m.T > measure.LeastT && math.Abs(m.C-1) < amplitudeTol; seen != test.seen {
			t.Errorf("%s: amplitude %v, t %v: want seen %v", test.name, m.C, m.T, test.seen)
		} else if since := p.since(m.C); seen && since != test.since {
			t.Errorf("%s: since step %d: want %d", test.name, since, test.since)
		}
	}
}

// TestPoolLeast: what a run could not have shown is that of all its steps, and is
// added to what other gates are blind to.
func TestPoolLeast(t *testing.T) {
	h := &trial.Fault{Row: &table.Row{}, Prior: 3}
	p := NewPool([]report.Blind{{Name: "another"}})
	if least := p.least(h); least != 0 {
		t.Errorf("a fault that is none here: visible from %v on", least)
	}
	for range 4 {
		p.At(h, true).information += 1 / (0.5 * 0.5)
	}
	p.At(h, false).information += 1
	if least := p.least(h); math.Abs(least-measure.LeastT*0.5/2) > 1e-12 {
		t.Errorf("four steps of deviation 1/2: visible from %v on, want %v", least, measure.LeastT*0.5/2)
	}
	p.At(h, false).found = true
	if least := p.least(h); least != 0 {
		t.Errorf("a fault that was found: visible from %v on", least)
	}
}

// TestCovered: a small operator is looked at evenly, a large one where it is
// anyway.
func TestCovered(t *testing.T) {
	c := rig.OpenCase(t, "convex_layer_tanh_mult")
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ side, states, steps int }{{16, 4, 3}, {16, 101, mostCovered + 1}, {2048, 101, 3}} {
		e := &evidence.Evidence{Case: c, Op: op, States: &rollout.States{M: 1, T: test.states, H: test.side, W: test.side}}
		last := test.states - 1
		if steps := Covered(e, []int{1, (1 + last) / 2, last}); len(steps) != test.steps || steps[0] != 1 ||
			steps[len(steps)-1] != last {
			t.Errorf("%d states of %d pixels: steps %v, want %d", test.states, test.side, steps, test.steps)
		}
	}
}

// TestPooledFrom: the amplitude of the steps since one, as their information weighs.
func TestPooledFrom(t *testing.T) {
	p := pooled{steps: []stepMatch{{1, 0, 4, 1}, {2, 4, 4, 1}, {3, 12, 12, 3}}}
	if m := p.From(2); m.C != 1 || m.QQ != 16 || m.Sigma != 2./16 {
		t.Errorf("from step 2: c %v, <q,q> %v, sigma %v: want 1, 16, 1/8", m.C, m.QQ, m.Sigma)
	}
	if m := p.From(1); m.C != 0.8 {
		t.Errorf("from step 1: c %v, want 16/20", m.C)
	}
	if m := p.From(4); m.QQ != 0 {
		t.Errorf("from step 4: <q,q> %v, want none", m.QQ)
	}
}
