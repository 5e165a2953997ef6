package operator

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// module is a node of the operator's tree: a layer, or a block of them. Names
// are PyTorch's: the path of attribute names and indices from the root, such
// as "conv_blocks.1.blocks.0.block.2". A module is not evaluated itself: it adds
// its operations to a graph.
type module interface {
	// build adds the module to b's graph, on value x, and returns its output,
	// which is x where the module does nothing.
	build(b *builder, x int) int
	// layers calls visit for every layer in the order of construction, which
	// is the order in which PyTorch initialises them.
	layers(visit func(layer))
}

// layer is a leaf of the tree.
type layer interface {
	module
	params() []*Param
	// initialise draws the parameters as PyTorch's constructors do.
	initialise(g *noise.TorchCPU)
	// prepare is called once after the parameters have their values.
	prepare() error
}

// Pass is one application of an operator.
type Pass struct {
	Mode graph.Mode
	// Draws supplies the noise. If it is nil, stochastic blocks pass their
	// input on.
	Draws noise.Draws
	// Time is what schedules see; the zero value is Spinlock's step=None.
	Time noise.Time
	// Feature, if not nil, is called with the output of every module by its
	// name (the root has none). The tensor must not be changed, and not read after the call
	// returns unless it is copied.
	Feature func(name string, t *tensor.Tensor)
}

// builder adds modules to a graph.
type builder struct {
	*graph.Graph
	quiet  bool           // stochastic blocks pass their input on
	skip   int            // the value of a skip connection, none if negative
	h, w   int            // of the images at hand, for modules that depend on it
	params map[int]*Param // by value
	err    error
}

func newBuilder(kept *graph.Kept, quiet bool) *builder {
	return &builder{Graph: graph.New(kept), quiet: quiet, skip: -1, params: map[int]*Param{}}
}

// param adds a parameter as a constant; nil adds nothing.
func (b *builder) param(in []int, p *Param) []int {
	if p == nil {
		return in
	}
	v := b.Constant(p.Name, p.tensor())
	b.params[v] = p
	return append(in, v)
}

// sequence adds modules one after another.
func (b *builder) sequence(x int, modules ...module) int {
	for _, m := range modules {
		x = m.build(b, x)
	}
	return x
}

// run evaluates a graph of one output.
func (p *Pass) run(g *graph.Graph, in ...*tensor.Tensor) (*tensor.Tensor, error) {
	types := make([]graph.Type, len(in))
	for i, x := range in {
		if x.Format == fp16.Float64 && p.Mode.Wide() != fp16.Float64 {
			return nil, fmt.Errorf("operator: input of float64 numbers: want %v numbers, or the float64 mode", p.Mode.Wide())
		}
		types[i] = graph.Type{Shape: x.Shape, Format: x.Format}
	}
	program, err := g.Infer(p.Mode, types...)
	if err != nil {
		return nil, err
	}
	r := &graph.Run{Draws: p.Draws, Time: p.Time}
	if p.Feature != nil {
		named := func(v int, t *tensor.Tensor) {
			if name := g.Values[v].Name; name != "" {
				p.Feature(name, t)
			}
			for _, name := range g.Values[v].Also {
				if name != "" {
					p.Feature(name, t)
				}
			}
		}
		for i, v := range g.Inputs {
			named(v, in[i])
		}
		r.Seen = named
	}
	out, err := program.Run(r, in...)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func visitAll(visit func(layer), modules ...module) {
	for _, m := range modules {
		m.layers(visit)
	}
}

// join appends a name to a path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Param is one named array of a module's state_dict.
type Param struct {
	Name  string
	Shape []int
	Data  []float64 // float32 numbers
	// Counter marks integers that take no part in the arithmetic
	// (num_batches_tracked).
	Counter bool
	// nonNegative marks variances.
	nonNegative bool
	// infinite marks masks, in which -Inf is nothing.
	infinite bool
	whole    bool // int64 numbers
	flat     bool // a file may leave out dimensions of 1 at the end
	complex  bool // a file may have complex64 numbers in place of pairs

	constant *tensor.Tensor
}

// tensor returns the parameter as a tensor: always the same one for the same Data.
func (p *Param) tensor() *tensor.Tensor {
	if p.constant == nil || &p.constant.Data[0] != &p.Data[0] {
		p.constant = tensor.Of(p.format(), p.Data, p.Shape...)
	}
	return p.constant
}

func newParam(name string, shape ...int) *Param {
	p := newLargeParam(name, shape...)
	p.allocate()
	return p
}

// newLargeParam is newParam without memory, which it gets when it has values.
func newLargeParam(name string, shape ...int) *Param { return &Param{Name: name, Shape: shape} }

func (p *Param) allocate() {
	if p.Data == nil {
		p.Data = make([]float64, tensor.Size(p.Shape))
	}
}

func (p *Param) fill(v float64) {
	for i := range p.Data {
		p.Data[i] = v
	}
}
