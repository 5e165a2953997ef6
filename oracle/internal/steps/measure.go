package steps

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/match"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// stepGate holds each single step of the device against float64 and against an
// emulation of the claimed arithmetic.
type stepGate struct {
	e     *match.Matcher
	claim emulate.Pattern
	use   emulate.Pattern // what the device is held against: the claim, or the pattern that fits
	u     float64         // half an ulp of 1 in the accumulator
	draws *emulate.Draws  // of the step at work, nil for none
	tiles *emulate.Tiles  // of that step
	memo  memo
	inner []float64 // of steps whose pixels differ, see innerOf
	h0    *spreads
	lean  bool // members of ensembles truncate as some matrix units do
	// unnamed says that the device is right by its errors, whatever contract it keeps.
	unnamed bool
	ties    *ties // of the norms of plain patterns, nil if they are not looked for

	spared  spared       // what lone let pass last
	doubts  []doubt      // and what it let pass without emulations
	rounded map[tie]bool // the ties that settled rounded the other way last
}

// measured is one step of an engine batch with all its numbers.
type measured struct {
	*evidence.BatchStep
	truth []float64      // float64 from the same state, weights and first operands rounded as claimed
	emu   []float64      // what the claim's own arithmetic gives
	ref   []float64      // what the device is held against: the emulation, or truth
	o     *tensor.Tensor // the operator's output by the claim's own arithmetic
	s     []float64      // expected standard deviation of Got - truth
	inner []float64      // see innerOf
	of    float64        // independent numbers of a plane that it is taken from
	r     []float64      // (Got - ref)/s, NaN where one of them is not finite
	alike float64        // see lookAlikes
	cuts  *measure.Cuts
	wrong []int // elements that are not finite where the emulation is, or the reverse
	clamp *[2]float64
}

// held reports whether a clamp holds a number of the device and of the exact states: it has no error,
// and says nothing of those of others.
func (m *measured) held(i int) bool {
	return m.clamp != nil && m.Got[i] == m.truth[i] && clamped(m.clamp, m.truth[i])
}

// begin takes the draws of a step, once, by an application of the noise alone.
func (g *stepGate) begin(b *evidence.BatchStep) error {
	g.draws, g.tiles = b.Draws, emulate.NewTiles(g.u)
	if b.Draws == nil || b.Draws.Data != nil {
		return nil
	}
	rewound := b.Draws.Rewind()
	for i := range g.e.Machine.Nodes {
		if g.e.Machine.Nodes[i].Op != operator.OpNoise {
			continue
		}
		x := g.e.Machine.Scratch(b.X.N(), g.channels(i), b.X.H(), b.X.W())
		clear(x.Data)
		y, err := g.e.Machine.Node(&emulate.Device{}, i, []*tensor.Tensor{x}, rewound)
		if err != nil {
			return fmt.Errorf("step %d: %w", b.Step, err)
		}
		g.e.Machine.Recycle(x)
		g.e.Machine.Recycle(y)
	}
	return nil
}

// channels returns the channels of node i's output, or of the input.
func (g *stepGate) channels(i int) int {
	if i == operator.Input {
		return g.e.States.C
	}
	n := &g.e.Machine.Nodes[i]
	if n.Op == operator.OpConv {
		return n.Weight.Shape[0]
	}
	if n.Op == operator.OpOther {
		shapes, err := g.e.Machine.Shapes([]int{1, g.e.States.C, g.e.States.H, g.e.States.W})
		if err != nil {
			panic("oracle: " + err.Error()) // of an operator that was stepped
		}
		return shapes[i][1]
	}
	return g.channels(n.In[0])
}

// drawsOf returns the draws of noise node i among all: those of the nodes before
// it come first.
func (g *stepGate) drawsOf(i int, all *emulate.Draws) *emulate.Draws {
	skip := 0
	for j := range i {
		if n := &g.e.Machine.Nodes[j]; n.Op == operator.OpNoise {
			skip += taken(&n.Noise)
		}
	}
	return &emulate.Draws{Kinds: all.Kinds[skip:], Data: all.Data[skip:]}
}

// taken returns how many draws a block takes.
func taken(b *noise.Block) int {
	if p := fp16.Float32.Round(b.Scale); b.Type == noise.Dropout && (p == 0 || p == 1) {
		return 0
	}
	return len(b.Primitives())
}

// truth returns the states that follow in float64, with no rounding but those
// of weights, biases and the operator's input to operands.
func (g *stepGate) truth(b *evidence.BatchStep, m graph.Mode) (*tensor.Tensor, error) {
	return g.after(b, m, nil)
}

// after is truth by a device that change may have changed.
func (g *stepGate) after(b *evidence.BatchStep, m graph.Mode, change func(*emulate.Device)) (*tensor.Tensor, error) {
	o, err := g.exact(b, m, change)
	if err != nil {
		return nil, err
	}
	p := emulate.Pattern{Mode: m}
	if g.normalizesHalf() || g.kept() != fp16.Float64 || g.e.Case.Rollout.Policy == rollout.Autoregressive {
		p.Mode = graph.Mode{Precision: fp16.Float64}
	}
	return g.advance(b.X, o, p, nil), nil
}

// exact returns the operator's output to truth; change, if not nil, may change the device.
func (g *stepGate) exact(b *evidence.BatchStep, m graph.Mode, change func(*emulate.Device)) (*tensor.Tensor, error) {
	d := &emulate.Device{Mode: m, Wide: emulate.WideAll}
	if change != nil {
		change(d)
	}
	x := b.X
	for i := range g.e.Machine.Nodes {
		n := &g.e.Machine.Nodes[i]
		if n.Op == operator.OpConv && n.In[0] == operator.Input {
			f, _, err := n.Formats(m, fp16.Float32)
			if err != nil {
				return nil, err
			}
			x = emulate.Operand(m, b.X, f)
		}
	}
	return g.e.Machine.Operator(d, x, b.Draws.Rewind())
}

