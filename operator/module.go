package operator

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// Module is a node of the operator's tree: a layer, or a block of them. Names
// are PyTorch's: the path of attribute names and indices from the root, such
// as "conv_blocks.1.blocks.0.block.2".
type Module interface {
	// Forward applies the module to x [N,C,H,W] and returns its output, which is
	// x itself where a module does nothing.
	Forward(p *Pass, x *tensor.Tensor) (*tensor.Tensor, error)
	// layers calls visit for every layer in the order of construction, which
	// is the order in which PyTorch initialises them.
	layers(visit func(layer))
}

// layer is a leaf of the tree.
type layer interface {
	Module
	params() []*Param
	// initialise draws the parameters as PyTorch's constructors do.
	initialise(g *noise.TorchCPU)
	// prepare is called once after the parameters have their values.
	prepare() error
}

// Pass is one application of an operator.
type Pass struct {
	Mode Mode
	// Draws supplies the noise. If it is nil, stochastic blocks pass their
	// input on.
	Draws noise.Draws
	// Time is what schedules see; the zero value is Spinlock's step=None.
	Time noise.Time
	// Feature, if not nil, is called with the output of every module by its
	// name (the root has none). The tensor must not be changed, and not read after the call
	// returns unless it is copied.
	Feature func(name string, t *tensor.Tensor)

	// own is a tensor that the module at work may overwrite: an activation
	// that nothing else will read. made says that a tensor was made since it
	// was last set to false.
	own  *tensor.Tensor
	made bool
}

func (p *Pass) feature(name string, t *tensor.Tensor) *tensor.Tensor {
	if p.Feature != nil && name != "" {
		p.Feature(name, t)
	}
	return t
}

// like returns a destination of x's shape for an elementwise operation on x,
// and others of its shape, in the format that the mode gives the result.
func (p *Pass) like(op string, x *tensor.Tensor, others ...*tensor.Tensor) *tensor.Tensor {
	in := []fp16.Format{x.Format}
	for _, o := range others {
		in = append(in, o.Format)
	}
	return p.dst(p.Mode.must(op, in...), x)
}

// dst returns a destination of x's shape and that format for an operation that
// may work in place: x itself if it may be overwritten and nobody watches.
func (p *Pass) dst(f fp16.Format, x *tensor.Tensor) *tensor.Tensor {
	if x == p.own && x.Format == f && p.Feature == nil {
		return x
	}
	return p.new(f, x.N(), x.C(), x.H(), x.W())
}

// new returns a destination of its own; what might have been overwritten need
// not be kept for that any more.
func (p *Pass) new(f fp16.Format, n, c, h, w int) *tensor.Tensor {
	p.made, p.own = true, nil
	return tensor.New(f, n, c, h, w)
}

// chain applies modules one after another. What one made the next may
// overwrite. (No tensor is kept here while a module works: its memory is free as
// soon as the module has read it.)
func chain(p *Pass, x *tensor.Tensor, modules ...Module) (*tensor.Tensor, error) {
	own := false
	for _, m := range modules {
		p.made = false
		if own {
			p.own = x
		}
		var err error
		x, err = m.Forward(p, x)
		p.own = nil
		if err != nil {
			return nil, err
		}
		own = own || p.made
	}
	p.made = own
	return x, nil
}

func visitAll(visit func(layer), modules ...Module) {
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
}

func newParam(name string, shape ...int) *Param {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return &Param{Name: name, Shape: shape, Data: make([]float64, n)}
}

func (p *Param) fill(v float64) {
	for i := range p.Data {
		p.Data[i] = v
	}
}
