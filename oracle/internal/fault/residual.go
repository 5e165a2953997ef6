package fault

import (
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// residualFaults are those of the sums of residual blocks. The first input is
// the block's, the second the shortcut's.
func residualFaults() []*trial.Fault {
	sum := func(row *table.Row, f func(a, b float64) float64) *trial.Fault {
		return &trial.Fault{Row: row, At: emulate.IsAdd, Node: func(v *trial.View, i int) *tensor.Tensor {
			a, b := v.In(i, 0), v.In(i, 1)
			y := tensor.Like(a)
			for k, v := range a.Data {
				y.Data[k] = f(v, b.Data[k])
			}
			return y
		}}
	}
	// activated applies the block's activation, node j, to the sum of the shortcut
	// with its input or its output.
	activated := func(row *table.Row, of func(v *trial.View, j int) *tensor.Tensor) *trial.Fault {
		return &trial.Fault{Row: row, At: emulate.IsAdd, Node: func(v *trial.View, i int) *tensor.Tensor {
			j := v.Machine.Nodes[i].In[0]
			if j == operator.Input || !emulate.IsAct(&v.Machine.Nodes[j]) || of(v, j) == nil {
				return nil
			}
			y := of(v, j).Clone()
			for k, u := range v.In(i, 1).Data {
				y.Data[k] += u
			}
			z := tensor.Like(y)
			act.Forward(z, y, v.Machine.Nodes[j].Act)
			return z
		}}
	}
	return []*trial.Fault{
		sum(Named("residual.residual-missing"), func(a, _ float64) float64 { return a }),
		sum(Named("residual.residual-added-twice"), func(a, b float64) float64 { return a + 2*b }),
		sum(Named("residual.residual-block-missing"), func(_, b float64) float64 { return b }),
		sum(Named("residual.residual-subtracted"), func(a, b float64) float64 { return a - b }),
		sum(Named("residual.residual-block-added-twice"), func(a, b float64) float64 { return 2*a + b }),
		sum(Named("residual.residual-sum-halved"), func(a, b float64) float64 { return (a + b) / 2 }),
		activated(Named("residual.residual-added-before-the-activation"),
			func(v *trial.View, j int) *tensor.Tensor { return v.In(j, 0) }),
		activated(Named("residual.activation-after-the-residual-sum-too"),
			func(v *trial.View, j int) *tensor.Tensor { return v.Out(j) }),
		{Row: Named("residual.projection-missing"), At: emulate.IsAdd,
			Node: func(v *trial.View, i int) *tensor.Tensor {
				j := v.Machine.Nodes[i].In[1]
				if j == operator.Input || !emulate.IsConv(&v.Machine.Nodes[j]) || v.In(j, 0) == nil {
					return nil
				}
				// The shortcut itself, as many channels as there are.
				a, b := v.In(i, 0), v.In(j, 0)
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
