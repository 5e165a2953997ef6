// Package emulate evaluates an operator as some device might: in float64,
// node by node, with every rounding of the device written out. It is what the
// oracle holds a foreign trajectory against where the exact engine would be
// one answer among several that are right: other points of storage, errors of
// float32 sums, random rounding, and faults with a name.
//
// Its arithmetic is float64, in an order that is up to the kernels of the
// processor. So it cannot settle single bits: a float64 error may carry a number
// across a tie.
package emulate

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/rows"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// Device says how a device computes a step. The zero value, with a Mode of
// Float64, is exact but for float64's own errors.
type Device struct {
	// Mode says to which formats convolutions round weights, bias and input. It also
	// picks exact or approximate activations, and the policy's arithmetic.
	Mode graph.Mode
	// Operands has the modes that decide it for each node, of a device that runs some
	// convolutions in another one; nil if Mode does for all.
	Operands []graph.Mode
	// Wide has the convolutions whose input is left as it is, so that only
	// weights and bias are rounded to operands.
	Wide Unrounded
	// Flat takes subnormal float16 operands of convolutions for zeros.
	Flat bool
	// Store has the format to which each node's output is rounded; Float64
	// keeps it as it is. Nil keeps all.
	Store []fp16.Format
	// BiasTogether adds a convolution's bias before the output is rounded,
	// where the Mode's device rounds both the convolution and the sum. BiasApart rounds
	// both for operands of a half type, whatever the Mode.
	BiasTogether, BiasApart bool
	// State is the format of the next state; Float64 keeps it as it is. With
	// another one every operation of the policy rounds, as rollout defines it.
	State fp16.Format
	// Twice rounds the policy's products to float32 before a half type, as most devices do: of a constant such as 0.7
	// many are ties in float32, and none before.
	Twice bool

	// Perturb, if not nil, may change a node's output before it is rounded.
	Perturb func(node int, y *tensor.Tensor, in []*tensor.Tensor)
	// Sum, if not nil, may change a convolution's sum before it is rounded,
	// where the bias is added apart.
	Sum func(node int, y *tensor.Tensor, in []*tensor.Tensor)
	// Round, if not nil, rounds in place of Format.RoundSlice. It is not
	// called for Float64.
	Round func(node int, y []float64, f fp16.Format)
	// None of these may keep a tensor: the machine uses its memory again.

	// Replace, if not nil, may compute a node itself; nil leaves it to the
	// machine. in must not be changed.
	Replace func(node int, in []*tensor.Tensor) (*tensor.Tensor, error)
	// Seen, if not nil, is called with every node's output after rounding. It
	// must not be changed, and may be kept.
	Seen func(node int, y *tensor.Tensor)
	// Keeps, if not nil, reports whether Seen keeps a node's output. The memory of
	// the others is used again.
	Keeps func(node int) bool
	// Update, if not nil, computes the next state from the last one and the
	// operator's output, post-processing included; nil leaves it to the
	// machine.
	Update func(x, out *tensor.Tensor) *tensor.Tensor
}

// ModeOf returns the mode that decides what node i does to its operands.
func (d *Device) ModeOf(i int) graph.Mode {
	if d.Operands != nil {
		return d.Operands[i]
	}
	return d.Mode
}

// Apart reports whether convolution i rounds its sum to the format f of its operands before
// it adds a bias.
func (d *Device) Apart(i int, f fp16.Format) bool {
	return !d.BiasTogether && d.ModeOf(i).BiasApart() || d.BiasApart && f.Half()
}

// Machine evaluates one operator. It is safe for concurrent use.
type Machine struct {
	Nodes  []operator.Node
	Config rollout.Config
	op     *operator.Operator
	graph  *graph.Graph // of the nodes, in their order
	at     []int        // the node that makes each value of the graph

	mu      sync.Mutex
	kernels []*kernels  // those used last at the end
	free    [][]float64 // memory of tensors that nobody reads, the largest last
}

// kernels are those of all convolutions whose operands are rounded in one way.
type kernels struct {
	operands
	of map[int]*conv.Kernel // by node
}

