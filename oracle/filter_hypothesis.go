package oracle

import (
	"slices"
	"strings"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// A hypothesis is a fault with a name: what a device would do instead of the
// operation that is claimed. One of node, device, advance and input says it.
type hypothesis struct {
	name    string
	verdict report.Verdict

	// at says on which nodes the fault can act; nil for faults of the rollout.
	at func(n *operator.Node) bool
	// node computes such a node's output, before it is stored, for the inputs
	// that the run r has for it; nil if the fault is none for these shapes.
	node func(v *view, r *run, i int) *tensor.Tensor
	// device is how the device computes such a node, where the fault is one of
	// rounding; nil if that is what the device does anyway.
	device func(v *view, d emulate.Device) *emulate.Device
	// advance computes the next states from the operator's output.
	advance func(v *view, out *tensor.Tensor) *tensor.Tensor
	// input is what the operator reads in place of the states; nil if there is
	// no such thing.
	input func(v *view) *tensor.Tensor

	// family says that any amplitude is the fault; called returns the name of an
	// amplitude.
	family bool
	least  float64 // the smallest amplitude of a family that is one, if not leastFamily
	called func(v *view, c float64) string

	// rounding says that the fault changes how numbers are rounded. It is seen
	// around the emulation, and a device may round otherwise than claimed and
	// be right: it is only a diagnosis of what other gates found.
	rounding bool
	// small faults may hide below the rounding errors: they are looked for in
	// every check, and what a run could not have shown is certified.
	small bool
	// tf32 says that units of TF32 do so: there it is only a diagnosis, too.
	tf32 bool
	// probe is the kind of probe that shows a small fault best, "" if none does:
	// probes are steps of the operator alone, without a policy, and some faults
	// are nowhere larger than the errors of correct devices.
	probe string
	// needs is what shows a small fault of a fine claim that no probe shows.
	needs string
	// many are the hypotheses of a small fault that are many: they are looked for
	// in every check of a small operator, and are one to the certificate, of this
	// name.
	many string
	// slow hypotheses come last.
	slow  bool
	prior int // the place in the library
	// batch hypotheses treat samples differently.
	batch bool
	// whole hypotheses act on several nodes together.
	whole bool
}

// on reports whether the fault is one of the operator's nodes.
func (h *hypothesis) on() bool { return h.at != nil }

// scope is where a hypothesis acts: on one node, on all nodes that it can act
// on, or on those of them that are no 1x1 convolutions.
type scope int

const (
	everywhere scope = -1
	windows    scope = -2
)

func (s scope) acts(h *hypothesis, i int, n *operator.Node) bool {
	return h.at != nil && h.at(n) && (s == everywhere || int(s) == i || s == windows && (!isConv(n) || isWindow(n)))
}

// library returns all hypotheses. Those that come first are named first where
// two are one and the same.
func library() []*hypothesis {
	var l []*hypothesis
	for _, part := range [][]*hypothesis{activationFaults(), normFaults(), noiseFaults(), rolloutFaults(), residualFaults(), convFaults(), precisionFaults()} {
		l = append(l, part...)
	}
	for i, h := range l {
		h.prior = i
		h.batch = h.batch || slices.ContainsFunc([]string{"sample", "realization", "batch"}, func(s string) bool { return strings.Contains(h.name, s) })
	}
	return l
}

func isConv(n *operator.Node) bool  { return n.Op == operator.OpConv }
func isNorm(n *operator.Node) bool  { return n.Op == operator.OpNorm }
func isAct(n *operator.Node) bool   { return n.Op == operator.OpAct && n.Act != act.Identity }
func isAdd(n *operator.Node) bool   { return n.Op == operator.OpAdd }
func isNoise(n *operator.Node) bool { return n.Op == operator.OpNoise }

// isIdentity says that nothing is done at a place for an activation, such as
// behind the operator's last layer.
func isIdentity(n *operator.Node) bool { return n.Op == operator.OpAct && n.Act == act.Identity }

// isWindow says that a convolution reads more than one pixel.
func isWindow(n *operator.Node) bool { return isConv(n) && n.Weight.Shape[2] > 1 }

// isBiased says that a convolution has a bias.
func isBiased(n *operator.Node) bool { return isConv(n) && n.Bias != nil }
