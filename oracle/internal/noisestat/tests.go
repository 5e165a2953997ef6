package noisestat

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// noiseTests gathers what the fields of all steps say.
type noiseTests struct {
	e        *facts.Gate
	m        *Model
	total    Sums
	tails    []Sums   // over the steps from each one on
	samples  [][]Sums // [realization][step-1]
	features []*FeatureSums
	rows     []areaSums // by row, then by column, then the border and the rest
	tile     tileMax
	pairs    *pairs

	absSum, absMax, count float64
}

func newNoiseTests(e *facts.Gate, m *Model) *noiseTests {
	s := e.States
	n := &noiseTests{
		e: e, m: m, samples: make([][]Sums, s.M), rows: make([]areaSums, s.H+s.W+2), pairs: newPairs(e, len(m.Rows)),
	}
	for i := range n.samples {
		n.samples[i] = make([]Sums, s.T-1)
	}
	return n
}

// add takes a step.
func (n *noiseTests) add(u *Unseen, st *UnseenStep) {
	f := st.F
	var square, peak, pixels float64
	for i := range f.n {
		s := &f.Sums[i]
		n.total.Add(s)
		n.samples[st.Lo+i][st.Step-1] = *s
		square += s.square
		pixels += s.pixels
		peak = max(peak, s.largest)
		n.areas(f, st, i, u.Low)
		n.pairs.keep(f, i, st.Lo+i, st.Step)
	}
	for i, feat := range u.Features(st) {
		if i == len(n.features) {
			n.features = append(n.features, &FeatureSums{Name: feat.Name})
		}
		n.features[i].Against(f, n.m, st.Step, u.Low/2, feat.At)
	}
	for _, v := range st.Resid {
		a := math.Abs(v)
		n.absSum += a
		n.absMax = max(n.absMax, a)
		n.count++
	}
	row := n.row(st.Step)
	row.MaxAbs = max(row.MaxAbs, diff.Number(maxAbs(st.Resid)))
	row.Peak = max(row.Peak, diff.Number(peak))
	share := diff.Number(float64(st.X.N()) / float64(n.e.States.M))
	row.MeanAbs += share * diff.Number(meanAbs(st.Resid))
	row.R64 += share * diff.Number(measure.Ratio(square, pixels*float64(f.K)))
}

// row returns the report's row of a step.
func (n *noiseTests) row(t int) *report.StepRow {
	r := n.e.Report
	for i := range r.Steps {
		if r.Steps[i].Step == t {
			return &r.Steps[i]
		}
	}
	r.Steps = append(r.Steps, report.StepRow{Step: t})
	return &r.Steps[len(r.Steps)-1]
}

func maxAbs(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}

func meanAbs(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += math.Abs(v)
	}
	return measure.Ratio(s, float64(len(x)))
}

// suspicion is something that noise of the specified kind does not do.
type suspicion struct {
	name, text string
	z          float64
	step, m    int // the first; -1 if it shows only over all
}

