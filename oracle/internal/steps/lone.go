package steps

import (
	"math"
	"slices"

	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/rollout"
)

// The limit of a step's largest error cannot come from the largest errors of an
// ensemble: those of a few devices have a tail that says little, and a limit that must
// let pass a device whose sums are all eight times as inexact lets pass any number that
// is alone in being wrong. What can be derived is how far from exact this number may be:
// a correct device's error of it has a standard deviation that many disturbed emulations
// show, and those of one device are all as large as most of them are. Beyond farthest
// such deviations a number is wrong by itself.

// farthest is how many deviations a single error may be. Errors are sums of bounded
// ones, nearly normal, where 12 deviations happen once in 1e32 times: what it leaves is
// for how well the deviations are known.
const farthest = 12

// most devices, and multiplications of all of them together, that say how large the
// error of one number is.
const (
	mostAsked = 48
	leastWork = 2e10
)

// usual returns the root mean square error of most planes of all steps, in expected
// deviations, 1 at least: that of the device's sums, which no single number changes.
func usual(all []*stepFigures) float64 {
	var planes []float64
	for _, f := range all {
		t := &f.cuts.Of[measure.InPlane]
		for i, n := range t.Count {
			if n > 0 {
				planes = append(planes, t.Mean(i))
			}
		}
	}
	if len(planes) == 0 {
		return 1
	}
	slices.Sort(planes)
	return math.Sqrt(max(1, planes[len(planes)/2]))
}

// lone returns the number of a step that is farthest beyond what the error of that
// number may be, nil if none is. level is that of the device's errors.
func (g *stepGate) lone(b *evidence.BatchStep, f *stepFigures, level float64) (*stepFault, error) {
	if f.peak <= farthest*level {
		return nil, nil
	}
	if err := g.begin(b); err != nil {
		return nil, err
	}
	k := f.peakAt / (len(b.Got) / b.X.N())
	one, first := g.only(b, k)
	m, err := g.measure(one)
	if err != nil {
		return nil, err
	}
	v, squares := g.against(m, m.Got, m.truth), make([]float64, len(m.Got))
	lambda, p := 1.0, g.use
	if p.Discrete() {
		lambda = emulate.CoarseLambda
	}
	p.Twice = p.Half()
	devices := max(members, min(mostAsked, int(leastWork/max(float64(g.e.Op.MACs(b.X.H(), b.X.W()))*float64(one.X.N()), 1))))
	for d := range devices {
		l := &emulate.Legal{Machine: g.e.Machine, U: g.u, Lambda: lambda, Lean: emulate.MostLean(p.Mode.Precision) * float64(d%3) / 2, Member: 1<<24 + uint64(m.Step)<<8 + uint64(d)}
		y, err := g.e.Machine.Step(g.device(p, m.Step, l), m.X, m.Draws.Rewind())
		if err != nil {
			return nil, err
		}
		for i, e := range g.against(m, y.Data, m.truth) {
			squares[i] += float64(e*e) / float64(devices)
		}
	}
	var worst *stepFault
	for i, e := range v {
		limit := farthest * level * max(1, math.Sqrt(squares[i]))
		if x := math.Abs(e) / limit; x > 1 && (worst == nil || x > worst.excess) {
			at := f.cuts.Place(measure.InPeak, first+i, f.lo)
			worst = &stepFault{kind: measure.InPeak, gate: "conformity", slice: at, home: at, value: math.Abs(e), limit: limit, excess: x, at: first + i, lone: true}
		}
	}
	return worst, nil
}

// only returns realization k of a step, or all of them if the post-processing joins
// them, and where its numbers begin.
func (g *stepGate) only(b *evidence.BatchStep, k int) (*evidence.BatchStep, int) {
	n := b.X.N()
	if c := g.e.Case.Rollout; n == 1 || c.EngineBatch > 0 && c.Normalization != rollout.NoNormalization {
		return b, 0
	}
	p, per := *b, len(b.Got)/n
	p.X, p.Lo, p.Hi = b.X.Samples(k, k+1), b.Lo+k, b.Lo+k+1
	p.Got = b.Got[k*per : (k+1)*per]
	p.Draws = evidence.Part(b.Draws, k, k+1, n)
	return &p, k * per
}
