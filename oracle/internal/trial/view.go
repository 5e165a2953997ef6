// Package trial makes a step with one change: a fault has a place and what a device
// does there instead, and is computed from the first changed node on.
package trial

import (
	"reflect"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// Local returns the output of node i with a fault, nil if it changes nothing there;
// h may be nil.
func (v *View) Local(h *Fault, i int) (*tensor.Tensor, error) {
	r, d := newRun(v), *v.Device
	if h != nil && !r.fault(h, i, &d) {
		return nil, nil
	}
	y, err := v.Machine.Node(&d, i, r.inputs(i), v.Draws.Rewind())
	if err != nil || h != nil && measure.Equal(y.Data, v.Outputs[i].Data) {
		return nil, err
	}
	return y, nil
}

// DrawShape returns the shape of a draw of that kind.
func (v *View) DrawShape(kind noise.Kind) [4]int {
	s := v.Noisy
	if kind == noise.Bernoulli {
		s[2], s[3] = 1, 1
	}
	return s
}

// Probability returns that of keeping a channel in dropout.
func (v *View) Probability() float64 {
	for i := range v.Machine.Nodes {
		if n := &v.Machine.Nodes[i]; emulate.IsNoise(n) && n.Noise.Type == noise.Dropout {
			return 1 - fp16.Float32.Round(n.Noise.Scale)
		}
	}
	return 0
}

// View is a step without faults as a device computes it, with the outputs of its
// nodes, so that a step with a fault is computed from the first changed node on.
type View struct {
	Evidence *evidence.Evidence
	Work     *int64 // multiplications with weights so far; nil if nobody counts
	Machine  *emulate.Machine
	Device   *emulate.Device
	// the states before the step
	X *tensor.Tensor
	// the states before those, nil at the first step
	Before *tensor.Tensor
	Draws  *emulate.Draws // nil without noise
	// the noise block rounds each of its operations
	Contract bool
	// applies noise where Machine does it otherwise; may be nil
	Noised func(i int, b *noise.Block, d *emulate.Draws, x *tensor.Tensor) (*tensor.Tensor, error)
	// of the step t later, nil if there is none
	Drawn func(t int) *emulate.Draws
	// outputs of nodes; nil for those that are not kept: see Out
	Outputs []*tensor.Tensor
	// any output that is not kept follows from others
	whole bool
	// nodes whose dropped outputs were made again, the latest last
	recent    *[]int
	Next      *tensor.Tensor
	Step      int     // the step
	Noisy     [4]int  // the shape of what noise is added to
	Fused     bool    // the policy rounds less than its contract
	Lo        int     // offset of its numbers in the filter's arrays
	Worst     int     // the sample that is farthest from what it should be
	Amplitude float64 // the amplitude of a family, 0 for 1
}

// Scale returns that of a family of faults.
func (v *View) Scale() float64 {
	if v.Amplitude == 0 {
		return 1
	}
	return v.Amplitude
}

// MostCheap is how many bytes of outputs that are soon made again the first pass keeps.
var MostCheap = 1 << 25

// MostRecent is how many of those that were made again are kept.
const MostRecent = 2

// Compute computes the step. All outputs of a large operator's step are many times
// what its evaluation needs at a time. Those of norms and activations follow from
// others much sooner than a convolution does, and are made again when they are
// asked for.
func (v *View) Compute() error {
	v.Outputs, v.whole, v.recent = make([]*tensor.Tensor, len(v.Machine.Nodes)), true, new([]int)
	d, bytes := *v.Device, 0
	d.Seen = func(i int, y *tensor.Tensor) {
		if emulate.IsNoise(&v.Machine.Nodes[i]) {
			v.Noisy = [4]int{y.N(), y.C(), y.H(), y.W()}
		}
		if v.Cheap(i) {
			if bytes += 8 * len(y.Data); bytes > MostCheap {
				return
			}
		}
		v.Outputs[i] = y
	}
	d.Keeps = func(i int) bool { return v.Outputs[i] != nil }
	out, err := v.Machine.Operator(&d, v.X, v.Draws.Rewind())
	if err != nil {
		return err
	}
	v.Next = v.Machine.Advance(v.Device, v.X, out)
	return nil
}

// Cheap reports whether node i's output may be made again: it is a norm's or an
// activation's of the input, or of a node that is kept, or of one such.
func (v *View) Cheap(i int) bool {
	n := &v.Machine.Nodes[i]
	return i < len(v.Machine.Nodes)-1 && (n.Op == operator.OpNorm || n.Op == operator.OpAct)
}

// Out returns the output of node i; nil where a view of one node has none.
func (v *View) Out(i int) *tensor.Tensor {
	if v.Outputs[i] != nil || !v.whole {
		return v.Outputs[i]
	}
	in := v.X
	if j := v.Machine.Nodes[i].In[0]; j != operator.Input {
		in = v.Out(j)
	}
	y, err := v.Machine.Node(v.Device, i, []*tensor.Tensor{in}, nil)
	if err != nil {
		panic("oracle: " + err.Error()) // it was made before
	}
	v.Outputs[i] = y
	if *v.recent = append(*v.recent, i); len(*v.recent) > MostRecent {
		v.Outputs[(*v.recent)[0]] = nil
		*v.recent = slices.Delete(*v.recent, 0, 1)
	}
	return y
}

// Run is a step with a fault, in the making.
type Run struct {
	View    *View
	Outputs []*tensor.Tensor // outputs of nodes so far; nil for those that are the view's
	own     []bool           // nobody else has them
	X       *tensor.Tensor
}

// newRun begins a step of a view.
func newRun(v *View) *Run {
	return &Run{
		View: v, Outputs: make([]*tensor.Tensor, len(v.Machine.Nodes)), own: make([]bool, len(v.Machine.Nodes)), X: v.X,
	}
}

// has takes the output of node i. What a fault makes of others may share memory
// with them.
func (r *Run) has(i int, y *tensor.Tensor, made bool) {
	for j := range i {
		r.own[j] = r.own[j] && (made || r.Outputs[j] == nil || !overlap(y.Data, r.Outputs[j].Data))
	}
	r.Outputs[i], r.own[i] = y, made
}

// drop forgets the output of node j.
func (r *Run) drop(j int) {
	if r.Outputs[j] != nil && r.own[j] {
		r.View.Machine.Recycle(r.Outputs[j])
	}
	r.Outputs[j] = nil
}

// end drops all outputs but the operator's.
func (r *Run) end() {
	for j := range len(r.Outputs) - 1 {
		r.drop(j)
	}
}

// forget drops outputs that no node after i reads, nor any input of such a node
// was made of.
func (r *Run) forget(i int) {
	needed := make([]bool, len(r.Outputs))
	need := func(k int) {
		for _, j := range r.View.Machine.Nodes[k].In {
			if j != operator.Input {
				needed[j] = true
			}
		}
	}
	for k := i + 1; k < len(r.Outputs); k++ {
		need(k)
		for _, j := range r.View.Machine.Nodes[k].In {
			if j != operator.Input {
				need(j)
			}
		}
	}
	for j := range i {
		if !needed[j] {
			r.drop(j)
		}
	}
}

// inputs returns the inputs of node i.
func (r *Run) inputs(i int) []*tensor.Tensor {
	in := make([]*tensor.Tensor, len(r.View.Machine.Nodes[i].In))
	for k := range in {
		in[k] = r.In(i, k)
	}
	return in
}

// In returns the input k of node i.
func (r *Run) In(i, k int) *tensor.Tensor {
	j := r.View.Machine.Nodes[i].In[k]
	if j == operator.Input {
		return r.X
	}
	return r.Out(j)
}

// Out returns the output of node j.
func (r *Run) Out(j int) *tensor.Tensor {
	if r.Outputs[j] != nil {
		return r.Outputs[j]
	}
	return r.View.Out(j)
}

// Run returns the states after a step with a fault; nil if the fault changes
// nothing here. local, if not nil, is told the first output that the fault
// changes and what it was, and ends the step by returning false.
func (v *View) Run(h *Fault, s Scope, local func(now, was *tensor.Tensor) bool) (*tensor.Tensor, error) {
	r := newRun(v)
	defer r.end()
	if h.Input != nil {
		if r.X = h.Input(v); r.X == nil {
			return nil, nil
		}
	}
	for i := range v.Machine.Nodes {
		n, d := &v.Machine.Nodes[i], *v.Device
		acts := s.Acts(h, i, n) && r.fault(h, i, &d)
		if !acts && !r.changed(n) {
			continue
		}
		y, made, err := v.Machine.Make(&d, i, r.inputs(i), v.Draws.Rewind())
		if err != nil {
			return nil, err
		}
		r.has(i, y, made)
		if emulate.IsConv(n) && v.Work != nil {
			*v.Work += int64(len(n.Weight.Data)) * int64(y.N()*y.H()*y.W())
		}
		// What is not kept is not made for this: a node that reads it will tell.
		if (acts || v.Outputs[i] != nil) && measure.Equal(y.Data, v.Out(i).Data) {
			r.drop(i)
			continue
		}
		if acts && local != nil {
			if !local(y, v.Out(i)) {
				return nil, nil
			}
			local = nil
		}
		r.forget(i)
	}
	last := len(v.Machine.Nodes) - 1
	switch {
	case h.Advance != nil:
		return h.Advance(v, r.Out(last)), nil
	case r.Outputs[last] == nil:
		return nil, nil
	}
	return v.Machine.Advance(v.Device, v.X, r.Outputs[last]), nil
}

// fault puts the fault of node i into d; it reports whether there is one.
func (r *Run) fault(h *Fault, i int, d *emulate.Device) bool {
	if h.Device != nil {
		to := h.Device(r.View, *d)
		if to != nil {
			*d = *to
		}
		return to != nil
	}
	y := h.Node(r.View, r, i)
	d.Replace = func(int, []*tensor.Tensor) (*tensor.Tensor, error) { return y, nil }
	return y != nil
}

// changed reports whether an input of the node is not the view's.
func (r *Run) changed(n *operator.Node) bool {
	for _, j := range n.In {
		if j == operator.Input && r.X != r.View.X || j != operator.Input && r.Outputs[j] != nil {
			return true
		}
	}
	return false
}

// Formats returns those of the operator's output and of the state, Float64
// where nothing is rounded.
func (v *View) Formats() (out, state fp16.Format) {
	out, state = v.Stored(len(v.Machine.Nodes)-1), v.Device.State
	return out, state
}

// Stored returns the format in which node i's output is stored.
func (v *View) Stored(i int) fp16.Format {
	if v.Device.Store == nil {
		return fp16.Float64
	}
	return v.Device.Store[i]
}

// overlap reports whether two slices share memory.
func overlap(a, b []float64) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	first := func(x []float64) uintptr { return reflect.ValueOf(x).Pointer() }
	return first(a) <= first(b[len(b)-1:]) && first(b) <= first(a[len(a)-1:])
}
