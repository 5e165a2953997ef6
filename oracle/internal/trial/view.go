// Package trial makes operations with a fault: a fault has a place and what a device does there instead.
package trial

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// View is what a fault sees of a step: its nodes, and what those before the one at work returned.
type View struct {
	Machine *emulate.Machine
	Device  *emulate.Device
	Outputs []*tensor.Tensor // of nodes; nil for those that are not known
}

// In returns the input k of node i.
func (v *View) In(i, k int) *tensor.Tensor { return v.Outputs[v.Machine.Nodes[i].In[k]] }

// Out returns the output of node j; nil where it is not known.
func (v *View) Out(j int) *tensor.Tensor { return v.Outputs[j] }

// Stored returns the format in which node i's output is stored, Float64 where nothing is rounded.
func (v *View) Stored(i int) fp16.Format {
	if v.Device.Store == nil {
		return fp16.Float64
	}
	return v.Device.Store[i]
}

// faulty puts the fault of node i into a device; it reports whether there is one.
func (v *View) faulty(h *Fault, i int, d *emulate.Device) bool {
	if h.Device != nil {
		to := h.Device(v, *d)
		if to != nil {
			*d = *to
		}
		return to != nil
	}
	y := h.Node(v, i)
	d.Replace = func(int, []*tensor.Tensor) (*tensor.Tensor, error) { return y, nil }
	return y != nil
}
