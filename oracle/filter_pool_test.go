package oracle

import (
	"math"
	"testing"

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
		p, m := &pooled{}, match{}
		for k, c := range test.c {
			const qq, sigma = 100, 0.2
			m = match{qq: qq, rq: c * qq, c: c, sigma: sigma, t: c / sigma}
			p.steps = append(p.steps, stepMatch{k + 1, m.rq, qq, qq * sigma * qq * sigma})
			if p.together(&m); k < 2 && m.t > leastT {
				t.Errorf("%s: seen after %d steps", test.name, k+1)
			}
		}
		if seen := m.t > leastT && math.Abs(m.c-1) < amplitudeTol; seen != test.seen {
			t.Errorf("%s: amplitude %v, t %v: want seen %v", test.name, m.c, m.t, test.seen)
		} else if since := p.since(m.c); seen && since != test.since {
			t.Errorf("%s: since step %d: want %d", test.name, since, test.since)
		}
	}
}

// TestPoolLeast: what a run could not have shown is that of all its steps, and is
// added to what other gates are blind to.
func TestPoolLeast(t *testing.T) {
	h := &hypothesis{prior: 3}
	p := newPool([]report.Blind{{Name: "another"}})
	if least := p.least(h); least != 0 {
		t.Errorf("a fault that is none here: visible from %v on", least)
	}
	for range 4 {
		p.at(h, true).information += 1 / (0.5 * 0.5)
	}
	p.at(h, false).information += 1
	if least := p.least(h); math.Abs(least-leastT*0.5/2) > 1e-12 {
		t.Errorf("four steps of deviation 1/2: visible from %v on, want %v", least, leastT*0.5/2)
	}
	p.at(h, false).found = true
	if least := p.least(h); least != 0 {
		t.Errorf("a fault that was found: visible from %v on", least)
	}
}

// TestCovered: a small operator is looked at evenly, a large one where it is
// anyway.
func TestCovered(t *testing.T) {
	c := openCase(t, "convex_layer_tanh_mult")
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ side, states, steps int }{{16, 4, 3}, {16, 101, mostCovered + 1}, {2048, 101, 3}} {
		e := &evidence{c: c, op: op, states: &rollout.States{M: 1, T: test.states, H: test.side, W: test.side}}
		last := test.states - 1
		if steps := e.covered([]int{1, (1 + last) / 2, last}); len(steps) != test.steps || steps[0] != 1 || steps[len(steps)-1] != last {
			t.Errorf("%d states of %d pixels: steps %v, want %d", test.states, test.side, steps, test.steps)
		}
	}
}