// judge turns sums into tests, findings and blind spots.
func (n *noiseTests) judge(u *Unseen) {
	r, k := n.e.Report, len(n.m.Rows)
	level := n.total.Level(k)
	r.OneStep = report.StepError{MaxAbs: diff.Number(n.absMax), MeanAbs: diff.Number(measure.Ratio(n.absSum, n.count)),
		RMSOverExpected: diff.Number(math.Sqrt(level))}
	if !(n.total.pixels > 0) {
		n.e.Find(report.Finding{
			Verdict: report.NoPower, Gate: "noise", Step: -1, Realization: -1, Excess: 1, Text: "at every pixel " +
				"a clamp may have touched the states, or the noise is not larger than roundings: it shows nothing",
		})
		return
	}
	// The mean of |x| of a normal x is its deviation over 1.2533, the root of pi/2.
	std := measure.Ratio(measure.Ratio(n.absSum, n.count)*1.2533, math.Sqrt(max(level, 1e-300)))
	r.Expected = report.StepError{MeanAbs: diff.Number(std / 1.2533),
		MaxAbs: diff.Number(std * math.Sqrt(2*elem.Log(max(n.count, 2)))), RMSOverExpected: 1}
	logic := n.strange(u)
	same, strong := n.pairs.judge(n, u)
	near := n.neighbours(u)
	if strong && near == nil && level > u.Low/2 && level < 2*u.High {
		// Noise that comes again is in the state before, too: it goes with it.
		logic = nil
	}
	mean, isNoise := n.mean(u)
	if mean != nil && !isNoise && !strong {
		logic = append(logic, *mean)
		mean = nil
	}
	// In the order of what explains the rest: noise that comes again makes every
	// other statistic wrong, one that is wrong in space says least.
	var odd []suspicion
	if strong {
		odd = append(odd, same...)
	}
	if mean != nil {
		odd = append(odd, *mean)
	}
	shape, scales, others := n.shape(u), n.scales(u), n.distribution(u)
	if len(shape) > 0 && len(scales) > 0 {
		shape[0].step = scales[0].step
	}
	if n.m.seen() && math.Abs(n.total.size(k)-1) < 0.1 {
		scales, others = others, scales // of draws made normal as if they were Laplace's
	}
	odd = slices.Concat(odd, shape, scales)
	if !strong {
		odd = append(odd, same...)
	}
	n.tell(logic, slices.Concat(odd, others, near))
	n.blind(u)
}

// tell reports what is no noise, or else the first of what is odd about it.
func (n *noiseTests) tell(logic, odd []suspicion) {
	switch {
	case len(logic) > 0:
		w := worstSuspicion(logic)
		n.e.Find(report.Finding{Verdict: report.FailLogic,
			Gate: "noise", Step: w.step, Realization: w.m, Excess: diff.Number(math.Abs(w.z) / measure.ZLimit(1)),
			Text: "what a step has more than the operator makes of the state before is not noise: " + w.text})
	case len(odd) > 0:
		o := odd[0]
		n.e.Find(report.Finding{Verdict: report.FailRNG, Gate: "noise", Step: o.step, Realization: o.m, ID: o.name,
			Excess: diff.Number(math.Abs(o.z) / measure.ZLimit(1)), Text: o.text})
	default:
		n.e.Report.Contract = "right within its noise, whose stream is unknown"
	}
}

func worstSuspicion(all []suspicion) suspicion {
	w := all[0]
	for _, s := range all {
		if w.step < 0 && s.step >= 0 || s.step >= 0 && s.step < w.step || s.step == w.step && math.Abs(s.z) > math.Abs(w.z) {
			w = s
		}
	}
	return w
}

// test adds a row to the report and says whether it is right.
func (n *noiseTests) test(name string, value, want, z, limit float64) bool {
	ok := math.Abs(z) <= limit
	n.e.Report.Noise.Tests = append(n.e.Report.Noise.Tests,
		report.NoiseTest{Name: name, Value: diff.Number(value), Want: diff.Number(want), Z: diff.Number(z), OK: ok})
	return ok
}