// emulation returns the states that follow by a pattern, undisturbed, and the
// operator's output. The contract of a mode is the exact engine's.
func (g *stepGate) emulation(b *evidence.BatchStep, p emulate.Pattern) (next, o *tensor.Tensor, err error) {
	if !p.Narrow && !p.Plain && !p.Added && !p.Once && p.Constants == 0 && !p.Folded && !p.Split && !p.Flat &&
		p.Whole(g.e.Machine.Nodes, g.e.Case.Rollout) {
		x := tensor.Of(g.input(p, b.Step), b.X.Data, b.X.N(), b.X.C(), b.X.H(), b.X.W())
		o, err = g.e.Forward(p.Mode, x, b.Draws.Rewind())
	}
	if o == nil { // fewer roundings, or a contract that PyTorch refuses
		o, err = g.e.Machine.Operator(g.device(p, b.Step, nil), b.X, b.Draws.Rewind())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("step %d: %w", b.Step, err)
	}
	o.Format = fp16.Float64
	return g.advance(b.X, o, p, nil), o, nil
}

// measure compares one step.
func (g *stepGate) measure(b *evidence.BatchStep) (*measured, error) {
	c, err := g.claimed(b)
	if err != nil {
		return nil, err
	}
	truth, emu, o := c.truth, c.emu, c.o
	m := &measured{BatchStep: b, clamp: g.e.Case.Rollout.Clamp, truth: truth.Data, emu: emu.Data, o: o,
		alike: lookAlikes(b.X, g.claim.Mode.Precision, 1)}
	if err := g.scale(m, truth, emu, o); err != nil {
		return nil, err
	}
	switch {
	case !g.use.Discrete():
		m.ref = truth.Data
		if g.use != g.claim {
			other, err := g.truth(b, g.use.Mode)
			if err != nil {
				return nil, err
			}
			m.ref = other.Data
		}
	case g.use != g.claim:
		if m.ref, err = g.nearest(m, g.use); err != nil {
			return nil, err
		}
	default:
		m.ref = emu.Data
		if g.twofold(g.claim) {
			m.ref = g.closest(b.Got, emu, b.X, o, g.claim)
		}
	}
	g.residual(m)
	return m, nil
}

// measureStep compares a step of an engine batch.
func (g *stepGate) measureStep(batch, t int) (*measured, error) {
	b, err := g.e.StepOf(batch, t)
	if err != nil {
		return nil, err
	}
	return g.measure(b)
}

// residual fills in r, wrong and the slices.
func (g *stepGate) residual(m *measured) {
	// What is judged is what the ensemble shows: of a fine claim, without any line.
	m.r = g.against(m, m.Got, m.ref)
	r, lines := g.leveled(m, m.Got, m.ref, !g.use.Discrete())
	m.wrong = nil
	for i, v := range m.Got {
		if measure.Finite(v) != measure.Finite(m.ref[i]) {
			m.wrong = append(m.wrong, i)
		}
	}
	m.cuts = g.slice(m, r, m.Got, m.ref)
	m.cuts.Lines = lines
}

// against returns the difference of two states in expected deviations, NaN
// where one of them is not finite.
func (g *stepGate) against(m *measured, v, w []float64) []float64 {
	r, _ := g.leveled(m, v, w, false)
	return r
}

// leveled is against, and what it left out: see [measure.LevelOut].
func (g *stepGate) leveled(m *measured, v, w []float64, whatever bool) (r, lines []float64) {
	r = make([]float64, len(v))
	for i := range r {
		r[i] = v[i] - w[i]
		if !measure.Finite(r[i]) || !measure.Finite(m.truth[i]) || !(m.s[i] > 0) {
			r[i] = math.NaN()
		}
	}
	lines = measure.LevelOut(g.e.Case.Rollout, r, m.truth, m.s, m.X.N(), whatever)
	for i := range r {
		r[i] /= m.s[i]
	}
	return r, lines
}

// slice sums up the difference r of the states got from ref.
func (g *stepGate) slice(m *measured, r, got, ref []float64) *measure.Cuts {
	if !g.use.Discrete() {
		return measure.Cut(m.X.N(), m.X.C(), m.X.H(), m.X.W(), r, nil, nil)
	}
	return measure.Cut(m.X.N(), m.X.C(), m.X.H(), m.X.W(), r, g.against(m, got, m.truth), g.against(m, ref, m.truth))
}

// nearer returns the one of a and b with more elements next to v.
func nearer(v, a, b []float64) []float64 {
	var p, q float64
	for i := range v {
		if d, e := math.Abs(v[i]-a[i]), math.Abs(v[i]-b[i]); measure.Finite(d) && measure.Finite(e) {
			p, q = p+d, q+e
		}
	}
	if q < p {
		return b
	}
	return a
}

// part returns the first realizations of a step, as many as make at least that
// many elements, or all of them if the post-processing joins them.
func (g *stepGate) part(b *evidence.BatchStep, elements int) *evidence.BatchStep {
	n := min(b.X.N(), (elements+len(b.Got)/b.X.N()-1)/(len(b.Got)/b.X.N()))
	if n == b.X.N() || g.joined() {
		return b
	}
	p := *b
	p.X, p.Hi = b.X.Samples(0, n), b.Lo+n
	p.Got = b.Got[:len(b.Got)/b.X.N()*n]
	if b.Draws != nil {
		p.Draws = &emulate.Draws{Kinds: b.Draws.Kinds}
		for _, d := range b.Draws.Data {
			p.Draws.Data = append(p.Draws.Data, d[:len(d)/b.X.N()*n])
		}
	}
	return &p
}
