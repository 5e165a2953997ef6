package oracle

import (
	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// residualFaults are those of the sums of residual blocks. The first input is
// the block's, the second the shortcut's.
func residualFaults() []*hypothesis {
	sum := func(name string, f func(a, b float64) float64) *hypothesis {
		return &hypothesis{name: name, verdict: report.FailLogic, at: isAdd, node: func(_ *view, r *run, i int) *tensor.Tensor {
			a, b := r.in(i, 0), r.in(i, 1)
			y := tensor.Like(a)
			for k, v := range a.Data {
				y.Data[k] = f(v, b.Data[k])
			}
			return y
		}}
	}
	// activated applies the block's activation, node j, to the sum of the shortcut
	// with its input or its output.
	activated := func(name string, of func(r *run, j int) *tensor.Tensor) *hypothesis {
		return &hypothesis{name: name, verdict: report.FailLogic, at: isAdd, node: func(v *view, r *run, i int) *tensor.Tensor {
			j := v.m.Nodes[i].In[0]
			if j == operator.Input || !isAct(&v.m.Nodes[j]) || of(r, j) == nil {
				return nil
			}
			y := of(r, j).Clone()
			for k, u := range r.in(i, 1).Data {
				y.Data[k] += u
			}
			z := tensor.Like(y)
			act.Forward(z, y, v.m.Nodes[j].Act)
			return z
		}}
	}
	return []*hypothesis{
		sum("residual missing", func(a, _ float64) float64 { return a }),
		sum("residual added twice", func(a, b float64) float64 { return a + 2*b }),
		sum("residual block missing", func(_, b float64) float64 { return b }),
		sum("residual subtracted", func(a, b float64) float64 { return a - b }),
		sum("residual block added twice", func(a, b float64) float64 { return 2*a + b }),
		sum("residual sum halved", func(a, b float64) float64 { return (a + b) / 2 }),
		activated("residual added before the activation", func(r *run, j int) *tensor.Tensor { return r.in(j, 0) }),
		activated("activation after the residual sum too", func(r *run, j int) *tensor.Tensor { return r.out(j) }),
		{name: "projection missing", verdict: report.FailLogic, at: isAdd, node: func(v *view, r *run, i int) *tensor.Tensor {
			j := v.m.Nodes[i].In[1]
			if j == operator.Input || !isConv(&v.m.Nodes[j]) || r.in(j, 0) == nil {
				return nil
			}
			// The shortcut itself, as many channels as there are.
			a, b := r.in(i, 0), r.in(j, 0)
			y := a.Clone()
			for n := range y.N() {
				for c := range min(y.C(), b.C()) {
					to, from := y.Plane(n, c), b.Plane(n, c)
					for k := range to {
						to[k] += from[k]
					}
				}
			}
			return y
		}},
	}
}