// strange holds the fields against what is known before the noise is drawn, and
// looks whether some part of the image has more of them.
func (n *noiseTests) strange(u *Unseen) []suspicion {
	var all []suspicion
	s := n.e.States
	limit := measure.ZLimit(float64(len(n.features) * (s.T + 1)))
	worst, worstZ := "", 0.0
	for i, f := range n.features {
		slackAll, slackOne := u.Slack(i, f)
		if z := f.Coherent(); math.Abs(z) > limit+slackAll {
			all = append(all, suspicion{text: fmt.Sprintf("it goes with %s, by %.1f standard deviations over all steps",
				f.Name, math.Abs(z)), z: z, step: -1, m: -1})
		}
		if z := f.Coherent(); math.Abs(z) > math.Abs(worstZ) {
			worst, worstZ = f.Name, z
		}
		if z := chiZ(f.squares/(1+float64(slackOne*slackOne)), f.n); z > limit {
			all = append(all, suspicion{text: fmt.Sprintf("it goes with %s, here more and there less (%.1f standard "+
				"deviations)", f.Name, z), z: z, step: -1, m: -1})
		}
		for t := 1; t < s.T; t++ {
			if z := measure.Ratio(f.stepNum[t], math.Sqrt(f.stepDen[t])); math.Abs(z) > limit+slackOne*math.Sqrt(float64(s.M)) {
				all = append(all, suspicion{text: fmt.Sprintf("at step %d it goes with %s, by %.1f standard deviations",
					t, f.Name, math.Abs(z)), z: z, step: t, m: 0})
				break
			}
		}
	}
	n.test("correlation with "+worst, 0, 0, worstZ, limit)
	wide := n.wide()
	areas := measure.ZLimit(float64(len(n.rows)))
	most, room := 0.0, areas
	for i := range n.rows {
		if z := n.rows[i].z(n.k(), n.m.excess()) / wide; math.Abs(z) > areas+u.loose(n.rows[i].pixels) {
			most, room = z, areas
			all = append(all, suspicion{text: fmt.Sprintf("it is not as large in %s as elsewhere (%.1f standard "+
				"deviations)", n.areaName(i), z), z: z, step: -1, m: -1})
		} else if math.Abs(z) > math.Abs(most) {
			most, room = z, areas+u.loose(n.rows[i].pixels)
		}
	}
	n.test("size by row, column and border", 1, 1, most, room)
	n.tile.z /= wide
	if limit := measure.ZLimit(n.tile.tilesTested); !n.test("largest tile of 8x8 pixels", 1, 1, n.tile.z,
		limit+u.loose(64)) {
		all = append(all, suspicion{text: fmt.Sprintf(
			"at step %d it is larger in the tile at row %d, column %d of realization %d (%.1f standard deviations)",
			n.tile.step, n.tile.y, n.tile.x, n.tile.m, n.tile.z,
		), z: n.tile.z, step: n.tile.step, m: n.tile.m})
	}
	return all
}

// wide returns by how many times the deviation of |z|^2 is larger than that of noise
// as specified, if the outputs are mixed otherwise: with the covariance C it is
// 2 tr(C^2) for the mean tr(C), so that the ratio of their deviations is
// sqrt(k tr(C^2)) / tr(C), 1 for C = I. Channels that share one field have sqrt(k).
func (n *noiseTests) wide() float64 {
	trace, squares, k := 0.0, 0.0, n.k()
	for i, v := range n.total.cov {
		squares += float64(v * v)
		if i%(k+1) == 0 {
			trace += v
		}
	}
	return max(1, measure.Ratio(math.Sqrt(float64(k)*squares), trace))
}

func (n *noiseTests) k() int { return len(n.m.Rows) }

// statistic is a number of noise sums with its standard deviations from what it
// should be, and how many more of them roundings may cause.
type statistic struct{ value, z, slack float64 }

// since returns the sums over the steps from t on.
func (n *noiseTests) since(t int) *Sums {
	if n.tails == nil {
		n.tails = make([]Sums, n.e.States.T+1)
		for u := n.e.States.T - 1; u > 0; u-- {
			n.tails[u].Add(&n.tails[u+1])
			for m := range n.samples {
				n.tails[u].Add(&n.samples[m][u-1])
			}
		}
	}
	return &n.tails[t]
}

// from tests a statistic over all steps and, since a fault may begin late, over
// the steps from each one on. It returns the start at which it is worst, 0 if it
// is right everywhere.
func (n *noiseTests) from(name string, want float64, f func(s *Sums, t int) statistic) (start int, worst statistic) {
	limit := measure.ZLimit(4 * float64(n.e.States.T))
	for t := 1; t < n.e.States.T; t++ {
		s := f(n.since(t), t)
		if over, most := math.Abs(s.z)-s.slack, math.Abs(worst.z)-worst.slack; t == 1 || over > max(most, limit) {
			worst = s
			if over > limit {
				start = t
			}
		}
	}
	n.test(name, worst.value, want, worst.z, limit+worst.slack)
	return start, worst
}

// about says in words where a fault that begins at a start begins.
func about(start int) string {
	if start <= 1 {
		return ""
	}
	return fmt.Sprintf("; it begins at about step %d", start)
}
