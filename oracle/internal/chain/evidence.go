package chain

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/tensor"
)

// place is one step of an engine batch.
type place struct{ batch, lo, hi, t int }

// places are all steps, in the order of time.
func places(steps int, batches [][2]int) (all []place) {
	for t := 1; t < steps; t++ {
		for k, b := range batches {
			all = append(all, place{k, b[0], b[1], t})
		}
	}
	return all
}

// ofOperator judges the states of an operator and a policy. The inputs of a step are the state before and the draws.
func ofOperator(g *facts.Gate) *checker {
	c := &checker{Gate: g, claim: lower.Claim{Mode: g.Mode}, states: g.States, fields: map[place]*diff.Fields{}}
	c.step = stepOf(g.Op, g.Case.Rollout, g.Mode, g.States.H, g.States.W)
	c.stats = !slices.Contains(emulate.PlainNorms(g.Op.Config, g.Machine.Nodes, g.Mode), true)
	batches := g.Case.Rollout.EngineBatches()
	c.places, c.series = places(g.States.T, batches), len(batches)
	c.input = func(k int, p place) (*tensor.Tensor, error) {
		x := c.state(p, p.t-1)
		if k == 0 {
			return x, nil
		}
		return c.draws(p, x)
	}
	c.after = func(p place) (*tensor.Tensor, error) { return c.state(p, p.t), nil }
	return c
}

// state returns states t of an engine batch.
func (c *checker) state(p place, t int) *tensor.Tensor {
	r := c.Case.Rollout
	f := r.StartFormat(c.Mode)
	if t > 0 {
		f = r.StateFormat(c.Op.Output(c.Mode))
	}
	return kept(c.Stored(p.lo, p.hi, t), f)
}

// kept says of a state in which format it is: the one that the claim keeps it in, or float32 where a device has not
// kept it so.
func kept(x *tensor.Tensor, f fp16.Format) *tensor.Tensor {
	if x.Format = f; !evidence.OnFormat(f, finite(x.Data)) {
		x.Format = fp16.Float32
	}
	return x
}

func finite(v []float64) (all []float64) {
	for _, x := range v {
		if x-x == 0 {
			all = append(all, x)
		}
	}
	return all
}

// draws are those of an operator's step.
func (c *checker) draws(p place, state *tensor.Tensor) (*tensor.Tensor, error) {
	return c.drawsBy(p, state, nil)
}

// drawsBy are draws of which a device has what by makes of them, nil if that is nothing; by may be nil.
func (c *checker) drawsBy(
	p place, state *tensor.Tensor, by func(kind noise.Kind, shape [4]int, data []float64) []float64,
) (*tensor.Tensor, error) {
	types, err := c.step.types(graph.Type{Shape: state.Shape, Format: state.Format})
	if err != nil {
		return nil, err
	}
	var d noise.Draws
	if c.Stream != nil {
		if d, err = c.Stream.Draws(p.batch, p.lo, p.hi, p.t); err != nil {
			return nil, err
		}
	}
	if d == nil || by == nil {
		return c.step.drawn(types[1], d)
	}
	other := &changedDraws{Draws: d, by: by}
	x, err := c.step.drawn(types[1], other)
	if other.none {
		return nil, nil
	}
	return x, err
}

// changedDraws are draws with a fault.
type changedDraws struct {
	noise.Draws
	by   func(kind noise.Kind, shape [4]int, data []float64) []float64
	none bool // the fault is none of these draws
}

// Draw implements [noise.Draws].
func (d *changedDraws) Draw(kind noise.Kind, p float64, shape []int, dst []float64) error {
	if err := d.Draws.Draw(kind, p, shape, dst); err != nil {
		return err
	}
	s := [4]int{1, 1, 1, 1}
	copy(s[:], shape)
	y := d.by(kind, s, slices.Clone(dst))
	d.none = d.none || y == nil
	copy(dst, y)
	return nil
}

// ofGraph judges a state of a step graph: of one realization at a time.
func ofGraph(g *facts.Gate, i int) *checker {
	from := g.Case.Step
	c := &checker{
		Gate: g, claim: lower.Claim{Mode: g.Mode}, index: i, states: g.Each()[i], fields: map[place]*diff.Fields{},
	}
	if len(from.States) > 1 {
		c.name = from.States[i].In()
	}
	c.step = stepTo(from, i)
	var each [][2]int
	for m := range c.states.M {
		each = append(each, [2]int{m, m + 1})
	}
	c.places, c.series = places(c.states.T, each), len(each)
	c.input = func(k int, p place) (*tensor.Tensor, error) {
		if in := from.Inputs[k]; in.Kind == kindState {
			return c.graphState(in.State, p.lo, p.t-1-in.Age)
		}
		return from.Given(k, p.lo, p.t)
	}
	c.after = func(p place) (*tensor.Tensor, error) { return c.graphState(i, p.lo, p.t) }
	return c
}

// graphState is a state of a step graph, t steps after the initial condition.
func (c *checker) graphState(i, m, t int) (*tensor.Tensor, error) {
	g := c.Case.Step
	formats, err := g.Formats(c.Mode, max(0, t))
	if err != nil {
		return nil, err
	}
	var data []float64
	if t >= 0 {
		data = append(data, c.Each()[i].At(m, t)...)
	} else if data, err = c.Case.Before(i, m, -t); err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("%s: no numbers", g.States[i].In())
	}
	return kept(tensor.Of(fp16.Float64, data, g.States[i].Shape...), formats[i]), nil
}
