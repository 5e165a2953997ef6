package trial

import (
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// A Fault is what a device would do instead of the operation that is claimed: a row
// of the table, and how to make it. One of Node, Device, Advance and Input says it.
type Fault struct {
	*table.Row
	Prior int // the place in the library

	// At says on which nodes the fault can act; nil for faults of the rollout.
	At func(n *operator.Node) bool
	// Node computes such a node's output, before it is stored, for the inputs
	// that the run r has for it; nil if the fault is none for these shapes.
	Node func(v *View, r *Run, i int) *tensor.Tensor
	// Draws, if not nil, are what a device has in place of the numbers of a draw of that shape; nil if the fault is none
	// of these. Node is what that makes of a noise node.
	Draws func(kind noise.Kind, shape [4]int, data []float64) []float64
	// Device is how the device computes such a node, where the fault is one of
	// rounding; nil if that is what the device does anyway.
	Device func(v *View, d emulate.Device) *emulate.Device
	// Advance computes the next states from the operator's output.
	Advance func(v *View, out *tensor.Tensor) *tensor.Tensor
	// Input is what the operator reads in place of the states; nil if there is
	// no such thing.
	Input func(v *View) *tensor.Tensor
	// Instead is what right devices may do that looks like the fault: where it leaves as little of a residual,
	// there is none. Nil if there is no such thing.
	Instead *Fault
	// Called returns the name of an amplitude of a family; nil for Name.
	Called func(v *View, c float64) string
}

// On reports whether the fault is one of the operator's nodes.
func (h *Fault) On() bool { return h.At != nil }

// Scope is where a hypothesis acts: on one node, whose number it is, on all nodes that it can
// act on (Everywhere), or on those of them that are no 1x1 convolutions (Windows).
type Scope int

const (
	Everywhere Scope = -1
	Windows    Scope = -2
)

// Acts reports whether a fault acts on node i.
func (s Scope) Acts(h *Fault, i int, n *operator.Node) bool {
	return h.At != nil && h.At(n) &&
		(s == Everywhere || int(s) == i || s == Windows && (!emulate.IsConv(n) || emulate.IsWindow(n)))
}
