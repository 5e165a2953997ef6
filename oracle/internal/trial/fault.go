package trial

import (
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// A Fault is what a device would do instead of the operation that is claimed: a row of the table, and how to make it.
// One of Node, Device and Draws says it.
type Fault struct {
	*table.Row

	// At says on which nodes the fault can act; nil for one of draws.
	At func(n *operator.Node) bool
	// Node computes such a node's output, before it is stored; nil if the fault is none for these shapes.
	Node func(v *View, i int) *tensor.Tensor
	// Device is how the device computes such a node, where the fault is one of rounding; nil if that is what the device
	// does anyway.
	Device func(v *View, d emulate.Device) *emulate.Device
	// Draws are what a device has in place of the numbers of a draw of that shape; nil if the fault is none of these.
	Draws func(kind noise.Kind, shape [4]int, data []float64) []float64
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
