package noisestat

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/noise"
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

// areaSums are squares over a part of the image.
type areaSums struct{ square, pixels, self float64 }

// tileMax is the tile of 8x8 pixels that holds the largest squares.
type tileMax struct {
	z           float64
	step, m     int
	y, x        int
	tilesTested float64
}

func newNoiseTests(e *facts.Gate, m *Model) *noiseTests {
	s := e.States
	n := &noiseTests{e: e, m: m, samples: make([][]Sums, s.M), rows: make([]areaSums, s.H+s.W+2), pairs: newPairs(e, len(m.Rows))}
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

// areas adds the squares of sample i to its rows, columns and border, and looks
// for the tile that has most.
func (n *noiseTests) areas(f *Field, st *UnseenStep, i int, low float64) {
	const side = 8
	s := &f.Sums[i]
	level := s.Level(f.K) // of the whole sample
	if !(level > low/2) {
		return // there is no noise, and roundings have a shape of their own
	}
	self := s.self / s.pixels
	tiles := make([]areaSums, ((f.h+side-1)/side)*((f.w+side-1)/side))
	across := (f.w + side - 1) / side
	for p := range f.h * f.w {
		at := i*f.h*f.w + p
		if !f.ok[at] {
			continue
		}
		z := f.Z[at*f.K : (at+1)*f.K]
		q := measure.Dot(z, z)
		y, x := p/f.w, p%f.w
		where := f.h + f.w
		if !border(p, f.h, f.w) {
			where++
		}
		for _, a := range []*areaSums{&n.rows[y], &n.rows[f.h+x], &n.rows[where], &tiles[y/side*across+x/side]} {
			a.square += q / level
			a.pixels++
			a.self += self
		}
	}
	for j := range tiles {
		n.tile.tilesTested++
		if z := tiles[j].z(f.K, n.m.excess()); z > n.tile.z {
			n.tile.z, n.tile.step, n.tile.m, n.tile.y, n.tile.x = z, st.Step, st.Lo+i, j/across*side, j%across*side
		}
	}
}

// z returns how far the sum of squares is from its expectation, in standard
// deviations: |z|^2 of a pixel has mean k and variance 2k + kappa sum |v|^4.
func (a *areaSums) z(k int, kappa float64) float64 {
	mean := float64(k) * a.pixels
	dof := 2 * mean * mean / (2*mean + float64(kappa*a.self))
	return chiZ(a.square*measure.Ratio(dof, mean), dof)
}

// scaleZ is z for squares whose variance is at least low and at most high.
func (s *Sums) scaleZ(k int, kappa, low, high float64) float64 {
	a := areaSums{s.square / high, s.pixels, s.self}
	b := areaSums{s.square / low, s.pixels, s.self}
	if z := a.z(k, kappa); z > 0 {
		return z
	}
	return min(b.z(k, kappa), 0)
}

// Level is the variance of z.
func (s *Sums) Level(k int) float64 { return measure.Ratio(s.square, s.pixels*float64(k)) }

// size is the variance of z as the device has it, before draws were made normal.
func (s *Sums) size(k int) float64 { return measure.Ratio(s.raw, s.pixels*float64(k)) }

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
	r.OneStep = report.StepError{MaxAbs: diff.Number(n.absMax), MeanAbs: diff.Number(measure.Ratio(n.absSum, n.count)), RMSOverExpected: diff.Number(math.Sqrt(level))}
	if !(n.total.pixels > 0) {
		n.e.Find(report.Finding{Verdict: report.NoPower, Gate: "noise", Step: -1, Realization: -1, Excess: 1, Text: "at every pixel a clamp may have touched the states, or the noise is not larger than roundings: it shows nothing"})
		return
	}
	// The mean of |x| of a normal x is its deviation over 1.2533, the root of pi/2.
	std := measure.Ratio(measure.Ratio(n.absSum, n.count)*1.2533, math.Sqrt(max(level, 1e-300)))
	r.Expected = report.StepError{MeanAbs: diff.Number(std / 1.2533), MaxAbs: diff.Number(std * math.Sqrt(2*elem.Log(max(n.count, 2)))), RMSOverExpected: 1}
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
	odd = slices.Concat(odd, others, near)
	switch {
	case len(logic) > 0:
		w := worstSuspicion(logic)
		n.e.Find(report.Finding{Verdict: report.FailLogic, Gate: "noise", Step: w.step, Realization: w.m, Excess: diff.Number(math.Abs(w.z) / measure.ZLimit(1)),
			Text: "what a step has more than the operator makes of the state before is not noise: " + w.text})
	case len(odd) > 0:
		o := odd[0]
		n.e.Find(report.Finding{Verdict: report.FailRNG, Gate: "noise", Step: o.step, Realization: o.m, ID: o.name, Excess: diff.Number(math.Abs(o.z) / measure.ZLimit(1)), Text: o.text})
	default:
		r.Contract = "right within its noise, whose stream is unknown"
	}
	n.blind(u)
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
	n.e.Report.Noise.Tests = append(n.e.Report.Noise.Tests, report.NoiseTest{Name: name, Value: diff.Number(value), Want: diff.Number(want), Z: diff.Number(z), OK: ok})
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
			all = append(all, suspicion{text: fmt.Sprintf("it goes with %s, by %.1f standard deviations over all steps", f.Name, math.Abs(z)), z: z, step: -1, m: -1})
		}
		if z := f.Coherent(); math.Abs(z) > math.Abs(worstZ) {
			worst, worstZ = f.Name, z
		}
		if z := chiZ(f.squares/(1+float64(slackOne*slackOne)), f.n); z > limit {
			all = append(all, suspicion{text: fmt.Sprintf("it goes with %s, here more and there less (%.1f standard deviations)", f.Name, z), z: z, step: -1, m: -1})
		}
		for t := 1; t < s.T; t++ {
			if z := measure.Ratio(f.stepNum[t], math.Sqrt(f.stepDen[t])); math.Abs(z) > limit+slackOne*math.Sqrt(float64(s.M)) {
				all = append(all, suspicion{text: fmt.Sprintf("at step %d it goes with %s, by %.1f standard deviations", t, f.Name, math.Abs(z)), z: z, step: t, m: 0})
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
			all = append(all, suspicion{text: fmt.Sprintf("it is not as large in %s as elsewhere (%.1f standard deviations)", n.areaName(i), z), z: z, step: -1, m: -1})
		} else if math.Abs(z) > math.Abs(most) {
			most, room = z, areas+u.loose(n.rows[i].pixels)
		}
	}
	n.test("size by row, column and border", 1, 1, most, room)
	n.tile.z /= wide
	if limit := measure.ZLimit(n.tile.tilesTested); !n.test("largest tile of 8x8 pixels", 1, 1, n.tile.z, limit+u.loose(64)) {
		all = append(all, suspicion{text: fmt.Sprintf("at step %d it is larger in the tile at row %d, column %d of realization %d (%.1f standard deviations)", n.tile.step, n.tile.y, n.tile.x, n.tile.m, n.tile.z), z: n.tile.z, step: n.tile.step, m: n.tile.m})
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

func (n *noiseTests) areaName(i int) string {
	s := n.e.States
	switch {
	case i < s.H:
		return fmt.Sprintf("row %d", i)
	case i < s.H+s.W:
		return fmt.Sprintf("column %d", i-s.H)
	case i == s.H+s.W:
		return "the border"
	}
	return "the interior"
}

// loose widens a limit for the squares of that many pixels where roundings are
// not small: their share of the variance may differ from place to place.
func (u *Unseen) loose(pixels float64) float64 {
	share := max(1-u.Low, u.High-1)
	return share * math.Sqrt(pixels*float64(len(u.M.Rows))/2)
}

// scales tests how large the noise is: over all, by step and by realization.
func (n *noiseTests) scales(u *Unseen) []suspicion {
	s, k, kappa := n.e.States, n.k(), n.m.excess()
	level := n.total.size(k)
	z := n.total.scaleZ(k, kappa, u.Low, u.High)
	whole := n.test("scale of the noise", math.Sqrt(level), 1, z, measure.ZLimit(1))
	limit := measure.ZLimit(float64(s.T + s.M))
	first, wrong, worst := 0, 0, 0.0
	begin, most := -1, 0.0 // from where on the steps together are worst
	for t := 1; t < s.T; t++ {
		if z := math.Abs(n.since(t).scaleZ(k, kappa, u.Low, u.High)); z > max(most, limit) {
			begin, most = t, z
		}
		var sum Sums
		for m := range s.M {
			sum.Add(&n.samples[m][t-1])
		}
		if z := sum.scaleZ(k, kappa, u.Low, u.High); math.Abs(z) > limit {
			if first == 0 {
				first = t
			}
			wrong++
			worst = z
		} else if wrong == 0 && math.Abs(z) > math.Abs(worst) {
			worst = z
		}
	}
	n.test("scale by step", math.Sqrt(level), 1, worst, limit)
	if begin > 0 && wrong > 1 {
		first = begin
	}
	off, offZ := -1, 0.0
	offs := 0
	for m := range s.M {
		var sum Sums
		for t := range s.T - 1 {
			sum.Add(&n.samples[m][t])
		}
		if z := sum.scaleZ(k, kappa, u.Low, u.High); math.Abs(z) > math.Abs(offZ) {
			offZ = z
			if math.Abs(z) > limit {
				off = m
				offs++
			}
		}
	}
	n.test("scale by realization", math.Sqrt(level), 1, offZ, limit)
	switch {
	case whole && wrong == 0 && off < 0:
		return nil
	case wrong > 0 && wrong < s.T-1 && s.T > 2 && wrong <= (s.T-1)/2:
		return []suspicion{{"noise.noise-scale-changes-with-the-steps", fmt.Sprintf("the noise of %d of %d steps is not of the specified size, from step %d on (%.1f standard deviations)", wrong, s.T-1, first, worst), worst, first, 0}}
	case off >= 0 && offs == 1 && s.M > 1 && !n.othersOff(u, off, limit):
		var sum Sums
		for t := range s.T - 1 {
			sum.Add(&n.samples[off][t])
		}
		if first == 0 {
			first = -1
		}
		return []suspicion{{"noise.noise-scale-of-one-realization", fmt.Sprintf("the noise of realization %d has %.3g times the specified size, that of the others is right", off, math.Sqrt(sum.size(k))), offZ, first, off}}
	}
	c := math.Sqrt(level)
	step := first
	if step == 0 {
		step = begin
	}
	return []suspicion{{n.scaleName(c), fmt.Sprintf("the noise has %.4g times the specified size (%.1f standard deviations)", c, z), z, step, 0}}
}

// othersOff reports whether realizations other than one have a wrong scale.
func (n *noiseTests) othersOff(u *Unseen, but int, limit float64) bool {
	var sum Sums
	for m := range n.samples {
		for t := range n.samples[m] {
			if m != but {
				sum.Add(&n.samples[m][t])
			}
		}
	}
	return math.Abs(sum.scaleZ(n.k(), n.m.excess(), u.Low, u.High)) > limit
}

// scaleName names a scale that is c times the specified one.
func (n *noiseTests) scaleName(c float64) string {
	s := n.e.Machine.Nodes[n.m.Node].Noise.Scale
	near := func(x float64) bool { return math.Abs(c-x) < 0.03*x }
	switch {
	case c < 0.02 && !near(s):
		return "noise.no-noise"
	case near(s) && s < 0.9:
		return "noise.noise-scale-squared"
	case near(math.Sqrt2):
		return "noise.noise-scale-larger-by-the-root-of-2"
	}
	return "noise.noise-scale-wrong"
}

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

// shape tests whether the outputs are mixed as the last layer mixes independent
// channels of equal variance.
func (n *noiseTests) shape(u *Unseen) []suspicion {
	k := n.k()
	if k < 2 {
		return nil
	}
	start, w := n.from("channels mixed as by the last layer", 0, func(t *Sums, _ int) statistic {
		level := t.Level(k)
		if level < u.Low/4 {
			return statistic{} // there is no noise
		}
		extra := n.m.excess() * t.self / t.pixels / float64(k)
		worst := statistic{slack: u.loose(t.pixels)}
		for i := range k {
			for j := range i + 1 {
				v := t.cov[i*k+j] / level
				z := v / math.Sqrt((1+extra)*t.pixels)
				if i == j {
					v -= t.pixels
					z = v / math.Sqrt((2+extra)*t.pixels)
				}
				if math.Abs(z) > math.Abs(worst.z) {
					worst.z, worst.value = z, v/t.pixels
				}
			}
		}
		return worst
	})
	if start == 0 {
		return nil
	}
	return []suspicion{{"noise.noise-differs-between-channels", fmt.Sprintf("the noise of the outputs is not that of independent hidden channels of equal scale (%.1f standard deviations)%s", math.Abs(w.z), about(start)), w.z, -1, -1}}
}

// mean tests the mean of the noise. A mean of the draws shows in the direction
// of sum_c W_c; a mean in another direction is no noise but a wrong bias.
func (n *noiseTests) mean(u *Unseen) (s *suspicion, isNoise bool) {
	k := n.k()
	square := func(t *Sums) float64 {
		sum := 0.0
		for _, v := range t.mean {
			sum += float64(v * v)
		}
		return sum / t.pixels / t.Level(k)
	}
	slack := func(t *Sums) float64 { return u.meanSlack(t, t.Level(k)) }
	outputs, w := n.from("mean of the outputs", 0, func(t *Sums, _ int) statistic {
		if t.square == 0 {
			return statistic{}
		}
		q := square(t)
		return statistic{math.Sqrt(q / t.pixels / float64(k)), chiZ(q, float64(k)), slack(t)}
	})
	draws, d := n.from("mean of the draws", 0, func(t *Sums, _ int) statistic {
		if t.square == 0 {
			return statistic{}
		}
		return statistic{t.drift / t.drifts, t.drift / math.Sqrt(t.drifts*t.Level(k)), slack(t)}
	})
	if outputs == 0 && draws == 0 {
		return nil, false
	}
	if draws > 0 {
		t := n.since(draws)
		along := t.drift * t.drift / t.drifts / t.Level(k) / square(t) // share of the mean that lies in the draws' direction
		if along > 0.9 || n.m.Kind == noise.Multiplicative {
			return &suspicion{"noise.noise-has-a-mean", fmt.Sprintf("the draws have a mean of %.3g times their standard deviation (%.1f standard deviations)%s", d.value, d.z, about(draws)), d.z, -1, -1}, true
		}
	}
	return &suspicion{"", fmt.Sprintf("the outputs have a mean that noise has not (%.1f standard deviations)%s", w.z, about(outputs)), w.z, -1, -1}, false
}

// meanSlack widens the limit of a mean over sums whose z have that variance, since
// the claim's own roundings may have one, too: b in each of n pixels adds n b^2 to
// the chi-square x, whose deviate is about sqrt(2x).
func (u *Unseen) meanSlack(t *Sums, level float64) float64 {
	return 0.05*u.steady*math.Sqrt(t.pixels) + 2*u.bias*math.Sqrt(t.pixels/level)
}

// distribution tests the draws' fourth cumulant.
func (n *noiseTests) distribution(u *Unseen) []suspicion {
	start, w := n.from("excess kurtosis of the draws", n.m.excess(), func(t *Sums, from int) statistic {
		level := t.Level(n.k())
		if level == 0 || t.quad == 0 {
			return statistic{value: n.m.excess()}
		}
		kappa, std := n.kurtosis(t, from)
		off := u.heavy(t, n.k()) // of kappa, by roundings
		if few := n.m.few; few != nil {
			return statistic{kappa, few.z(t.within, t.pixels), off * t.quad / math.Sqrt(few.variance*t.pixels)}
		}
		return statistic{kappa, (kappa - n.m.excess()) / std, off / std}
	})
	if start == 0 {
		return nil
	}
	name := "noise.noise-of-another-distribution"
	switch {
	case n.m.kappa == 0 && math.Abs(w.value+1.2) < 0.3:
		name = "noise.uniform-noise"
	case n.m.kappa == 0 && math.Abs(w.value-3) < 0.8:
		name = "noise.laplace-noise"
	}
	what := "the draws' excess kurtosis"
	if n.m.seen() {
		what += ", once each is made as likely as a normal one,"
	}
	return []suspicion{{name, fmt.Sprintf("%s is %.2f, and %.2g by the specification (%.1f standard deviations)%s", what, w.value, n.m.excess(), math.Abs(w.z), about(start)), w.z, -1, -1}}
}

// kurtosis returns the draws' excess kurtosis over the steps from a start on, whose
// sums are t, with its standard deviation: where there are enough samples that of
// these, as the numbers of a pixel whose hidden numbers are small may be anything.
func (n *noiseTests) kurtosis(t *Sums, from int) (kappa, std float64) {
	level := t.Level(n.k())
	kappa, std = t.kurtosis(level)
	var squares, blocks float64
	for _, m := range n.samples {
		for i := from - 1; i < len(m); i++ {
			if m[i].quad > 0 {
				own, _ := m[i].kurtosis(level)
				d := (own - kappa) * m[i].quad
				squares += float64(d * d)
				blocks++
			}
		}
	}
	if blocks >= 16 {
		return kappa, max(std, math.Sqrt(squares)/t.quad)
	}
	return kappa, 1.5 * std
}

// heavy returns what roundings may add to the kurtosis: uniform ones have -1.2, and
// share^2 of them enters, of which 2.4 allows for others.
func (u *Unseen) heavy(t *Sums, k int) float64 {
	share := max(1-u.Low, u.High-1)
	return 2.4 * share * share * float64(k) * t.pixels / t.quad
}

// neighbours tests whether the noise of near pixels is independent.
func (n *noiseTests) neighbours(u *Unseen) []suspicion {
	for i, d := range noiseLags {
		start, w := n.from(fmt.Sprintf("correlation with the pixel at (%d,%d)", d[0], d[1]), 0, func(t *Sums, _ int) statistic {
			l, level := t.lags[i], t.Level(n.k())
			if l.count == 0 || level == 0 {
				return statistic{}
			}
			return statistic{l.sum / level / l.count, l.sum / level / math.Sqrt(l.count), u.steady * math.Sqrt(l.count)}
		})
		if start > 0 {
			return []suspicion{{"noise.noise-correlated-in-space", fmt.Sprintf("the noise of a pixel and of that at (%d,%d) from it have the correlation %.3f (%.1f standard deviations)%s", d[0], d[1], w.value, math.Abs(w.z), about(start)), w.z, -1, -1}}
		}
	}
	return nil
}

// Slack returns by how much the claim's own roundings may go with a feature: over
// all steps, and in one sample.
func (u *Unseen) Slack(i int, f *FeatureSums) (all, one float64) {
	if i >= len(u.own) || u.own[i].n == 0 {
		return 0, 0
	}
	o := u.own[i]
	return 2 * math.Abs(o.Coherent()) * math.Sqrt(max(f.n, 1)/o.n), 2 * o.largest
}
