package steps

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/rollout"
)

// The limit of a step's largest error cannot come from the largest errors of an
// ensemble: those of a few devices have a tail that says little, and a limit that must
// let pass a device whose sums are all eight times as inexact lets pass any number that
// is alone in being wrong. What can be derived is how far from exact this number may be:
// a correct device's error of it has a standard deviation that disturbed emulations
// show, and those of one device are all as large as most of them are. Beyond farthest
// such deviations a number is wrong by itself.
//
// Whose deviation it is depends on how sums are formed. One by one, it is that of the
// number. In tiles, by Winograd's method, all outputs of a tile come from the same
// products, and a small number beside a large one has the large one's error.

// To that come the roundings of the number itself, in which a large state next to small ones
// is alone: what they may be at most is known.

// farthest is how many deviations a single error may be. Errors are sums of bounded
// ones, nearly normal, where 12 deviations happen once in 1e32 times: what it leaves is
// for how well the deviations are known.
const farthest = 12

// Devices, at most and for so many multiplications of all of them together, that say how
// large the error of one number is; and those that say it of a tile, which has many numbers.
const (
	mostAsked  = 48
	fewAsked   = 6
	leastWork  = 2e10
	tilesAsked = 2
)

// usual returns the root mean square error of most planes of all steps, in expected
// deviations, 1 at least: that of the device's sums, which no single number changes.
func usual(all []*stepFigures) float64 {
	var planes []float64
	for _, f := range all {
		t := &f.cuts.Of[measure.InPlane]
		for i, n := range f.live {
			if n > 0 {
				planes = append(planes, t.Squares[i]/n)
			}
		}
	}
	if len(planes) == 0 {
		return 1
	}
	slices.Sort(planes)
	return math.Sqrt(max(1, planes[len(planes)/2]))
}

// Where a state has large numbers, so has the next one, and all steps of a run may have such
// errors. So the claim's own arithmetic is asked first, which is known of every step: it is a
// correct device as well, and where the numbers of a tile have large errors, so have its own.
// One device says less than emulations do. They are asked of all that are beyond their limits
// by it, of those that come nearest to them, and of the largest of all.

// mostDoubtful is of how many realizations of steps emulations are asked, at most, where the
// claim's own arithmetic says that their numbers are within limits.
const mostDoubtful = 8

// doubt is a realization of a step that passed by that alone.
type doubt struct {
	figures     *stepFigures
	realization int
	share       float64 // see shares
}

// shares returns, for each realization of a step, how much of its limit a number beyond
// farthest has at most by the claim's own arithmetic; nil if that says nothing: one device
// shows what a tile has, and not what a number has.
func (g *stepGate) shares(m *measured) []float64 {
	if g.use != g.claim || m.inner == nil || !g.inTiles() {
		return nil
	}
	w, h := m.X.W(), m.X.H()
	errors, squares := g.against(m, m.Got, m.truth), g.against(m, m.emu, m.truth)
	for i, e := range squares {
		squares[i] = float64(e*e) * m.inner[i/(w*h)%m.X.C()]
		if m.held(i) {
			squares[i], errors[i] = math.NaN(), math.NaN()
		}
	}
	blur(squares, w, h)
	own := g.roundings(m)
	all, per := make([]float64, m.X.N()), len(errors)/m.X.N()
	for k := range all {
		lo, hi := k*per, (k+1)*per
		if g.joined() {
			lo, hi = 0, len(errors)
		}
		limits := limitsOf(squares[lo:hi], own[lo:hi], levels(errors[lo:hi], squares[lo:hi], w, h), 1)
		for i, e := range errors[lo:hi] {
			if e = math.Abs(e); e > farthest {
				all[k] = max(all[k], e/limits[i])
			}
		}
	}
	return all
}

// lone returns the number of a step that is farthest beyond what the error of that
// number may be, nil if none is. level is that of the device's errors.
func (g *stepGate) lone(b *evidence.BatchStep, f *stepFigures, level float64) (worst *stepFault, err error) {
	for k, peak := range f.peaks {
		if peak <= farthest*level {
			continue
		}
		if f.shares != nil && f.shares[k] <= 1 {
			g.doubts = append(g.doubts, doubt{f, k, f.shares[k]})
		} else {
			x, err := g.asked(b, f, k, level)
			if err != nil {
				return nil, err
			}
			if x != nil && (worst == nil || x.excess > worst.excess) {
				worst = x
			}
		}
		if g.joined() {
			break
		}
	}
	return worst, nil
}

