package layers

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// plainAnswer is the answer of such a norm for recorded inputs x. Where a
// statistic is beside a tie, got (nil if unknown) says how it was rounded.
func (g *layerGate) plainAnswer(n *operator.Node, x, got *tensor.Tensor) *answer {
	f := g.mode.Precision
	y := tensor.Like(x)
	bound, sd := make([]float64, len(x.Data)), make([]float64, len(x.Data))
	hw := x.H() * x.W()
	for p := range x.N() * x.C() {
		from, to := x.Plane(p/x.C(), p%x.C()), y.Plane(p/x.C(), p%x.C())
		s := emulate.Narrowly(f, from, n.Eps, 0)
		mean, inverse := s.Round([2]bool{})
		emulate.Standardized(to, from, n, p, mean, inverse)
		if got != nil {
			least := unlike(f, got.Plane(p/x.C(), p%x.C()), to)
			trial := make([]float64, hw)
			for _, other := range s.Choices() {
				m, r := s.Round(other)
				emulate.Standardized(trial, from, n, p, m, r)
				if d := unlike(f, got.Plane(p/x.C(), p%x.C()), trial); d < least {
					least, mean, inverse = d, m, r
					copy(to, trial)
				}
			}
		}
		for k, v := range from {
			by := math.Abs(inverse * n.Weight.Data[p%x.C()])
			a, b, c := math.Abs(v)*by, math.Abs(mean)*by, math.Abs(to[k])
			bound[p*hw+k] = float64(g.u*(2*a+3*b+math.Abs(n.Bias.Data[p%x.C()])+c)) + tiny
			sd[p*hw+k] = roundingSD * g.u * math.Sqrt(float64(2*a*a)+float64(2*b*b)+float64(c*c))
		}
	}
	return around(emulate.PlainHow(f), y.Data, bound, sd)
}

// unlike counts the numbers that differ after rounding.
func unlike(f fp16.Format, got, y []float64) (n int) {
	for k, v := range got {
		if f.Round(y[k]) != v {
			n++
		}
	}
	return n
}
