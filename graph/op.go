package graph

import (
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// Op is an operation with its attributes bound: stride, slope, axis.
type Op interface {
	// Name returns ATen's name of the operation, or ONNX's where ATen has none.
	Name() string
	// Infer returns what a node of the operation does in a mode, for inputs of
	// those types, or an error that begins with what is wrong. It takes no memory
	// in the size of the tensors.
	Infer(m Mode, in []Type) (Inference, error)
	// Eval sets the outputs, each element the exact value of the operation for
	// the stored inputs, rounded once to the output's format.
	Eval(c *Call) error
}

// inPlacer is an operation of one output that may be the same tensor as its first
// input.
type inPlacer interface{ inPlace() }

// View is an operation of one output whose numbers are those of its first input, in their
// order and format: they need not be moved, only seen in another shape.
type View interface{ view() }

// Type is what is known of a value before it is computed.
type Type struct {
	Shape  []int
	Format fp16.Format
}

// Inference is what a node does in a mode.
type Inference struct {
	// Operands are the formats to which the inputs are rounded before they are
	// used; of inputs beyond its end, their own.
	Operands []fp16.Format
	Out      []Type
}

// Call is one evaluation of a node.
type Call struct {
	Mode  Mode
	Out   []*tensor.Tensor // of the inferred types, to be set
	Draws noise.Draws      // nil for no noise
	Time  noise.Time       // what schedules of noise see

	program *Program
	node    int
	in      []*tensor.Tensor // as they are stored
	run     *Run             // of Eval
}

// In returns input i, rounded to the format in which the node takes it.
func (c *Call) In(i int) *tensor.Tensor {
	x := c.in[i]
	if of := c.program.nodes[c.node].Operands; i < len(of) {
		return c.Mode.cast(x, of[i])
	}
	return x
}

// Inputs returns the number of inputs.
func (c *Call) Inputs() int { return len(c.in) }

// Keep returns what an operation makes of some of its inputs, such as packed weights:
// kept from one evaluation to the next, under a key of the operation's choice, if
// those inputs are constants of the graph.
func (c *Call) Keep(key any, inputs []int, make func() any) any {
	for _, i := range inputs {
		if i < len(c.in) && c.constantOf(i) == nil {
			return make()
		}
	}
	return c.program.graph.Kept.get(keptKey{c.constantOf(inputs[0]), key}, make)
}

// constantOf returns input i as the constant of the graph that it is, or nil.
func (c *Call) constantOf(i int) *tensor.Tensor {
	g := c.program.graph
	return g.Values[g.Nodes[c.node].In[i]].Const
}

// Kept is what operations have made of constants. Graphs of the same constants may
// share it. The zero value is empty.
type Kept struct {
	mu sync.Mutex
	of map[keptKey]any
}

type keptKey struct {
	constant *tensor.Tensor
	key      any
}

func (k *Kept) get(key keptKey, make func() any) any {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.of[key]
	if !ok {
		if k.of == nil {
			k.of = map[keptKey]any{}
		}
		v = make()
		k.of[key] = v
	}
	return v
}

// Bytes returns the memory of what is kept.
func (k *Kept) Bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	var n int64
	for _, v := range k.of {
		if b, ok := v.(interface{ Bytes() int64 }); ok {
			n += b.Bytes()
		}
	}
	return n
}

// Forget drops what is kept. What is needed is made again.
func (k *Kept) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.of)
}
