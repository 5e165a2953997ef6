package steps

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// ties are the statistics of plain norms that lie beside a tie in a step, and
// the ones that an emulation is to round the other way.
type ties struct {
	found []tie
	other map[tie]bool
}

// tie is a statistic of a norm's plane; near is how near it is to a tie.
type tie struct {
	node, plane, which int
	sample             int
	near               float64
}

// otherwise holds a device that is right by the claim against what the operator allows
// beside it: statistics of norms in the half type, and multiplicative noise as a sum. It
// uses such a pattern if a step is nearer to it. What these change may lie within all
// limits, and yet be found as a fault.
func (g *stepGate) otherwise() (bool, error) {
	l := g.allowed(g.claim)
	for _, t := range g.fullSteps() {
		if len(l) == 0 || g.e.Late(fmt.Sprintf("what the operator allows at step %d", t)) {
			break
		}
		b, err := g.step(t)
		if err != nil {
			return false, err
		}
		m, claimed, err := g.fromClaim(b)
		if err != nil {
			return false, err
		}
		for _, p := range l {
			c, err := g.compare(m, p)
			if err != nil {
				return false, err
			}
			if c.clearer(claimed) {
				g.use = p
				return true, nil
			}
		}
	}
	return false, nil
}

// allowed returns the patterns that an operator's norms and noise allow beside p, where
// it has such.
func (g *stepGate) allowed(p emulate.Pattern) (l []emulate.Pattern) {
	nodes := g.e.Machine.Nodes
	if slices.Contains(emulate.PlainNorms(g.e.Op.Config, nodes, g.claim.Mode), true) {
		plain := p
		plain.Plain = true
		l = append(l, plain)
	}
	if p.Half() && slices.ContainsFunc(nodes, func(n operator.Node) bool {
		return emulate.IsNoise(&n) && n.Noise.Type == noise.Multiplicative
	}) {
		for _, q := range append([]emulate.Pattern{p}, l...) {
			q.Added = true
			l = append(l, q)
		}
	}
	return l
}

// keeping returns replace with the ties rounded as they were found to be.
func (g *stepGate) keeping(
	replace func(int, []*tensor.Tensor) (*tensor.Tensor, error),
) func(int, []*tensor.Tensor) (*tensor.Tensor, error) {
	other := g.rounded
	return func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		g.ties = &ties{other: other}
		defer func() { g.ties = nil }()
		return replace(i, in)
	}
}

// mostTies is how many ties of a sample are tried.
const mostTies = 6

// loose is the share of a norm's inputs that a device may have rounded the other
// way, in layers that are not seen.
const loose = 0.05

// plainNorm is a norm with statistics in f.
func (g *stepGate) plainNorm(i int, f fp16.Format, x *tensor.Tensor) *tensor.Tensor {
	y := tensor.Like(x)
	for p := range x.N() * x.C() {
		from, to := x.Plane(p/x.C(), p%x.C()), y.Plane(p/x.C(), p%x.C())
		s := emulate.Narrowly(f, from, g.e.Machine.Nodes[i].Eps, loose)
		var other [2]bool
		if g.ties != nil {
			for k, near := range s.Beside() {
				t := tie{i, p, k, p / x.C(), 0}
				if near < 1 && g.ties.other[t] {
					other[k] = true
				} else if near < 1 {
					t.near = near
					g.ties.found = append(g.ties.found, t)
				}
			}
		}
		mean, inverse := s.Round(other)
		emulate.Standardized(to, from, &g.e.Machine.Nodes[i], p, mean, inverse)
	}
	return y
}

// settled is emulation for a plain pattern. A statistic beside a tie is rounded
// as brings the sample nearer to what the device has: one after another, of all
// samples at once, since they have little to do with each other. States are
// compared as the device may have normalized them: one rounding of the least or
// the greatest number moves all of them as much as a statistic does.
func (g *stepGate) settled(m *measured, p emulate.Pattern) (next, o *tensor.Tensor, err error) {
	g.ties = &ties{other: map[tie]bool{}}
	defer func() { g.ties, g.rounded = nil, g.ties.other }()
	if next, o, err = g.emulation(m.BatchStep, p); err != nil {
		return nil, nil, err
	}
	of := make([][]tie, m.X.N())
	for _, t := range g.ties.found {
		of[t.sample] = append(of[t.sample], t)
	}
	for _, l := range of {
		sort.SliceStable(l, func(i, k int) bool { return cmp.Less(l[i].near, l[k].near) })
	}
	size, outs := len(m.Got)/m.X.N(), len(o.Data)/m.X.N()
	far := func(y, o *tensor.Tensor) []float64 {
		v, sums := g.chosen(m, y, o, p), make([]float64, m.X.N())
		for i := range v {
			if d := (m.Got[i] - v[i]) / m.s[i]; measure.Finite(d) {
				sums[i/size] += math.Abs(d)
			}
		}
		return sums
	}
	least := far(next, o)
	for k := range mostTies {
		var tried []tie
		for _, l := range of {
			if k < len(l) {
				t := l[k]
				t.near = 0
				tried = append(tried, t)
				g.ties.other[t] = true
			}
		}
		if len(tried) == 0 {
			break
		}
		y, q, err := g.emulation(m.BatchStep, p)
		if err != nil {
			return nil, nil, err
		}
		is := far(y, q)
		for _, t := range tried {
			if n := t.sample; is[n] < least[n] {
				least[n] = is[n]
				copy(o.Data[n*outs:(n+1)*outs], q.Data[n*outs:])
			} else {
				delete(g.ties.other, t)
			}
		}
	}
	return g.advance(m.X, o, p, nil), o, nil
}