// asked is lone for one realization, by emulations.
func (g *stepGate) asked(b *evidence.BatchStep, f *stepFigures, k int, level float64) (worst *stepFault, err error) {
	if err := g.begin(b); err != nil {
		return nil, err
	}
	one, first := g.only(b, k)
	m, err := g.measure(one)
	if err != nil {
		return nil, err
	}
	errors := g.against(m, m.Got, m.truth)
	for i := range errors {
		if m.held(i) {
			errors[i] = math.NaN()
		}
	}
	limits, err := g.limitsOfOne(m, errors, level)
	if err != nil {
		return nil, err
	}
	for i, e := range errors {
		e = math.Abs(e)
		at := func() string { return f.cuts.Place(measure.InPeak, first+i, f.lo) }
		switch x := e / limits[i]; {
		case x > 1:
			if worst == nil || x > worst.excess {
				worst = &stepFault{kind: measure.InPeak, gate: "conformity", slice: at(), home: at(), value: e,
					limit: limits[i], excess: x, at: first + i, lone: true}
			}
		case e > max(farthest*level, g.spared.value):
			g.spared = spared{f.step, at(), e, limits[i]}
		}
	}
	return worst, nil
}

// sure asks emulations of the doubts that are greatest, and returns the first of those that
// are faults after all; nil if none is.
func (g *stepGate) sure(level float64) (bad *verdictOn, err error) {
	l := g.doubts
	slices.SortStableFunc(l, func(a, b doubt) int { return cmp.Compare(b.share, a.share) })
	if len(l) > mostDoubtful {
		rest := l[mostDoubtful:]
		peak := func(d doubt) float64 { return d.figures.peaks[d.realization] }
		slices.SortStableFunc(rest, func(a, b doubt) int { return cmp.Compare(peak(b), peak(a)) })
		l = l[:mostDoubtful+1]
	}
	for _, d := range l {
		f := d.figures
		b, err := g.e.StepOf(f.batch, f.step)
		if err != nil {
			return nil, err
		}
		x, err := g.asked(b, f, d.realization, level)
		if err != nil {
			return nil, err
		}
		if x != nil && (bad == nil || f.step < bad.figures.step || f == bad.figures && x.excess > bad.excess) {
			bad = &verdictOn{x, f}
		}
	}
	return bad, nil
}

// spared is the largest number that is so far off as to be wrong by itself, but for where it lies.
type spared struct {
	step         int
	place        string
	value, limit float64
}

// note says so.
func (s spared) note() string {
	return fmt.Sprintf("step %d, %s: a number is %.3g expected deviations off; there, correct devices reach %.3g",
		s.step, s.place, s.value, s.limit)
}

// farNote says how far off the number is that is farthest of a device without a fault, where that is beyond farthest;
// "" where none is. Such a device has errors as large in most places, or none larger than the claim's.
func (g *stepGate) farNote(all []*stepFigures) (string, error) {
	f := slices.MaxFunc(all, func(a, b *stepFigures) int { return cmp.Compare(a.peak(), b.peak()) })
	if f.peak() <= farthest {
		return "", nil
	}
	m, err := g.measureStep(f.batch, f.step)
	if err != nil {
		return "", err
	}
	most, at := 0.0, 0
	for i, got := range m.Got {
		if z := math.Abs(got-m.truth[i]) / m.s[i]; z > most {
			most, at = z, i
		}
	}
	return fmt.Sprintf("step %d, %s: a number is %.3g expected deviations off, the most of all; "+
		"in most planes errors are %.3g times what is expected, or less", f.step,
		f.cuts.Place(measure.InPeak, at, f.lo), most, usual(all)), nil
}

// limitsOfOne returns how far off each number of a step may be. Few devices say it well enough of errors that are half
// of that at most: their mean square is four times too large once in 2000 times. In tiles, a number whose error stands
// alone among small ones is asked for by itself as well: where an activation saturates, few numbers have any, and the
// device's level, which these do not show, may be that of the worst sums.
func (g *stepGate) limitsOfOne(m *measured, errors []float64, level float64) ([]float64, error) {
	limits, err := g.limitsBy(m, errors, level, g.inTiles())
	if err != nil || !g.inTiles() || !anyBeyond(errors, limits, 1) {
		return limits, err
	}
	alone, err := g.limitsBy(m, errors, level, false)
	for i, l := range alone {
		if l > 1.5*limits[i] { // of 5x5 equal ones, the mean is no less
			l *= worstPlace
		}
		limits[i] = max(limits[i], l)
	}
	return limits, err
}