// What a machine keeps between two steps: a step needs two kinds of operands at
// the most, with and without bias, and about as many tensors at a time as there
// are spare ones.
const (
	mostKernels = 2
	mostSpare   = 4
)

// Known returns an error if an operator has an operation of which it is not known here what
// right devices may return.
func Known(op *operator.Operator) error {
	for _, n := range op.Nodes() {
		if n.Op == operator.OpOther && KindOf(n.Other) == Unknown {
			return fmt.Errorf("%s: op %s cannot be judged yet: what right devices may return for it is not known "+
				"here; want a comparison of single steps (run --one-step) or of files (compare)",
				n.Name, n.Other.Name())
		}
	}
	return nil
}

// New returns a machine for an operator that is [Known] stepped by that configuration.
func New(op *operator.Operator, c rollout.Config) *Machine {
	m := &Machine{Nodes: op.Nodes(), Config: c, op: op, graph: op.Graph(true)}
	m.at = make([]int, len(m.graph.Values))
	for i := range m.graph.Nodes {
		m.at[m.graph.Nodes[i].Out[0]] = i
	}
	return m
}

// Formats returns the format in which the contract of a mode stores each
// node's output, for an input of that format.
func (m *Machine) Formats(mode graph.Mode, input fp16.Format) ([]fp16.Format, error) {
	of := make([]fp16.Format, len(m.Nodes))
	for i := range m.Nodes {
		n := &m.Nodes[i]
		in := make([]fp16.Format, len(n.In))
		for k, j := range n.In {
			in[k] = input
			if j != operator.Input {
				in[k] = of[j]
			}
		}
		var err error
		if _, of[i], err = n.Formats(mode, in...); err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	return of, nil
}

// Step returns the states after x [B,C,H,W], the states of one engine batch,
// with the noise of d (nil for none).
func (m *Machine) Step(d *Device, x *tensor.Tensor, draws noise.Draws) (*tensor.Tensor, error) {
	out, err := m.Operator(d, x, draws)
	if err != nil {
		return nil, err
	}
	return m.Advance(d, x, out), nil
}

// Advance returns the states that follow from x and the operator's output.
// Where both are stored in formats, the policy computes in them. Its constants are those of the
// mode, float32 numbers, in exact arithmetic too.
func (m *Machine) Advance(d *Device, x, out *tensor.Tensor) *tensor.Tensor {
	if d.Update != nil {
		return d.Update(x, out)
	}
	if d.State != fp16.Float64 && d.Store != nil && d.Round == nil {
		out = tensor.Of(d.Store[len(d.Store)-1], out.Data, out.Shape...)
	}
	if c := m.Config; d.Twice && c.Policy != rollout.Autoregressive {
		a, b := 1.0, d.Mode.Scalar(c.Dt, out.Format)
		if c.Policy != rollout.Residual {
			a, b = d.Mode.Scalar(c.Alpha, d.State), d.Mode.Scalar(1-c.Alpha, out.Format)
		}
		return m.Blended(d, c, a, b, x, out, out.Format)
	}
	return m.Config.Advance(x, out, d.State, d.Mode)
}

// Blended returns a x + b out, rounded as a device rounds a policy, its output to a format, and post-processed as c
// says.
func (m *Machine) Blended(
	d *Device, c rollout.Config, a, b float64, x, out *tensor.Tensor, of fp16.Format,
) *tensor.Tensor {
	y := tensor.New(d.State, x.Shape...)
	of.RoundSlice(y.Data, out.Data)
	product := func(f fp16.Format, a, v float64) float64 {
		p := float64(a * v)
		if d.Twice && f.Half() {
			p = fp16.Float32.Round(p)
		}
		return f.Round(p)
	}
	for k, o := range y.Data {
		y.Data[k] = product(of, b, o) + product(d.State, a, x.Data[k])
	}
	d.State.RoundSlice(y.Data, y.Data)
	c.Policy = rollout.Autoregressive // of the state itself
	y = c.Advance(y, y, y.Format, graph.Mode{Precision: fp16.Float64})
	y.Format = fp16.Float64
	return y
}

// Operator returns the operator's output for x.
func (m *Machine) Operator(d *Device, x *tensor.Tensor, draws noise.Draws) (*tensor.Tensor, error) {
	return m.Rest(d, x, nil, draws)
}

// Rest is Operator where the outputs of some nodes are known, by their numbers: what does
// not follow from them is not evaluated. They are neither changed nor recycled.
func (m *Machine) Rest(
	d *Device, x *tensor.Tensor, known map[int]*tensor.Tensor, draws noise.Draws,
) (*tensor.Tensor, error) {
	x = wide(x)
	p, err := m.graph.Infer(graph.Mode{Precision: fp16.Float64}, graph.Type{Shape: x.Shape, Format: fp16.Float64})
	if err != nil {
		return nil, err
	}
	own := make([]bool, len(m.Nodes)) // nobody else holds its output
	run := graph.Run{
		Make: func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			in = in[:len(m.Nodes[i].In)] // parameters come behind
			y, made, err := m.node(d, i, in, draws)
			for k, j := range m.Nodes[i].In {
				if err == nil && !made && j != operator.Input && len(y.Data) > 0 && &y.Data[0] == &in[k].Data[0] {
					own[j] = false // a Replace has handed it on
				}
			}
			own[i] = made
			return y, err
		},
		Gone: func(v int, y *tensor.Tensor) {
			if own[m.at[v]] {
				m.Recycle(y)
			}
		},
	}
	if d.Seen != nil {
		run.Seen = func(v int, y *tensor.Tensor) {
			i := m.at[v]
			d.Seen(i, y)
			own[i] = own[i] && d.Keeps != nil && !d.Keeps(i)
		}
	}
	if known != nil {
		run.Known = make([]*tensor.Tensor, len(m.graph.Values))
		for i, y := range known {
			run.Known[m.graph.Nodes[i].Out[0]] = y
		}
	}
	out, err := p.Run(&run, x)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// Node returns the output of one node for given inputs, rounded as d says.
func (m *Machine) Node(d *Device, i int, in []*tensor.Tensor, draws noise.Draws) (*tensor.Tensor, error) {
	y, _, err := m.Make(d, i, in, draws)
	return y, err
}

// Make is Node. It also reports whether the output is new: one that may be
// recycled, since no Replace made it.
func (m *Machine) Make(
	d *Device, i int, in []*tensor.Tensor, draws noise.Draws,
) (y *tensor.Tensor, made bool, err error) {
	w := make([]*tensor.Tensor, len(in))
	for k := range in {
		w[k] = wide(in[k])
	}
	if y, made, err = m.node(d, i, w, draws); err != nil {
		return nil, false, fmt.Errorf("%s: %w", m.Nodes[i].Name, err)
	}
	return y, made, nil
}

func (m *Machine) node(
	d *Device, i int, in []*tensor.Tensor, draws noise.Draws,
) (y *tensor.Tensor, made bool, err error) {
	if d.Replace != nil {
		y, err = d.Replace(i, in)
	}
	if y == nil && err == nil {
		y, err = m.Plain(d, i, in, draws)
		made = true
	}
	if err != nil {
		return nil, false, err
	}
	if d.Perturb != nil {
		d.Perturb(i, y, in)
	}
	if d.Store != nil && d.Store[i] != fp16.Float64 {
		d.round(i, y.Data, d.Store[i])
	}
	return y, made, nil
}

func (d *Device) round(i int, y []float64, f fp16.Format) {
	if d.Round != nil {
		d.Round(i, y, f)
		return
	}
	pieces(len(y), func(lo, hi int) { rows.RoundSlice(f, y[lo:hi], y[lo:hi]) })
}

// pieces spreads n numbers over the processors.
func pieces(n int, body func(lo, hi int)) {
	const piece = 1 << 14
	par.For((n+piece-1)/piece, func(i int) { body(i*piece, min((i+1)*piece, n)) })
}

// Plain returns the float64 value of a node for given float64 inputs, without
// the rounding of its output: a new tensor.
func (m *Machine) Plain(d *Device, i int, in []*tensor.Tensor, draws noise.Draws) (*tensor.Tensor, error) {
	n, x := &m.Nodes[i], in[0]
	switch n.Op {
	case operator.OpConv:
		mode := d.ModeOf(i)
		f, _, err := n.Formats(mode, fp16.Float32)
		if err != nil {
			return nil, err
		}
		src := x
		if !d.Wide.Takes(n) && rounds(f) {
			src = m.Scratch(x.N(), x.C(), x.H(), x.W())
			operand(mode, src, x, f)
			defer m.Recycle(src)
		}
		flat := d.Flat && f == fp16.Float16
		if flat {
			src = Flush(src)
		}
		apart := n.Bias != nil && d.Apart(i, f) && d.Store != nil
		k := m.kernel(mode, i, operands{f, mode.TF32, apart, flat})
		oc, kh, kw := k.Shape()
		oh, ow := n.Geometry.OutSize(src.H(), src.W(), kh, kw)
		y := m.Scratch(src.N(), oc, oh, ow)
		conv.Wide(y, src, k, n.Geometry)
		if apart {
			if d.Sum != nil {
				d.Sum(i, y, in)
			}
			d.round(i, y.Data, f)
			for k := range y.N() * y.C() {
				plane, b := y.Plane(k/y.C(), k%y.C()), f.Round(n.Bias.Data[k%y.C()])
				for j := range plane {
					plane[j] += b
				}
			}
		}
		return y, nil
	case operator.OpNorm:
		y := m.Scratch(x.N(), x.C(), x.H(), x.W())
		if n.Norm == "batch" {
			norm.Batch(y, x, n.Mean.Data, n.Variance.Data, n.Weight.Data, n.Bias.Data, n.Eps)
		} else {
			norm.Group(y, x, n.Groups, n.Weight.Data, n.Bias.Data, n.Eps)
		}
		return y, nil
	case operator.OpAct:
		y := m.Scratch(x.N(), x.C(), x.H(), x.W())
		if d.Mode.Precision == fp16.Float64 {
			act.Forward(y, x, n.Act)
		} else {
			act.Approximate(y, x, n.Act)
		}
		return y, nil
	case operator.OpAdd:
		y := m.Scratch(x.N(), x.C(), x.H(), x.W())
		pieces(len(x.Data), func(lo, hi int) {
			for k := lo; k < hi; k++ {
				y.Data[k] = x.Data[k] + in[1].Data[k]
			}
		})
		return y, nil
	case operator.OpNoise:
		y := m.Scratch(x.N(), x.C(), x.H(), x.W())
		if draws == nil {
			copy(y.Data, x.Data)
			return y, nil
		}
		block, f := Noise(n, d.Mode), fp16.Float64
		if d.Store != nil {
			f = d.Store[i]
		}
		if f != fp16.Float64 && d.Round == nil && d.Perturb == nil && holds(f, x.Data) {
			// The contract's: every operation of the block rounds.
			y.Format = f
			err := block.Apply(y, tensor.Of(f, x.Data, x.Shape...), noise.Time{}, draws)
			y.Format = fp16.Float64
			return y, err
		}
		return y, block.Apply(y, x, noise.Time{}, draws)
	}
	return m.other(d, i, in)
}

// Scratch returns a tensor of Float64 of any contents, in recycled memory if there
// is enough in one piece. Large ones are cleared and paged in for longer than they
// are computed.
func (m *Machine) Scratch(n, c, h, w int) *tensor.Tensor {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := n * c * h * w
	for k, v := range m.free {
		if cap(v) >= size {
			m.free = slices.Delete(m.free, k, k+1)
			return tensor.Of(fp16.Float64, v[:size], n, c, h, w)
		}
	}
	return tensor.New(fp16.Float64, n, c, h, w)
}

// Recycle takes back a tensor that nobody will read. The largest few are kept: they
// serve all sizes.
func (m *Machine) Recycle(t *tensor.Tensor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, _ := slices.BinarySearchFunc(m.free, cap(t.Data),
		func(v []float64, size int) int { return cmp.Compare(cap(v), size) })
	m.free = slices.Insert(m.free, at, t.Data)
	if len(m.free) > mostSpare {
		m.free = slices.Delete(m.free, 0, 1)
	}
}
