package rollout

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Advance returns the states that follow from the states x of one engine batch
// and the operator's output for them, in the given format: the policy, every
// operation of which rounds as the mode says, and the post-processing. With
// Float64 nothing is rounded.
func (c Config) Advance(x, out *tensor.Tensor, f fp16.Format, m graph.Mode) *tensor.Tensor {
	next := tensor.New(f, x.N(), x.C(), x.H(), x.W())
	update(next, x, out, c, m)
	s := Stepper{Config: c}
	s.postProcess(next)
	return next
}
