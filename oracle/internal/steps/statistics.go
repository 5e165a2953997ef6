package steps

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// A float32 device may add up a mean or a variance one number after another, which of thousands of numbers is ten times
// as inexact as in a tree. That is one error for all that are normalized with it: where a step has large errors, those
// of a right device are a sum of what each mean and each variance does to the states, and those of an inexact function
// are not. So such a step is judged once more by what errors of statistics leave.

// statistics returns the first step of a fine claim's device whose errors are beyond what right devices leave without
// those of the statistics of norms; nil if none is. Only steps are asked that have larger errors than statistics added
// up in blocks make.
func (g *stepGate) statistics(all []*stepFigures) (*verdictOn, error) {
	if g.claim.Discrete() || g.normalizers() == nil {
		return nil, nil
	}
	of := map[int]*stepFigures{}
	for _, f := range all {
		if f.batch == 0 && f.of >= wellKnown && f.sumZ > truncated*truncated*f.count {
			of[f.step] = f
		}
	}
	beyond := func(t int) (*verdictOn, error) {
		f := of[t]
		if f == nil || g.e.Late("errors that statistics leave") {
			return nil, nil
		}
		x, err := g.unshared(t)
		if x == nil || err != nil {
			return nil, err
		}
		return &verdictOn{x, f}, nil
	}
	for _, t := range g.fullSteps() {
		bad, err := beyond(t)
		for before := bad; before != nil && err == nil; t-- {
			bad = before
			before, err = beyond(t - 1)
		}
		if bad != nil || err != nil {
			return bad, err
		}
	}
	return nil, nil
}

// squaresAsked is how many devices say what a mean square may be, by their own variance (see spreads.limit).
const squaresAsked = 12

// unshared judges one step without errors of statistics.
func (g *stepGate) unshared(t int) (*stepFault, error) {
	b, err := g.step(t)
	if err != nil {
		return nil, err
	}
	if err := g.begin(b); err != nil {
		return nil, err
	}
	m, err := g.measure(g.part(b, fullElements))
	if err != nil {
		return nil, err
	}
	shared, err := g.shared(m)
	if err != nil {
		return nil, err
	}
	rest := func(v []float64) float64 {
		r, _ := g.leveled(m, v, m.ref, true)
		shared.take(r)
		return meanOf(r)
	}
	var h spread
	for k := range squaresAsked {
		y, err := g.member(m.BatchStep, g.use, k, tiled/truncated, truncated)
		if err != nil {
			return nil, err
		}
		h.add(rest(y.Data))
	}
	q, limit := rest(m.Got), chernoff(h.upper(), 1.5*h.variance()+float64(h.upper()*h.upper())*1e-3)
	if !(q > limit) {
		return nil, nil
	}
	return &stepFault{kind: measure.InAll, gate: "conformity", slice: "what errors of statistics do not explain",
		value: math.Sqrt(q), limit: math.Sqrt(limit), excess: math.Sqrt(q / limit), at: -1}, nil
}

// normalizers are the norms that form statistics of their input.
func (g *stepGate) normalizers() (l []int) {
	for i, n := range g.e.Machine.Nodes {
		if emulate.IsNorm(&n) && n.Norm != "batch" {
			l = append(l, i)
		}
	}
	return l
}

// together are the errors that numbers have together: orthonormal vectors of each realization.
type together struct {
	per int // numbers of a realization
	of  [][][]float64
}

// add takes in what one such error does to all states, in expected deviations.
func (s *together) add(r []float64) {
	for n := range s.of {
		v := r[n*s.per : (n+1)*s.per]
		size := 0.0
		for k, x := range v {
			if x != x {
				v[k] = 0
			}
			size += v[k] * v[k]
		}
		s.out(n, v)
		s.out(n, v) // once more, for what rounding left
		left := measure.MeanSquare(v) * float64(len(v))
		if !(left > 1e-12*size) {
			continue // others have it
		}
		for k := range v {
			v[k] /= math.Sqrt(left)
		}
		s.of[n] = append(s.of[n], v)
	}
}

// take takes all of them from a residual.
func (s *together) take(r []float64) {
	for n := range s.of {
		s.out(n, r[n*s.per:(n+1)*s.per])
	}
}

func (s *together) out(n int, v []float64) {
	for _, q := range s.of[n] {
		sum := 0.0
		for k, x := range v {
			if x == x {
				sum += float64(x * q[k])
			}
		}
		for k := range v {
			v[k] -= float64(sum * q[k])
		}
	}
}

// shared returns what an error of each mean and of each variance of the norms does to the states that follow.
func (g *stepGate) shared(m *measured) (*together, error) {
	of := map[int]*tensor.Tensor{}
	d := &emulate.Device{Mode: g.use.Mode, Wide: emulate.WideAll, Seen: func(i int, y *tensor.Tensor) { of[i] = y }}
	o, err := g.e.Machine.Operator(d, m.X, m.Draws.Rewind())
	if err != nil {
		return nil, err
	}
	next := func(o *tensor.Tensor) []float64 {
		return g.advance(m.X, o, emulate.Pattern{Mode: graph.Mode{Precision: fp16.Float64}}, nil).Data
	}
	base, s := next(o), &together{len(m.Got) / m.X.N(), make([][][]float64, m.X.N())}
	d.Seen = nil
	for _, i := range g.normalizers() {
		known := map[int]*tensor.Tensor{}
		for k := range i {
			known[k] = of[k]
		}
		for group := range g.e.Machine.Nodes[i].Groups {
			for _, ofMean := range [2]bool{true, false} {
				known[i] = moved(&g.e.Machine.Nodes[i], of[i], group, ofMean)
				o, err := g.e.Machine.Rest(d, m.X, known, g.drawsAfter(i, m.Draws))
				if err != nil {
					return nil, err
				}
				r, _ := g.leveled(m, next(o), base, true)
				s.add(r)
			}
		}
	}
	return s, nil
}

// moved returns a norm's output y = a (x-m)/d + b with another mean, or another variance, of one group of its channels:
// y moves by a number times a, or times y - b. That is about as much as errors are, and the states go linearly with it.
func moved(n *operator.Node, y *tensor.Tensor, group int, ofMean bool) *tensor.Tensor {
	const small = 0x1p-20
	y = y.Clone()
	size := y.C() / n.Groups
	for p := range y.N() * y.C() {
		c := p % y.C()
		if c/size != group {
			continue
		}
		gain, shift := 1.0, 0.0
		if n.Weight != nil {
			gain, shift = n.Weight.Data[c], n.Bias.Data[c]
		}
		plane := y.Plane(p/y.C(), c)
		for k, v := range plane {
			by := v - shift
			if ofMean {
				by = gain
			}
			plane[k] = v + float64(small*by)
		}
	}
	return y
}

// drawsAfter returns the draws of the noise behind node i, nil if there are none.
func (g *stepGate) drawsAfter(i int, all *emulate.Draws) noise.Draws {
	if all == nil {
		return nil
	}
	return g.drawsOf(i+1, all).Rewind()
}
