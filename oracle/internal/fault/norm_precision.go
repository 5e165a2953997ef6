package fault

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// onePass returns mean and E x^2 - mean^2, not below 0, of sums that are rounded
// to f by blocks, as a tree of adders forms them.
func onePass(xs []float64, f fp16.Format) (mean, variance float64) {
	sum := tree(xs, f, func(v float64) float64 { return v })
	squares := tree(xs, f, func(v float64) float64 { return f.Round(v * v) })
	n := float64(len(xs))
	mean = f.Round(sum / n)
	return mean, max(f.Round(f.Round(squares/n)-f.Round(mean*mean)), 0)
}

func tree(xs []float64, f fp16.Format, of func(float64) float64) float64 {
	if len(xs) == 1 {
		return of(xs[0])
	}
	h := len(xs) / 2
	return f.Round(tree(xs[:h], f, of) + tree(xs[h:], f, of))
}

// inFormat returns the parameter rounded to f.
func inFormat(p *operator.Param, f fp16.Format) *operator.Param {
	q := *p
	q.Data = make([]float64, len(p.Data))
	f.RoundSlice(q.Data, p.Data)
	return &q
}

// centred is a norm whose x - mean, 1/sqrt(var+eps) and their product are
// rounded to f.
func centred(f fp16.Format) *trial.Fault {
	return &trial.Fault{Row: Named("norm.x-mean-and-its-quotient-in", f), At: emulate.IsNorm,
		Node: func(v *trial.View, i int) *tensor.Tensor {
			n, x := &v.Machine.Nodes[i], v.In(i, 0)
			if n.Norm == "batch" {
				return nil
			}
			y, hw, per := tensor.Like(x), x.H()*x.W(), x.C()/n.Groups
			for k := range x.N() * n.Groups {
				m, variance := measure.Moments(x.Data[k*per*hw : (k+1)*per*hw])
				m, s := f.Round(m), f.Round(1/math.Sqrt(variance+n.Eps))
				for p := k * per; p < (k+1)*per; p++ {
					from, to := x.Plane(p/x.C(), p%x.C()), y.Plane(p/x.C(), p%x.C())
					for j, u := range from {
						to[j] = float64(f.Round(f.Round(u-m)*s)*n.Weight.Data[p%x.C()]) + n.Bias.Data[p%x.C()]
					}
				}
			}
			return y
		}}
}
