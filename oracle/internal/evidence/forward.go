package evidence

import (
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// Of a large operator the plans of two modes are kept, no more: a step may need
// that of the claim and that of what the device does.
const (
	mostPlanned = 2
	largePlans  = 1 << 27 // bytes
)

// Forward is the operator's Forward by a compiled plan: the same bits, sooner.
func (e *Evidence) Forward(mode graph.Mode, x *tensor.Tensor, draws noise.Draws) (*tensor.Tensor, error) {
	if !slices.Contains(e.planned, mode) {
		if len(e.planned) == mostPlanned {
			e.ForgetPlans()
		}
		e.planned = append(e.planned, mode)
	}
	p := e.Op.Borrow(mode, x.N(), x.H(), x.W())
	defer e.Op.Return(p)
	y := tensor.New(e.Op.Output(mode), x.N(), e.Op.Config.OutputChannels, x.H(), x.W())
	if err := p.Forward(y, x, draws, noise.Time{}); err != nil {
		return nil, err
	}
	return y, nil
}

// ForgetPlans drops the plans of a large operator, which are made again when they
// are asked for.
func (e *Evidence) ForgetPlans() {
	e.planned = nil
	if e.Op.Bytes()+e.Op.PlanBytes() > largePlans {
		e.Op.Forget()
	}
}
