package oracle

import (
	"slices"

	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// Of a large operator the plans of two modes are kept, no more: a step may need
// that of the claim and that of what the device does.
const (
	mostPlanned = 2
	largePlans  = 1 << 27 // bytes
)

// forward is the operator's Forward by a compiled plan: the same bits, sooner.
func (e *evidence) forward(mode operator.Mode, x *tensor.Tensor, draws noise.Draws) (*tensor.Tensor, error) {
	if !slices.Contains(e.planned, mode) {
		if len(e.planned) == mostPlanned {
			e.forgetPlans()
		}
		e.planned = append(e.planned, mode)
	}
	p := e.op.Borrow(mode, x.N(), x.H(), x.W())
	defer e.op.Return(p)
	y := tensor.New(e.op.Output(mode), x.N(), e.op.Config.OutputChannels, x.H(), x.W())
	if err := p.Forward(y, x, draws, noise.Time{}); err != nil {
		return nil, err
	}
	return y, nil
}

// forgetPlans drops the plans of a large operator, which are made again when they
// are asked for.
func (e *evidence) forgetPlans() {
	e.planned = nil
	if e.op.Bytes()+e.op.PlanBytes() > largePlans {
		e.op.Forget()
	}
}
