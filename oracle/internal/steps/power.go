package steps

import (
	"fmt"
	"math"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// What a step must show for a pass to mean anything.
const (
	leastOfCoarse = 4    // in units of the rounding errors of a coarse claim
	leastOfFine   = 1    // or of what is sold for a fine one
	leastOfOutput = 0.25 // of the standard deviation of the output
)

// seen is what errors of the operator a step can show.
type seen struct {
	least  float64 // RMS error of the states from which on the step is judged wrong
	errors float64 // RMS of what the operator's errors make of the states (see rival)
	output float64 // RMS of what its output does to them, without the mean of each channel
	share  float64 // of the output in the state, such as 1-alpha
	live   float64 // share of the numbers that are not at the ends of a clamp
}

// enough reports whether such a step could show a fault of the operator.
func (s seen) enough(p emulate.Pattern) bool {
	most := float64(leastOfFine)
	if p.Discrete() {
		most = leastOfCoarse
	}
	return s.least <= most*s.errors && s.least <= leastOfOutput*s.output
}

// rival returns the mode whose errors a step must show at the least: those of a
// coarse claim itself, or of what is sold for a fine one, TF32 for float32.
func (g *stepGate) rival() (graph.Mode, error) {
	switch m := g.claim.Mode; m.Precision {
	case fp16.Float64:
		return graph.ParseMode("float32", "")
	case fp16.Float32:
		return graph.ParseMode("tf32", "")
	default:
		return m, nil
	}
}

// power says where nothing could have been seen. The last step is asked first,
// and then the other ones with ensembles.
func (g *stepGate) power(all []*stepFigures, last *measured) error {
	elements := 0.0
	for _, f := range all {
		elements += f.count
	}
	blind := func(format string, a ...any) error {
		g.e.Find(report.Finding{
			Verdict: report.NoPower, Gate: "statistics", Step: -1, Realization: -1, Text: fmt.Sprintf(format, a...),
		})
		return nil
	}
	exact, n := 0, 0
	for i, v := range last.Got {
		if measure.Finite(v) {
			n++
			if v == last.X.Data[i] || v == 0 {
				exact++
			}
		}
	}
	switch {
	case elements == 0:
		return blind("no number of any step is finite")
	case elements < evidence.FewestNumbers:
		return blind("%.0f numbers in all steps: too few to tell rounding from a fault; want %d",
			elements, evidence.FewestNumbers)
	case n == 0 || float64(exact) > 0.95*float64(n):
		return blind("%d of %d numbers of the last step are zero or have not changed: the field is dead or saturated",
			exact, n)
	}
	s, err := g.seen(last)
	if err != nil || s.enough(g.claim) {
		return err
	}
	for _, t := range g.fullSteps() {
		if g.e.Late(fmt.Sprintf("what errors step %d could have shown", t)) {
			break
		}
		m, err := g.measureStep(0, t)
		if err != nil {
			return err
		}
		if other, err := g.seen(m); err != nil || other.enough(g.claim) {
			return err
		}
	}
	why, err := g.why(last, s)
	if err != nil {
		return err
	}
	rival, _ := g.rival()
	return blind("errors of the states show from %.2g on, where those of the operator in %v are %.2g and its whole "+
		"output changes them by %.2g: %s", s.least, rival.Precision, s.errors, s.output, why)
}

// undone is the chance with which roundings that may be as far from the pattern's as a limit undo what a fault does, so
// that this share of the limit is left. A device whose numbers are the pattern's own has no fault that is twice what is
// left of them, however many of its pixels could have been rounded the other way together.
const undone = 1e-3

// seen measures what a step can show. Numbers at the ends of a clamp show
// nothing, and count as right.
func (g *stepGate) seen(m *measured) (seen, error) {
	rival, err := g.rival()
	if err != nil {
		return seen{}, err
	}
	_, o, err := g.emulation(m.BatchStep, emulate.Contract(g.e.Machine.Nodes, g.e.Case.Rollout, rival))
	if err != nil {
		return seen{}, err
	}
	exact, err := g.exact(m.BatchStep, g.claim.Mode, nil)
	if err != nil {
		return seen{}, err
	}
	s := seen{share: g.e.OutputShare()}
	var sizes, errors, count, live, left float64
	for i, v := range m.truth {
		d := o.Data[i] - exact.Data[i]
		if !measure.Finite(v) || !measure.Finite(d) || !(m.s[i] > 0) {
			continue
		}
		count++
		if c := g.e.Case.Rollout.Clamp; c != nil && (v <= c[0] || v >= c[1]) {
			continue
		}
		live++
		left += float64(m.r[i] * m.r[i])
		sizes += float64(m.s[i] * m.s[i])
		errors += float64(d * d)
	}
	if live == 0 {
		return s, nil
	}
	var varies float64
	for p := range exact.N() * exact.C() {
		_, v := measure.Moments(exact.Plane(p/exact.C(), p%exact.C()))
		varies += v / float64(exact.N()*exact.C())
	}
	stretch := g.stretch(m, exact)
	s.live = live / count
	limit := g.h0.at(m.alike, m.of).limit(measure.InAll, count) * count / live
	if left /= live; left <= undone*undone*limit {
		limit = 4 * left
	}
	s.least = math.Sqrt(limit * sizes / live)
	s.errors, s.output = s.share*stretch*math.Sqrt(errors/live), s.share*stretch*math.Sqrt(varies)
	return s, nil
}

// stretch returns by how much a normalization of the states stretches the sum
// of state and output.
func (g *stepGate) stretch(m *measured, o *tensor.Tensor) float64 {
	c := g.e.Case.Rollout
	if c.Normalization == rollout.NoNormalization {
		return 1
	}
	c.Normalization, c.Clamp = rollout.NoNormalization, nil
	before := c.Advance(m.X, o, fp16.Float64, graph.Mode{Precision: fp16.Float64})
	return measure.Ratio(diff.Std(m.truth), diff.Std(before.Data))
}

// why says what hides the operator: the policy, or norms of inputs that are
// nearly constant, where roundings are large beside what varies.
func (g *stepGate) why(m *measured, s seen) (string, error) {
	var all []string
	if s.share < 0.01 {
		all = append(all, fmt.Sprintf("the policy takes %.3g of the output into the state", s.share))
	}
	kappa, level := 0.0, math.Inf(1) // the largest |mean|/std, the least variance over eps
	d := &emulate.Device{Mode: g.claim.Mode, Perturb: func(i int, _ *tensor.Tensor, in []*tensor.Tensor) {
		n := &g.e.Machine.Nodes[i]
		if n.Op != operator.OpNorm || n.Norm == "batch" {
			return
		}
		size := len(in[0].Data) / in[0].N() / n.Groups
		for at := 0; at < len(in[0].Data); at += size {
			mean, v := measure.Moments(in[0].Data[at : at+size])
			kappa, level = max(kappa, measure.Ratio(math.Abs(mean), math.Sqrt(v))), min(level, v/n.Eps)
		}
	}}
	if _, err := g.e.Machine.Operator(d, m.X, m.Draws.Rewind()); err != nil {
		return "", err
	}
	if kappa > 100 {
		all = append(all, fmt.Sprintf("the mean of a norm's input is %.3g standard deviations", kappa))
	}
	if level < 1 {
		all = append(all, fmt.Sprintf("the variance of a norm's input is %.3g eps", level))
	}
	if s.live < 0.9 {
		all = append(all, fmt.Sprintf("%.0f %% of the numbers lie at the clamp's ends", 100*(1-s.live)))
	}
	if all == nil {
		return "correct devices differ by so much here", nil
	}
	return strings.Join(all, "; "), nil
}
