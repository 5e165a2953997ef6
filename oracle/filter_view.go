package oracle

import (
	"math"
	"reflect"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// view is a step without faults as a device computes it, with the outputs of its
// nodes, so that a step with a fault is computed from the first changed node on.
type view struct {
	e        *evidence
	work     *int64 // multiplications with weights so far; nil if nobody counts
	m        *emulate.Machine
	d        *emulate.Device
	x        *tensor.Tensor                                                                          // the states before the step
	before   *tensor.Tensor                                                                          // the states before those, nil at the first step
	draws    *emulate.Draws                                                                          // nil without noise
	contract bool                                                                                    // the noise block rounds each of its operations
	noised   func(i int, b *noise.Block, d *emulate.Draws, x *tensor.Tensor) (*tensor.Tensor, error) // or fewer of them; nil if not
	drawn    func(t int) *emulate.Draws                                                              // of the step t later, nil if there is none
	of       []*tensor.Tensor                                                                        // outputs of nodes; nil for those that are not kept: see out
	whole    bool                                                                                    // any output that is not kept follows from others
	recent   *[]int                                                                                  // nodes whose outputs were made again, the latest last
	next     *tensor.Tensor
	at       int     // the step
	noisy    [4]int  // the shape of what noise is added to
	fused    bool    // the policy rounds less than its contract
	lo       int     // where its numbers begin among those that are looked at
	worst    int     // the sample that is farthest from what it should be
	k        float64 // the amplitude of a family, 0 for 1
}

// amplitude returns that of a family of faults.
func (v *view) amplitude() float64 {
	if v.k == 0 {
		return 1
	}
	return v.k
}

// What is kept of outputs that are soon made again, in bytes of all that are found
// in the first pass, and in numbers of those that were made again.
var mostCheap = 1 << 25

const mostRecent = 2

// compute computes the step. All outputs of a large operator's step are many times
// what its evaluation needs at a time. Those of norms and activations follow from
// others much sooner than a convolution does, and are made again when they are
// asked for.
func (v *view) compute() error {
	v.of, v.whole, v.recent = make([]*tensor.Tensor, len(v.m.Nodes)), true, new([]int)
	d, bytes := *v.d, 0
	d.Seen = func(i int, y *tensor.Tensor) {
		if isNoise(&v.m.Nodes[i]) {
			v.noisy = [4]int{y.N(), y.C(), y.H(), y.W()}
		}
		if v.cheap(i) {
			if bytes += 8 * len(y.Data); bytes > mostCheap {
				return
			}
		}
		v.of[i] = y
	}
	d.Keeps = func(i int) bool { return v.of[i] != nil }
	out, err := v.m.Operator(&d, v.x, v.draws.Rewind())
	if err != nil {
		return err
	}
	v.next = v.m.Advance(v.d, v.x, out)
	return nil
}

// cheap reports whether node i's output may be made again: it is a norm's or an
// activation's of the input, or of a node that is kept, or of one such.
func (v *view) cheap(i int) bool {
	n := &v.m.Nodes[i]
	return i < len(v.m.Nodes)-1 && (n.Op == operator.OpNorm || n.Op == operator.OpAct)
}

// out returns the output of node i; nil where a view of one node has none.
func (v *view) out(i int) *tensor.Tensor {
	if v.of[i] != nil || !v.whole {
		return v.of[i]
	}
	in := v.x
	if j := v.m.Nodes[i].In[0]; j != operator.Input {
		in = v.out(j)
	}
	y, err := v.m.Node(v.d, i, []*tensor.Tensor{in}, nil)
	if err != nil {
		panic("oracle: " + err.Error()) // it was made before
	}
	v.of[i] = y
	if *v.recent = append(*v.recent, i); len(*v.recent) > mostRecent {
		v.of[(*v.recent)[0]] = nil
		*v.recent = slices.Delete(*v.recent, 0, 1)
	}
	return y
}

// run is a step with a fault, in the making.
type run struct {
	v   *view
	of  []*tensor.Tensor // outputs of nodes so far; nil for those that are the view's
	own []bool           // nobody else has them
	x   *tensor.Tensor
}

// newRun begins a step of a view.
func newRun(v *view) *run {
	return &run{v: v, of: make([]*tensor.Tensor, len(v.m.Nodes)), own: make([]bool, len(v.m.Nodes)), x: v.x}
}

// has takes the output of node i. What a fault makes of others may share memory
// with them.
func (r *run) has(i int, y *tensor.Tensor, made bool) {
	for j := range i {
		r.own[j] = r.own[j] && (made || r.of[j] == nil || !overlap(y.Data, r.of[j].Data))
	}
	r.of[i], r.own[i] = y, made
}

// drop forgets the output of node j.
func (r *run) drop(j int) {
	if r.of[j] != nil && r.own[j] {
		r.v.m.Recycle(r.of[j])
	}
	r.of[j] = nil
}

// end drops all outputs but the operator's.
func (r *run) end() {
	for j := range len(r.of) - 1 {
		r.drop(j)
	}
}

// forget drops outputs that no node after i reads, nor any input of such a node
// was made of.
func (r *run) forget(i int) {
	needed := make([]bool, len(r.of))
	need := func(k int) {
		for _, j := range r.v.m.Nodes[k].In {
			if j != operator.Input {
				needed[j] = true
			}
		}
	}
	for k := i + 1; k < len(r.of); k++ {
		need(k)
		for _, j := range r.v.m.Nodes[k].In {
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

// in returns the input k of node i.
func (r *run) in(i, k int) *tensor.Tensor {
	j := r.v.m.Nodes[i].In[k]
	if j == operator.Input {
		return r.x
	}
	return r.out(j)
}

// out returns the output of node j.
func (r *run) out(j int) *tensor.Tensor {
	if r.of[j] != nil {
		return r.of[j]
	}
	return r.v.out(j)
}

// step returns the states after a step with a fault; nil if the fault changes
// nothing here. local, if not nil, is told the first output that the fault
// changes and what it was, and ends the step by returning false.
func (v *view) step(h *hypothesis, s scope, local func(now, was *tensor.Tensor) bool) (*tensor.Tensor, error) {
	r := newRun(v)
	defer r.end()
	if h.input != nil {
		if r.x = h.input(v); r.x == nil {
			return nil, nil
		}
	}
	for i := range v.m.Nodes {
		n, d := &v.m.Nodes[i], *v.d
		acts := s.acts(h, i, n) && r.fault(h, i, &d)
		if !acts && !r.changed(n) {
			continue
		}
		in := make([]*tensor.Tensor, len(n.In))
		for k := range in {
			in[k] = r.in(i, k)
		}
		y, made, err := v.m.Make(&d, i, in, v.draws.Rewind())
		if err != nil {
			return nil, err
		}
		r.has(i, y, made)
		if isConv(n) && v.work != nil {
			*v.work += int64(len(n.Weight.Data)) * int64(y.N()*y.H()*y.W())
		}
		// What is not kept is not made for this: a node that reads it will tell.
		if (acts || v.of[i] != nil) && equal(y.Data, v.out(i).Data) {
			r.drop(i)
			continue
		}
		if acts && local != nil {
			if !local(y, v.out(i)) {
				return nil, nil
			}
			local = nil
		}
		r.forget(i)
	}
	last := len(v.m.Nodes) - 1
	switch {
	case h.advance != nil:
		return h.advance(v, r.out(last)), nil
	case r.of[last] == nil:
		return nil, nil
	}
	return v.m.Advance(v.d, v.x, r.of[last]), nil
}

// fault puts the fault of node i into d; it reports whether there is one.
func (r *run) fault(h *hypothesis, i int, d *emulate.Device) bool {
	if h.device != nil {
		to := h.device(r.v, *d)
		if to != nil {
			*d = *to
		}
		return to != nil
	}
	y := h.node(r.v, r, i)
	d.Replace = func(int, []*tensor.Tensor) (*tensor.Tensor, error) { return y, nil }
	return y != nil
}

// changed reports whether an input of the node is not the view's.
func (r *run) changed(n *operator.Node) bool {
	for _, j := range n.In {
		if j == operator.Input && r.x != r.v.x || j != operator.Input && r.of[j] != nil {
			return true
		}
	}
	return false
}

// formats returns those of the operator's output and of the state, Float64
// where nothing is rounded.
func (v *view) formats() (out, state fp16.Format) {
	out, state = v.stored(len(v.m.Nodes)-1), v.d.State
	return out, state
}

// stored returns the format in which node i's output is stored.
func (v *view) stored(i int) fp16.Format {
	if v.d.Store == nil {
		return fp16.Float64
	}
	return v.d.Store[i]
}

// overlap reports whether two slices share memory.
func overlap(a, b []float64) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	first := func(x []float64) uintptr { return reflect.ValueOf(x).Pointer() }
	return first(a) <= first(b[len(b)-1:]) && first(b) <= first(a[len(a)-1:])
}

func equal(a, b []float64) bool {
	for i, v := range a {
		if v != b[i] && (v == v || b[i] == b[i]) {
			return false
		}
	}
	return true
}

// relativeChange returns the root mean square of a-b over that of b about its mean,
// plane by plane.
func relativeChange(a, b *tensor.Tensor) float64 {
	var diff, size float64
	for k := range b.N() * b.C() {
		x, y := a.Plane(k/b.C(), k%b.C()), b.Plane(k/b.C(), k%b.C())
		var mean float64
		for _, v := range y {
			mean += v
		}
		mean /= float64(len(y))
		for i, v := range y {
			d, c := x[i]-v, v-mean
			diff += float64(d * d)
			size += float64(c * c)
		}
	}
	return math.Sqrt(diff / size)
}
