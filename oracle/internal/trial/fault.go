package trial

import (
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// A Row is what the library's table says of a fault.
type Row struct {
	ID      string // does not change when Name is put in other words
	Name    string
	Verdict report.Verdict
	Advice  string // where to look, "" if the name says it

	// Family says that any amplitude is the fault, from Least on (0 for the usual
	// least one).
	Family bool
	Least  float64
	// Rounding says that the fault changes how numbers are rounded. It is seen
	// around the emulation, and a device may round otherwise than claimed and
	// be right: it is only a diagnosis of what other gates found.
	Rounding bool
	// Small faults may hide below the rounding errors: they are looked for in
	// every check, and what a run could not have shown is certified.
	Small bool
	// TF32 says that units of TF32 do so: there it is only a diagnosis, too.
	TF32 bool
	// Probe is the kind of probe that shows a small fault best, "" if none does:
	// probes are steps of the operator alone, without a policy, and some faults
	// are nowhere larger than the errors of correct devices.
	Probe string
	// Needs is what shows a small fault of a fine claim that no probe shows.
	Needs string
	// Many is the name that the hypotheses of a small fault which are many have in
	// the certificate: they are looked for in every check of a small operator.
	Many  string
	Slow  bool // comes last
	Batch bool // treats samples differently
	Whole bool // acts on several nodes together
}

// A Fault is what a device would do instead of the operation that is claimed: a row
// of the table, and how to make it. One of Node, Device, Advance and Input says it.
type Fault struct {
	Row
	Prior int // the place in the library

	// At says on which nodes the fault can act; nil for faults of the rollout.
	At func(n *operator.Node) bool
	// Node computes such a node's output, before it is stored, for the inputs
	// that the run r has for it; nil if the fault is none for these shapes.
	Node func(v *View, r *Run, i int) *tensor.Tensor
	// Device is how the device computes such a node, where the fault is one of
	// rounding; nil if that is what the device does anyway.
	Device func(v *View, d emulate.Device) *emulate.Device
	// Advance computes the next states from the operator's output.
	Advance func(v *View, out *tensor.Tensor) *tensor.Tensor
	// Input is what the operator reads in place of the states; nil if there is
	// no such thing.
	Input func(v *View) *tensor.Tensor
	// Called returns the name of an amplitude of a family; nil for Name.
	Called func(v *View, c float64) string
}

// On reports whether the fault is one of the operator's nodes.
func (h *Fault) On() bool { return h.At != nil }

// Scope is where a hypothesis acts: on one node, on all nodes that it can act
// on, or on those of them that are no 1x1 convolutions.
type Scope int

const (
	Everywhere Scope = -1
	Windows    Scope = -2
)

func (s Scope) Acts(h *Fault, i int, n *operator.Node) bool {
	return h.At != nil && h.At(n) && (s == Everywhere || int(s) == i || s == Windows && (!emulate.IsConv(n) || emulate.IsWindow(n)))
}
