package oracle

import (
	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// residualFaults are those of the sums of residual blocks. The first input is
// the block's, the second the shortcut's.
func residualFaults() []*hypothesis {
	sum := func(name string, f func(a, b float64) float64) *hypothesis {
		return &hypothesis{name: name, verdict: FailLogic, probe: "integer-fill", at: isAdd, node: func(_ *view, r *run, i int) *tensor.Tensor {
			a, b := r.in(i, 0), r.in(i, 1)
			y := tensor.Like(a)
			for k, v := range a.Data {
				y.Data[k] = f(v, b.Data[k])
			}
			return y
		}}
	}
	return []*hypothesis{
		sum("residual missing", func(a, _ float64) float64 { return a }),
		sum("residual added twice", func(a, b float64) float64 { return a + 2*b }),
		sum("residual block missing", func(_, b float64) float64 { return b }),
		sum("residual subtracted", func(a, b float64) float64 { return a - b }),
		sum("residual block added twice", func(a, b float64) float64 { return 2*a + b }),
		sum("residual sum halved", func(a, b float64) float64 { return (a + b) / 2 }),
		{name: "residual added before the activation", verdict: FailLogic, probe: "integer-fill", at: isAdd, node: func(v *view, r *run, i int) *tensor.Tensor {
			j := v.m.Nodes[i].In[0]
			if j == operator.Input || !isAct(&v.m.Nodes[j]) || r.in(j, 0) == nil {
				return nil
			}
			a, b := r.in(j, 0), r.in(i, 1)
			y := tensor.Like(a)
			for k, u := range a.Data {
				y.Data[k] = u + b.Data[k]
			}
			z := tensor.Like(y)
			act.Forward(z, y, v.m.Nodes[j].Act)
			return z
		}},
		{name: "activation after the residual sum too", verdict: FailLogic, probe: "integer-fill", at: isAdd, node: func(v *view, r *run, i int) *tensor.Tensor {
			j := v.m.Nodes[i].In[0]
			if j == operator.Input || !isAct(&v.m.Nodes[j]) {
				return nil
			}
			a, b := r.in(i, 0), r.in(i, 1)
			y := tensor.Like(a)
			for k, u := range a.Data {
				y.Data[k] = u + b.Data[k]
			}
			z := tensor.Like(y)
			act.Forward(z, y, v.m.Nodes[j].Act)
			return z
		}},
		{name: "projection missing", verdict: FailLogic, probe: "integer-fill", at: isAdd, node: func(v *view, r *run, i int) *tensor.Tensor {
			j := v.m.Nodes[i].In[1]
			if j == operator.Input || !isConv(&v.m.Nodes[j]) || r.in(j, 0) == nil {
				return nil
			}
			// The shortcut itself, as many channels as there are.
			a, b := r.in(i, 0), r.in(j, 0)
			y := a.Clone()
			for n := range y.N {
				for c := range min(y.C, b.C) {
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