// limitsBy returns them, of errors that tiles have or single numbers.
func (g *stepGate) limitsBy(m *measured, errors []float64, level float64, tiles bool) ([]float64, error) {
	w, h := m.X.W(), m.X.H()
	many := max(members, min(mostAsked, int(leastWork/max(float64(g.e.Op.MACs(h, w))*float64(m.X.N()), 1))))
	few := min(fewAsked, many)
	if tiles {
		few, many = tilesAsked, tilesAsked
	}
	sums, beyond := make([]float64, len(m.Got)), make([]float64, len(errors))
	own := g.roundings(m)
	for i, e := range errors {
		if math.Abs(e) > farthest*level {
			beyond[i] = e
		}
	}
	for from, to := 0, few; ; from, to = to, many {
		if err := g.squares(m, sums, from, to); err != nil {
			return nil, err
		}
		squares := make([]float64, len(sums))
		for i, q := range sums {
			if squares[i] = q / float64(to); m.held(i) {
				squares[i] = math.NaN()
			}
		}
		places := func(int) float64 { return 0 }
		if tiles {
			blur(squares, w, h)
			places = levels(errors, squares, w, h)
		}
		limits := limitsOf(squares, own, places, level)
		if to == many || !anyBeyond(beyond, limits, 0.5) {
			return limits, nil
		}
	}
}

// worstPlace is by how much more errors may be in the corner of a tile of F(4x4) than those of one addition after
// another: 4.4 times on average, and 2.9 times that there.
const worstPlace = 13

// anyBeyond reports whether an error is more than a share of its limit.
func anyBeyond(errors, limits []float64, share float64) bool {
	for i, e := range errors {
		if math.Abs(e) > share*limits[i] {
			return true
		}
	}
	return false
}

// limitsOf returns them for the mean squares of numbers, their own roundings and the levels of
// their places.
func limitsOf(squares, own []float64, places func(i int) float64, level float64) []float64 {
	limits := make([]float64, len(squares))
	for i, q := range squares {
		limits[i] = farthest*max(level, places(i))*math.Sqrt(max(1, q)) + own[i]
	}
	return limits
}

// roundings returns the most that the last roundings of a step make of each number, in deviations: those of a float32
// sum y = a x + b o, however it is formed, each half a unit in the last place; and, where states are normalized, those
// of that, as far as they are not of all numbers alike. Deviations have those of half types in them.
func (g *stepGate) roundings(m *measured) []float64 {
	own, before, c := make([]float64, len(m.Got)), m.o.Data, g.e.Case.Rollout
	if g.kept() != fp16.Float64 {
		return own
	}
	if c.Policy != rollout.Autoregressive {
		own, before = emulate.BlendBound(m.X, m.o, c, g.claim.Mode)
	}
	normalized := c.Normalization != rollout.NoNormalization
	for lo, per := 0, g.joint(m); lo < len(own); lo += per {
		stretch := 1.0
		if normalized {
			stretch = measure.Ratio(diff.Std(m.truth[lo:lo+per]), diff.Std(before[lo:lo+per]))
		}
		for i := lo; i < lo+per; i++ {
			own[i] *= stretch
			if normalized { // a difference, its quotient, and what is divided by
				own[i] += 3 * g.u * math.Abs(m.truth[i])
			}
			if own[i] /= m.s[i]; !measure.Finite(own[i]) { // nor is the number's error
				own[i] = 0
			}
		}
	}
	return own
}

// joint returns how many numbers of a step a normalization takes together.
func (g *stepGate) joint(m *measured) int {
	if g.joined() {
		return len(m.Got)
	}
	return len(m.Got) / m.X.N()
}

// squares adds the squared errors of each number of devices from one on to another.
func (g *stepGate) squares(m *measured, sums []float64, from, to int) error {
	lambda, p := 1.0, g.use
	if p.Discrete() {
		lambda = emulate.CoarseLambda
	}
	p.Twice = p.Half()
	for d := from; d < to; d++ {
		l := &emulate.Legal{
			Machine: g.e.Machine, U: g.u, Lambda: lambda, Lean: emulate.MostLean(p.Mode.Precision) * float64(d%3) / 2,
			Blocks: d%2 == 1, Member: 1<<24 + uint64(m.Step)<<8 + uint64(d),
		}
		y, err := g.e.Machine.Step(g.device(p, m.Step, l), m.X, m.Draws.Rewind())
		if err != nil {
			return err
		}
		for i, e := range g.against(m, y.Data, m.truth) {
			sums[i] += float64(e * e)
		}
	}
	return nil
}

// only returns realization k of a step, or all of them if the post-processing joins
// them, and where its numbers begin.
func (g *stepGate) only(b *evidence.BatchStep, k int) (*evidence.BatchStep, int) {
	n := b.X.N()
	if n == 1 || g.joined() {
		return b, 0
	}
	p, per := *b, len(b.Got)/n
	p.X, p.Lo, p.Hi = b.X.Samples(k, k+1), b.Lo+k, b.Lo+k+1
	p.Got = b.Got[k*per : (k+1)*per]
	p.Draws = evidence.Part(b.Draws, k, k+1, n)
	return &p, k * per
}

// joined reports whether the post-processing joins realizations.
func (g *stepGate) joined() bool {
	c := g.e.Case.Rollout
	return c.EngineBatch > 0 && c.Normalization != rollout.NoNormalization
}
