package fault

import (
	"math"

	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// statistics is what may be changed about a norm.
type statistics struct {
	groups      int // 0 for statistics that are given
	overBatch   bool
	given       bool
	gamma, beta float64 // 1, or 0 for a gamma of 1 and a beta of 0
	squared     bool    // gamma twice
	// moments changes mean and biased variance of n numbers.
	moments func(xs []float64, mean, variance float64) (float64, float64)
	// inverse returns the factor that divides by the standard deviation.
	inverse func(variance, eps float64) float64
}

// normalize evaluates a norm node with those changes, in float64.
func normalize(x *tensor.Tensor, n *operator.Node, s statistics) *tensor.Tensor {
	y := tensor.Like(x)
	inverse := s.inverse
	if inverse == nil {
		inverse = func(v, eps float64) float64 { return 1 / math.Sqrt(v+eps) }
	}
	hw := x.H() * x.W()
	scale := func(c int, m, f float64, from, to []float64) {
		g, b := n.Weight.Data[c], n.Bias.Data[c]
		if s.gamma == 0 {
			g = 1
		}
		if s.squared {
			g *= g
		}
		for i, v := range from {
			to[i] = float64((v-m)*f*g) + float64(s.beta*b)
		}
	}
	changed := func(xs []float64) (m, v float64) {
		m, v = measure.Moments(xs)
		if s.moments != nil {
			m, v = s.moments(xs, m, v)
		}
		return m, v
	}
	switch {
	case s.given:
		for k := range x.N() * x.C() {
			c := k % x.C()
			scale(c, n.Mean.Data[c], inverse(n.Variance.Data[c], n.Eps), x.Plane(k/x.C(), c), y.Plane(k/x.C(), c))
		}
	case s.overBatch:
		per := x.C() / s.groups
		for g := range s.groups {
			all := make([]float64, 0, x.N()*per*hw)
			for k := range x.N() * per {
				all = append(all, x.Plane(k/per, g*per+k%per)...)
			}
			m, v := changed(all)
			for k := range x.N() * per {
				c := g*per + k%per
				scale(c, m, inverse(v, n.Eps), x.Plane(k/per, c), y.Plane(k/per, c))
			}
		}
	default:
		per := x.C() / s.groups
		for k := range x.N() * s.groups {
			first := k * per // plane of the batch
			m, v := changed(x.Data[first*hw : (first+per)*hw])
			for p := first; p < first+per; p++ {
				scale(p%x.C(), m, inverse(v, n.Eps), x.Plane(p/x.C(), p%x.C()), y.Plane(p/x.C(), p%x.C()))
			}
		}
	}
	return y
}

// claimed returns the statistics that a norm node is claimed to use.
func claimed(n *operator.Node) statistics {
	return statistics{groups: n.Groups, given: n.Norm == "batch", gamma: 1, beta: 1}
}

func normFault(row *table.Row, f func(s *statistics, x *tensor.Tensor, n *operator.Node) bool) *trial.Fault {
	return &trial.Fault{Row: row, At: emulate.IsNorm, Node: func(v *trial.View, i int) *tensor.Tensor {
		return otherwise(&v.Machine.Nodes[i], v.In(i, 0), f)
	}}
}

func otherwise(
	n *operator.Node, x *tensor.Tensor, f func(s *statistics, x *tensor.Tensor, n *operator.Node) bool,
) *tensor.Tensor {
	s := claimed(n)
	if !f(&s, x, n) {
		return nil
	}
	return normalize(x, n, s)
}

// reordered returns the parameter with each channel's number from another one.
func reordered(p *operator.Param, from func(c, n int) int) *operator.Param {
	q := *p
	q.Data = make([]float64, len(p.Data))
	for c := range q.Data {
		q.Data[c] = p.Data[from(c, len(q.Data))]
	}
	return &q
}
