package oracle

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// trace finds, front to back, what a device of a half mode stores, node by
// node; it is for devices that no usual combination of kinds describes.
//
// The residual of a step is the sum of what every rounding of the device makes of
// it. The roundings of the first node are known whatever follows, those of the
// second once it is known whether the first is stored, and so on: each is decided
// with those before it as found, and all behind it exact. With r the residual
// without a rounding, and d what it does,
//
//	c = <r,d>/<d,d>
//
// is 1 if the device makes the rounding and 0 if not, with a standard deviation of
// rms(r)/|d|. Where that is too large to tell, a node does as the others of its
// kind before it do.
func (g *stepGate) trace(m *measured, mode operator.Mode) (candidate, error) {
	nodes := g.e.machine.Nodes
	t := &tracer{g: g, m: m, p: pattern{mode: mode}, of: make([]*tensor.Tensor, len(nodes)), usual: map[points]bool{}}
	all := pointsOf(nodes, g.e.c.Rollout, mode)
	stored := formatsOf(nodes, mode, g.input(mode, m.Step))
	for i := range nodes {
		var at []points
		n := &nodes[i]
		if n.Op == operator.OpConv && n.Bias != nil && all&atBias != 0 {
			at = append(at, atBias)
		}
		if stored[i] == mode.Precision {
			if n.Op == operator.OpNoise && n.Noise.Type != noise.Dropout {
				at = append(at, atDraw, atProduct)
			}
			at = append(at, pointOf(nodes, i))
		}
		if err := t.decide(i, at); err != nil {
			return candidate{}, err
		}
		var err error
		if t.of[i], err = t.node(i, t.p); err != nil {
			return candidate{}, err
		}
	}
	if err := t.decide(len(nodes), []points{all & atShare}); err != nil {
		return candidate{}, err
	}
	p := t.p.byKind(nodes, stored)
	re, err := g.distance(m, p)
	return candidate{p, re}, err
}

// mostTraced is how many nodes a pattern can tell apart.
const mostTraced = 64

// surely is by how many standard deviations a rounding must differ from the
// usual ones of its kind to be another.
const surely = 4

// tracer is a trace at work.
type tracer struct {
	g     *stepGate
	m     *measured
	p     pattern          // as found so far, nodes by odd
	of    []*tensor.Tensor // what its nodes give
	usual map[points]bool  // whether the last node that had a point is stored
}

// decide finds which of some points of node i are stored.
func (t *tracer) decide(i int, at []points) error {
	without, err := t.next(t.p, i)
	if err != nil {
		return err
	}
	for _, at := range at {
		p := t.p
		switch {
		case at == 0 || at == atBias && p.points&atBias != 0: // of all convolutions
			continue
		case at&(atBias|atDraw|atProduct|atShare) != 0:
			p.points |= at
		default:
			p.odd |= 1 << i
		}
		with, err := t.next(p, i)
		if err != nil {
			return err
		}
		kept, sure := t.made(without, with)
		if usual, ok := t.usual[at]; ok && sure < surely {
			kept = usual
		}
		t.usual[at] = kept
		if kept {
			t.p, without = p, with
		}
	}
	return nil
}

// made reports whether the device makes the rounding that the states with have and
// those without it have not, and by how many standard deviations that is known.
func (t *tracer) made(without, with []float64) (yes bool, sure float64) {
	r, after := t.g.against(t.m, t.m.Got, without), t.g.against(t.m, t.m.Got, with)
	var rr, rd, dd, n float64
	for i, v := range r {
		if d := v - after[i]; d == d {
			rr, rd, dd, n = rr+float64(v*v), rd+float64(v*d), dd+float64(d*d), n+1
		}
	}
	if !(dd > 0) {
		return false, 0
	}
	sd := math.Sqrt(rr / n / dd)
	c := rd / dd
	return c > 0.5, math.Abs(c-0.5) / sd
}

// node returns what node i of a pattern gives.
func (t *tracer) node(i int, p pattern) (*tensor.Tensor, error) {
	return t.g.e.machine.Node(t.g.device(p, t.m.Step, nil), i, t.inputs(i, t.of), t.m.Draws.Rewind())
}

// next returns the states of a pattern whose nodes behind i are exact; len(nodes)
// for the policy.
func (t *tracer) next(p pattern, i int) ([]float64, error) {
	nodes := t.g.e.machine.Nodes
	of := append([]*tensor.Tensor(nil), t.of...)
	exact := &emulate.Device{Mode: p.mode, WideInput: true}
	for k := i; k < len(nodes); k++ {
		var err error
		if k == i {
			of[k], err = t.node(k, p)
		} else {
			of[k], err = t.g.e.machine.Node(exact, k, t.inputs(k, of), t.m.Draws.Rewind())
		}
		if err != nil {
			return nil, err
		}
	}
	if i < len(nodes) {
		p = pattern{mode: p.mode}
	}
	o := of[len(nodes)-1]
	next := t.g.advance(t.m.X, o, p, nil).Data
	if p.points&atShare != 0 {
		p.twice = true
		next = nearer(t.m.Got, next, t.g.advance(t.m.X, o, p, nil).Data)
	}
	return next, nil
}

func (t *tracer) inputs(i int, of []*tensor.Tensor) []*tensor.Tensor {
	var in []*tensor.Tensor
	for _, j := range t.g.e.machine.Nodes[i].In {
		if j == operator.Input {
			in = append(in, t.m.X)
		} else {
			in = append(in, of[j])
		}
	}
	return in
}

// byKind returns the same pattern, told by kinds where most nodes of a kind are
// stored; of has the formats of the contract.
func (p pattern) byKind(nodes []operator.Node, of []fp16.Format) pattern {
	kept := map[points]int{}
	for i := range nodes {
		if at := pointOf(nodes, i); of[i] == p.mode.Precision {
			kept[at] += 2*int(p.odd>>i&1) - 1
		}
	}
	for i := range nodes {
		if at := pointOf(nodes, i); of[i] == p.mode.Precision && kept[at] > 0 {
			p.points |= at
			p.odd ^= 1 << i
		}
	}
	return p
}
