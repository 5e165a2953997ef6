package oracle

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
)

// The ensemble of correct devices.
const (
	members       = 3
	manyMembers   = 48      // of the ensemble that a verdict rests on,
	nearLimit     = 10      // where a step is up to so many times beyond the limits of few
	fullElements  = 1 << 13 // numbers of a step that an ensemble needs
	coarseLambda  = 5       // the float32 sums of the mildest legal algorithm, Winograd's F(4x4), have 4.4
	wideSlack     = 8       // and the limit for a device whose float32 errors are all that it has
	squareOfSlack = wideSlack * wideSlack
)

// newSpreads returns room for what correct devices of a pattern show.
func (g *stepGate) newSpreads(p pattern) *spreads {
	h := &spreads{factor: squareOfSlack, channels: g.e.states.C, pixels: g.e.states.H * g.e.states.W, alike: 1}
	if p.discrete() {
		h.factor, h.reach = 1, g.reach()
	}
	return h
}

// reach returns how far a change in the output of the first layer spreads: the
// sum of the radii of the convolutions behind it, along the longest way.
func (g *stepGate) reach() int {
	nodes := g.e.machine.Nodes
	of := make([]int, len(nodes))
	for i := range nodes {
		first := true
		for _, j := range nodes[i].In {
			if j != operator.Input {
				of[i], first = max(of[i], of[j]), false
			}
		}
		if nodes[i].Op == operator.OpConv && !first {
			of[i] += nodes[i].Weight.Shape[2] / 2
		}
	}
	return of[len(of)-1]
}

// ensemble returns the residuals of some correct devices of a pattern in one step,
// in units of the step's scale.
func (g *stepGate) ensemble(m *measured, p pattern, devices int) ([]*cuts, error) {
	lambda := 1.0
	if p.discrete() {
		lambda = coarseLambda
	}
	p.twice = p.half() // products of a device are float32 numbers; one that fuses them differs by few
	ref, err := g.reference(m.batchStep, p)
	if err != nil {
		return nil, err
	}
	var out []*cuts
	for k := range devices {
		l := &legal{machine: g.e.machine, u: g.u, lambda: lambda, member: uint64(m.Step)<<8 + uint64(k+1)}
		y, err := g.e.machine.Step(g.device(p, m.Step, l), m.X, m.Draws.Rewind())
		if err != nil {
			return nil, err
		}
		out = append(out, g.slice(m, g.against(m, y.Data, ref), y.Data, ref))
	}
	return out, nil
}

// reference returns what devices of a pattern are held against.
func (g *stepGate) reference(b *batchStep, p pattern) ([]float64, error) {
	if p.discrete() {
		y, _, err := g.emulation(b, p)
		if err != nil {
			return nil, err
		}
		return y.Data, nil
	}
	y, err := g.truth(b, p.mode)
	if err != nil {
		return nil, err
	}
	return y.Data, nil
}

// calibrate sets inner for a claim of float32 or float64.
func (g *stepGate) calibrate(b *batchStep) error {
	if err := g.begin(b); err != nil {
		return err
	}
	b = g.part(b, fullElements)
	g.draws = b.Draws
	truth, err := g.truth(b, g.claim.mode)
	if err != nil {
		return err
	}
	emu, _, err := g.emulation(b, g.claim)
	if err != nil {
		return err
	}
	hw := b.X.H() * b.X.W()
	ours, theirs := make([]float64, b.X.C()), make([]float64, b.X.C())
	add := func(to, v []float64) {
		for i, t := range truth.Data {
			if d := v[i] - t; finite(d) {
				to[i/hw%b.X.C()] += float64(d * d)
			}
		}
	}
	add(ours, emu.Data)
	for k := range members {
		l := &legal{machine: g.e.machine, u: g.u, lambda: 1, member: 1<<20 + uint64(k)}
		y, err := g.e.machine.Step(g.device(g.claim, b.Step, l), b.X, b.Draws.Rewind())
		if err != nil {
			return err
		}
		add(theirs, y.Data)
	}
	g.inner = make([]float64, b.X.C())
	for c := range g.inner {
		if ours[c] > 0 {
			g.inner[c] = theirs[c] / members / ours[c]
		}
	}
	return nil
}

// full measures a step on a part of its realizations and adds an ensemble of some
// devices to the limits.
func (g *stepGate) full(b *batchStep, h *spreads, devices int) (*measured, error) {
	if err := g.begin(b); err != nil {
		return nil, err
	}
	m, err := g.measure(g.part(b, fullElements))
	if err != nil {
		return nil, err
	}
	all, err := g.ensemble(m, g.use, devices)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		h.add(c)
	}
	return m, nil
}

// doubtful reports whether a step that is beyond the limits of few correct devices
// is within those of many. Where a state hardly varies in space, all its pixels
// round alike: few devices do not show what one in ten does.
func (g *stepGate) doubtful(b *batchStep, f *stepFigures, x *stepFault) (bool, error) {
	if x.excess > nearLimit || g.e.op.MACs(b.X.H(), b.X.W())*int64(b.X.N()) > largeForward {
		return false, nil
	}
	h := g.newSpreads(g.use)
	if _, err := g.full(b, h, manyMembers); err != nil {
		return false, err
	}
	return h.judge(f) == nil, nil
}

// accumulator returns half an ulp of 1 in the type in which a mode adds up.
func accumulator(m operator.Mode) float64 {
	if m.Precision == fp16.Float64 {
		return 0x1p-53
	}
	return 0x1p-24
}
