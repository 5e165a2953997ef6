package match

import (
	"math"
	"slices"

	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
)

// pool collects over the steps of a check what they say about the faults that
// are looked for in each.
type pool struct {
	of       map[poolKey]*pooled
	refuted  map[int]bool   // by the last step that looked for them
	steps    int            // that were looked at
	searched bool           // a wrong step
	Named    *Tried         // what was found there; nil for nothing
	work     int64          // multiplications with weights so far
	Blind    []report.Blind // what other gates could not see
}

type poolKey struct {
	prior int
	near  bool
}

// NewPool has blind spots of other gates.
func NewPool(blind []report.Blind) *pool {
	return &pool{of: map[poolKey]*pooled{}, refuted: map[int]bool{}, Blind: blind}
}

// pooled is what the steps say about one fault in one view.
type pooled struct {
	steps       []stepMatch
	information float64 // sum of 1/sigma^2, as far as steps are right
	found       bool
}

type stepMatch struct {
	step             int
	rq, qq, variance float64
}

// Covered returns the steps at which faults that need not show are looked for,
// of T-1: some of them, evenly, or, if the work is large, those that are looked
// at anyway.
func Covered(e *evidence.Evidence, full []int) []int {
	steps := slices.Clone(full)
	last, c := e.States.T-1, e.Case.Rollout
	batch := c.EngineBatches()[0]
	if e.Op.MACs(e.States.H, e.States.W)*int64(batch[1]-batch[0]) <= evidence.LargeForward/mostCovered {
		n := min(last, mostCovered)
		for k := range n {
			steps = append(steps, 1+k*(last-1)/max(n-1, 1))
		}
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

const mostCovered = 8 // steps, of a small operator

// At returns what is pooled of a fault, around the emulation or around the exact step.
func (p *pool) At(h *trial.Fault, near bool) *pooled {
	key := poolKey{h.Prior, near}
	if p.of[key] == nil {
		p.of[key] = &pooled{}
	}
	return p.of[key]
}

// refute notes that a step has not got a fault. What steps before it say of one is of no step after it.
func (p *pool) refute(h *trial.Fault) {
	p.refuted[h.Prior] = true
	for _, near := range []bool{false, true} {
		p.At(h, near).steps = nil
	}
}

// add takes in what a step says.
func (p *pooled) add(step int, m *measure.Match) {
	p.steps = append(p.steps, stepMatch{step, m.RQ, m.QQ, float64(m.QQ*m.Sigma) * float64(m.QQ*m.Sigma)})
}

// together makes the match of the last step that of all steps since one: their
// amplitudes weigh as their <q,q>. A fault may begin at any step, so it is the
// one since when its own amplitude, 1, shows best, if it does. together returns
// the first of the steps that were taken, 0 if m says most by itself.
func (p *pooled) together(m *measure.Match) (first int) {
	var rq, qq, variance float64
	for k := len(p.steps) - 1; k >= 0; k-- {
		s := p.steps[k]
		rq, qq, variance = rq+s.rq, qq+s.qq, variance+s.variance
		c, sigma := rq/qq, math.Sqrt(variance)/qq
		if t := c / sigma; math.Abs(c-1) < amplitudeTol && t > m.T {
			m.C, m.Sigma, m.T, first = c, sigma, t, s.step
		}
	}
	return first
}

// From returns the amplitude of all steps from one on; its qq is 0 if there are
// none.
func (p *pooled) From(step int) (m measure.Match) {
	var variance float64
	for _, s := range p.steps {
		if s.step >= step {
			m.RQ, m.QQ, variance = m.RQ+s.rq, m.QQ+s.qq, variance+s.variance
		}
	}
	if m.QQ > 0 {
		m.C, m.Sigma = m.RQ/m.QQ, math.Sqrt(variance)/m.QQ
	}
	return m
}

// since returns the first of the steps, up to the last, that have amplitude c and
// not 0. The likelihood of normal amplitudes a says which: each step more adds
// (a/sigma)^2 - ((a-c)/sigma)^2 to twice its logarithm. One that fits neither ends
// them.
func (p *pooled) since(c float64) int {
	first, sum, most := 0, 0.0, math.Inf(-1)
	for k := len(p.steps) - 1; k >= 0; k-- {
		s := p.steps[k]
		a, sigma := s.rq/s.qq, math.Sqrt(s.variance)/s.qq
		if d := a - c; k < len(p.steps)-1 && math.Abs(d) > 4*sigma {
			break
		}
		if sum += c * (2*a - c) / (sigma * sigma); sum > most {
			first, most = s.step, sum
		}
	}
	return first
}

// least returns the smallest amplitude of a fault that the steps so far would
// have shown, 0 if it was found, or is none for this operator.
func (p *pool) least(h *trial.Fault) float64 {
	information := 0.0
	for _, near := range []bool{false, true} {
		if q := p.of[poolKey{h.Prior, near}]; q != nil {
			if q.found {
				return 0
			}
			information = max(information, q.information)
		}
	}
	if information == 0 {
		return 0
	}
	return measure.LeastT / math.Sqrt(information)
}
