package steps

import (
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// The ensemble of correct devices.
const (
	members      = 3
	manyMembers  = 48      // of the ensemble that a verdict rests on,
	nearLimit    = 10      // where a step is up to so many times beyond the limits of few
	fullElements = 1 << 13 // numbers of a step that an ensemble needs
	// truncated is by how much all errors of an operator may be larger than expected where they are all that a device
	// has: hardware that truncates is off by a unit in the last place where rounding is by half of one, and functions,
	// which are taken to be one unit off (RMS), have documented bounds of two. The roundings of the policy, which every
	// device makes, are what they are (see stepGate.sum).
	truncated = 2
	// tiled is by how much those of sums may be that are formed in tiles of another form than those of package winograd
	// (see emulate.Tiles). F(4x4) has 4.4 times those of one addition after another on average, and truncates.
	tiled = 8
)

// newSpreads returns room for what correct devices of a pattern show.
func (g *stepGate) newSpreads(p emulate.Pattern) *spreads {
	h := &spreads{fine: !p.Discrete(), channels: g.e.States.C, alike: 1, of: float64(g.e.States.H * g.e.States.W)}
	if !h.fine {
		h.reach = g.reach()
	}
	return h
}

// reach returns how far a change in the output of the first layer spreads: the
// sum of the radii of the convolutions behind it, along the longest way.
func (g *stepGate) reach() int {
	nodes := g.e.Machine.Nodes
	of := make([]int, len(nodes))
	for i := range nodes {
		first := true
		for _, j := range nodes[i].In {
			if j != operator.Input {
				of[i], first = max(of[i], of[j]), false
			}
		}
		if nodes[i].Op == operator.OpOther { // as far as the image goes
			of[i] = max(of[i], g.e.States.H, g.e.States.W)
		}
		if nodes[i].Op == operator.OpConv && !first {
			of[i] += nodes[i].Weight.Shape[2] / 2
		}
	}
	return of[len(of)-1]
}

// ensemble returns the residuals of correct devices of a pattern in one step, from one of them up to another,
// in units of the step's scale.
func (g *stepGate) ensemble(m *measured, p emulate.Pattern, from, to int) ([]*measure.Cuts, error) {
	lambda, of := float64(emulate.CoarseLambda), 1.0
	if !p.Discrete() {
		lambda, of = tiled/truncated, truncated
	}
	p.Twice = p.Half() // products of a device are float32 numbers; one that fuses them differs by few
	ref, err := g.reference(m.BatchStep, p)
	if err != nil {
		return nil, err
	}
	var out []*measure.Cuts
	for k := from; k < to; k++ {
		y, err := g.member(m.BatchStep, p, k, lambda, of)
		if err != nil {
			return nil, err
		}
		r, lines := g.leveled(m, y.Data, ref, !p.Discrete())
		c := g.slice(m, r, y.Data, ref)
		c.Lines = lines
		out = append(out, c)
	}
	return out, nil
}

// member returns what member k of an ensemble makes of a step, whose operator's errors are so many times as large as
// expected. Every other one that has more of them than expected forms convolutions as products of matrices.
func (g *stepGate) member(
	b *evidence.BatchStep, p emulate.Pattern, k int, lambda, times float64,
) (y *tensor.Tensor, err error) {
	worst := times > 1
	l := g.legal(b, p, k, lambda)
	l.U, l.Tiled, l.Whole, l.Blocks = times*g.u, worst, worst, worst && k%2 == 1
	if worst {
		l.Tiles = g.tiles
	}
	return g.stepped(b, p, l)
}

// legal returns the errors of member k: the expected ones, but for its sums.
func (g *stepGate) legal(b *evidence.BatchStep, p emulate.Pattern, k int, lambda float64) *emulate.Legal {
	return &emulate.Legal{
		Machine: g.e.Machine, U: g.u, Lambda: lambda, Lean: g.leaning(p, k), Member: uint64(b.Step)<<8 + uint64(k+1),
	}
}

func (g *stepGate) stepped(b *evidence.BatchStep, p emulate.Pattern, l *emulate.Legal) (*tensor.Tensor, error) {
	return g.e.Machine.Step(g.device(p, b.Step, l), b.X, b.Draws.Rewind())
}

// leaning is how much member k of an ensemble that a verdict rests on loses toward zero: a
// third of them nothing, a third as much as any unit that multiplies such operands, and a
// third half of that. What no device is suspected of need not be known.
func (g *stepGate) leaning(p emulate.Pattern, k int) float64 {
	if !g.lean {
		return 0
	}
	return emulate.MostLean(p.Mode.Precision) * float64(k%3) / 2
}

// reference returns what devices of a pattern are held against.
func (g *stepGate) reference(b *evidence.BatchStep, p emulate.Pattern) ([]float64, error) {
	if p.Discrete() {
		y, _, err := g.emulation(b, p)
		if err != nil {
			return nil, err
		}
		return y.Data, nil
	}
	if p == g.claim {
		c, err := g.claimed(b)
		if err != nil {
			return nil, err
		}
		return c.truth.Data, nil
	}
	y, err := g.truth(b, p.Mode)
	if err != nil {
		return nil, err
	}
	return y.Data, nil
}

// innerOf returns, for each channel of a step of a claim of float32 or float64, the variance that correct devices have
// over that of the contract's; nil for others. The ratio is one of the operator, which the first step whose pixels
// differ shows: one whose pixels are alike has the errors of a few numbers, and such devices are asked of itself.
func (g *stepGate) innerOf(b *evidence.BatchStep, alike bool) (inner []float64, err error) {
	if g.claim.Discrete() || alike {
		return nil, nil
	}
	if g.inner == nil {
		g.inner, err = g.calibrated(b)
	}
	return g.inner, err
}

// calibrated is innerOf by what a step shows.
func (g *stepGate) calibrated(b *evidence.BatchStep) ([]float64, error) {
	defer func(d *emulate.Draws) { g.draws = d }(g.draws)
	b = g.part(b, fullElements)
	c, err := g.claimed(b)
	if err != nil {
		return nil, err
	}
	truth, emu := c.truth, c.emu
	hw := b.X.H() * b.X.W()
	ours, theirs := make([]float64, b.X.C()), make([]float64, b.X.C())
	add := func(to, v []float64) {
		for i, t := range truth.Data {
			if d := v[i] - t; measure.Finite(d) {
				to[i/hw%b.X.C()] += float64(d * d)
			}
		}
	}
	add(ours, emu.Data)
	for k := range members {
		y, err := g.member(b, g.claim, k, 1, 1)
		if err != nil {
			return nil, err
		}
		add(theirs, y.Data)
	}
	inner := make([]float64, b.X.C())
	for c := range inner {
		if ours[c] > 0 {
			inner[c] = theirs[c] / members / ours[c]
		}
	}
	return inner, nil
}

// full measures a step on a part of its realizations and adds an ensemble of some
// devices to the limits, which it returns.
func (g *stepGate) full(b *evidence.BatchStep, h *spreads, devices int) ([]*measure.Cuts, error) {
	if err := g.begin(b); err != nil {
		return nil, err
	}
	m, err := g.measure(g.part(b, fullElements))
	if err != nil {
		return nil, err
	}
	all, err := g.ensemble(m, g.use, 0, devices)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		h.class(m.of).add(c)
	}
	return all, nil
}

// doubtful reports whether a step that is beyond the limits of few correct devices
// is within those of many. Where a state hardly varies in space, all its pixels
// round alike: few devices do not show what one in ten does. Nor do other slices show what one does in which
// a number is far in the tail of its errors.
func (g *stepGate) doubtful(b *evidence.BatchStep, f *stepFigures, x *stepFault) (bool, error) {
	if x.excess > nearLimit || g.e.Op.MACs(b.X.H(), b.X.W())*int64(b.X.N()) > evidence.LargeForward {
		return false, nil
	}
	h := g.newSpreads(g.use)
	all, err := g.full(b, h, manyMembers)
	if err != nil {
		return false, err
	}
	if h.own = all; h.judge(f) != nil {
		return false, nil
	}
	f.by = h
	return true, nil
}
