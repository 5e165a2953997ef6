package steps

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// trace finds, front to back, what a device of a half mode stores, node by
// node; it is for devices that no usual combination of kinds describes.
//
// The residual of a step is the sum of what every rounding of the device makes of
// it. The roundings of the first node are known whatever follows, those of the
// second once it is known whether the first is stored, and so on: each is decided
// with those before it as found, and all behind it exact. Were the rest normal, of
// n numbers with the mean square q, the likelihood of what is found would be
// q^(-n/2); a node that does otherwise than the last one of its kind is less likely
// by itself. What is likely with half of the nodes need not be what is with all of
// them, so the likeliest few are followed.
func (g *stepGate) trace(m *measured, mode graph.Mode) (best candidate, err error) {
	nodes := g.e.Machine.Nodes
	all := emulate.PointsOf(nodes, g.e.Case.Rollout, mode)
	stored := emulate.FormatsOf(nodes, mode, g.input(emulate.Pattern{Mode: mode}, m.Step))
	t := &tracer{g: g, m: m, width: min(max(1, mostNumbers/len(m.Got)), mostPaths)}
	t.paths = []trail{
		{p: emulate.Pattern{Mode: mode}, of: make([]*tensor.Tensor, len(nodes)), usual: map[emulate.Points]bool{}},
	}
	for i := range nodes {
		var at []emulate.Points
		n := &nodes[i]
		if n.Op == operator.OpConv && n.Bias != nil && all&emulate.AtBias != 0 {
			at = append(at, emulate.AtBias)
		}
		if stored[i] == mode.Precision {
			if n.Op == operator.OpNoise && n.Noise.Type != noise.Dropout {
				at = append(at, emulate.AtDraw, emulate.AtProduct)
			}
			at = append(at, emulate.PointOf(nodes, i))
		}
		if err := t.decide(i, at); err != nil {
			return best, err
		}
		for k := range t.paths {
			w := &t.paths[k]
			w.of = slices.Clone(w.of)
			if w.of[i], err = t.node(w, w.p, i); err != nil {
				return best, err
			}
			t.forget(w.of, i)
		}
	}
	if err := t.decide(len(nodes), []emulate.Points{all & emulate.AtShare}); err != nil {
		return best, err
	}
	best.unlike = math.Inf(1)
	for _, w := range t.paths {
		p := w.p.ByKind(nodes, stored)
		c, err := g.compare(m, p)
		if err != nil {
			return best, err
		}
		if c.unlike < best.unlike {
			best = c
		}
	}
	return best, nil
}

const (
	mostPaths   = 16
	mostNumbers = 1 << 14 // of a step, of all paths together: few of them tell little
	otherwise   = 3       // -ln of how likely a node is unlike the last of its kind
)

// tracer is a trace at work.
type tracer struct {
	g     *stepGate
	m     *measured
	width int // of paths
	paths []trail
}

// trail is a pattern as far as it is known.
type trail struct {
	p        emulate.Pattern         // nodes by odd
	of       []*tensor.Tensor        // what its nodes give
	usual    map[emulate.Points]bool // whether the last node that had a point is stored
	next     []float64               // the states, with all behind it exact
	unlikely float64                 // of the nodes that do otherwise, -ln
}

// score is -ln of the likelihood of a path.
func (t *tracer) score(w *trail) float64 {
	q := meanOf(t.g.against(t.m, t.m.Got, w.next))
	return w.unlikely + float64(len(t.m.Got))/2*elem.Log(max(q, 1e-12))
}

// decide finds which of some points of node i are stored.
func (t *tracer) decide(i int, at []emulate.Points) (err error) {
	for k := range t.paths {
		w := &t.paths[k]
		if w.next, err = t.next(w, w.p, i); err != nil {
			return err
		}
	}
	for _, at := range at {
		if at == 0 {
			continue
		}
		var paths []trail
		for _, w := range t.paths {
			p := w.p
			switch {
			case at == emulate.AtBias && w.asked(): // of all convolutions
				paths = append(paths, w)
				continue
			case at&(emulate.AtBias|emulate.AtDraw|emulate.AtProduct|emulate.AtShare) != 0:
				p.Points |= at
			default:
				p.Odd |= 1 << i
			}
			next, err := t.next(&w, p, i)
			if err != nil {
				return err
			}
			if slices.Equal(next, w.next) { // it does nothing
				paths = append(paths, w)
				continue
			}
			with := w
			with.p, with.next = p, next
			paths = append(paths, w.learn(at, false), with.learn(at, true))
		}
		sort.SliceStable(paths, func(i, k int) bool { return cmp.Less(t.score(&paths[i]), t.score(&paths[k])) })
		t.paths = paths[:min(len(paths), t.width)]
	}
	return nil
}

// asked reports whether it is known how the path adds biases.
func (w *trail) asked() bool { _, ok := w.usual[emulate.AtBias]; return ok }

// learn returns the path after a node that has a point and is stored or not.
func (w trail) learn(at emulate.Points, stored bool) trail {
	if usual, ok := w.usual[at]; ok && usual != stored {
		w.unlikely += otherwise
	}
	w.usual = maps.Clone(w.usual)
	w.usual[at] = stored
	return w
}

// node returns what node i of a pattern gives behind a path.
func (t *tracer) node(w *trail, p emulate.Pattern, i int) (*tensor.Tensor, error) {
	return t.g.e.Machine.Node(t.g.device(p, t.m.Step, nil), i, t.inputs(i, w.of), t.m.Draws.Rewind())
}

// next returns the states of a pattern behind a path whose nodes behind i are
// exact; len(nodes) for the policy.
func (t *tracer) next(w *trail, p emulate.Pattern, i int) ([]float64, error) {
	machine := t.g.e.Machine
	o := w.of[len(machine.Nodes)-1]
	if i < len(machine.Nodes) {
		y, err := t.node(w, p, i)
		if err != nil {
			return nil, err
		}
		known := map[int]*tensor.Tensor{i: y}
		for k, of := range w.of[:i] {
			if of != nil {
				known[k] = of
			}
		}
		if o, err = machine.Rest(&emulate.Device{Mode: p.Mode, Wide: emulate.WideAll}, t.m.X, known,
			t.m.Draws.Rewind()); err != nil {
			return nil, err
		}
		p = emulate.Pattern{Mode: p.Mode}
	}
	next := t.g.advance(t.m.X, o, p, nil)
	if t.g.twofold(p) {
		return t.g.closest(t.m.Got, next, t.m.X, o, p), nil
	}
	return next.Data, nil
}

// forget drops the inputs of node i that nobody reads after it.
func (t *tracer) forget(of []*tensor.Tensor, i int) {
	nodes := t.g.e.Machine.Nodes
	for _, j := range nodes[i].In {
		if j != operator.Input &&
			!slices.ContainsFunc(nodes[i+1:], func(n operator.Node) bool { return slices.Contains(n.In, j) }) {
			of[j] = nil
		}
	}
}

func (t *tracer) inputs(i int, of []*tensor.Tensor) []*tensor.Tensor {
	var in []*tensor.Tensor
	for _, j := range t.g.e.Machine.Nodes[i].In {
		if j == operator.Input {
			in = append(in, t.m.X)
		} else {
			in = append(in, of[j])
		}
	}
	return in
}
