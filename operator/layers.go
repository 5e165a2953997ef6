package operator

import (
	"fmt"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/noise"
)

// epsilon is PyTorch's default eps of a norm, as a double.
const epsilon = 1e-5

// noParams is embedded by layers without parameters.
type noParams struct{}

func (noParams) params() []*Param           { return nil }
func (noParams) initialise(*noise.TorchCPU) {}
func (noParams) prepare() error             { return nil }

// conv2d is torch.nn.Conv2d, or ConvTranspose2d if transposed.
type conv2d struct {
	name       string
	weight     *Param
	bias       *Param // nil if there is none
	geometry   conv.Params
	transposed bool
	ready      bool // it has weights
}

// newConv returns a convolution with weight [out,in,k,k] that pads by k/2.
func newConv(name string, in, out, k int, bias bool, stride int, padding conv.Padding) *conv2d {
	c := &conv2d{
		name: name, weight: newParam(join(name, "weight"), out, in, k, k), geometry: conv.Square(stride, k/2, padding),
	}
	if bias {
		c.bias = newParam(join(name, "bias"), out)
	}
	return c
}

// newTransposed returns torch.nn.ConvTranspose2d(in, out, k, stride=k) with
// bias: weight [in,out,k,k].
func newTransposed(name string, in, out, k int) *conv2d {
	return &conv2d{name: name, transposed: true, geometry: conv.Square(k, 0, conv.Zeros),
		weight: newParam(join(name, "weight"), in, out, k, k), bias: newParam(join(name, "bias"), out)}
}

func (c *conv2d) layers(visit func(layer)) { visit(c) }

func (c *conv2d) params() []*Param {
	if c.bias == nil {
		return []*Param{c.weight}
	}
	return []*Param{c.weight, c.bias}
}

func (c *conv2d) initialise(g *noise.TorchCPU) {
	s := c.weight.Shape
	var bias []float64
	if c.bias != nil {
		bias = c.bias.Data
	}
	// PyTorch's fan_in is weight.size(1)*kh*kw, for a transposed convolution
	// too, where that dimension holds the outputs.
	g.ConvInit(c.weight.Data, bias, s[1]*s[2]*s[3])
}

func (c *conv2d) prepare() error {
	c.ready = true
	return nil
}

func (c *conv2d) build(b *builder, x int) int {
	if !c.ready && b.err == nil {
		b.err = fmt.Errorf("%s: no weights yet: want InitBlock or LoadBlock first", c.name)
	}
	var op graph.Op = graph.Conv{Params: c.geometry}
	if c.transposed {
		op = graph.ConvTranspose{Params: c.geometry}
	}
	return b.Add(op, c.name, b.param(b.param([]int{x}, c.weight), c.bias)...)
}

// normalization is one of the norms of Spinlock's factory.
type normalization struct {
	name                    string
	kind                    string // instance, group, layer or batch
	groups                  int
	eps                     float64
	weight, bias            *Param
	fixed                   bool   // weight and bias are 1 and 0, and no parameters
	mean, variance, tracked *Param // batch only
}

// normGroups returns how many sets of channels a norm of that kind over c channels
// takes statistics of together: 0 if it has no such sets, or is none.
func normGroups(kind string, c int) (int, error) {
	switch kind {
	case "none", "instance", "batch":
		return 0, nil
	case "layer":
		return 1, nil
	case "group":
		groups := min(32, c)
		if c%groups != 0 {
			return 0, fmt.Errorf("group norm of %d channels: want a number of channels that its %d groups divide", c, groups)
		}
		return groups, nil
	}
	return 0, fmt.Errorf("%.60q: want instance, batch, group, layer or none", kind)
}

// newNorm returns the norm of that kind over c channels, or nil for "none".
func newNorm(name, kind string, c int) (*normalization, error) {
	groups, err := normGroups(kind, c)
	if err != nil {
		return nil, fmt.Errorf("normalization: %w", err)
	}
	if kind == "none" {
		return nil, nil
	}
	n := &normalization{name: name, kind: kind, groups: groups, eps: epsilon, weight: newParam(join(name, "weight"), c),
		bias: newParam(join(name, "bias"), c)}
	if kind == "batch" {
		n.mean = newParam(join(name, "running_mean"), c)
		n.variance = newParam(join(name, "running_var"), c)
		n.variance.nonNegative = true
		n.tracked = newParam(join(name, "num_batches_tracked"), 1)
		n.tracked.Counter = true
	}
	return n, nil
}

func (n *normalization) layers(visit func(layer)) { visit(n) }
func (n *normalization) prepare() error           { return nil }

func (n *normalization) params() []*Param {
	var p []*Param
	if !n.fixed {
		p = append(p, n.weight, n.bias)
	}
	if n.kind == "batch" {
		p = append(p, n.mean, n.variance, n.tracked)
	}
	return p
}

func (n *normalization) initialise(*noise.TorchCPU) {
	n.weight.fill(1)
	n.bias.fill(0)
	if n.kind == "batch" {
		n.mean.fill(0)
		n.variance.fill(1)
		n.tracked.fill(0)
	}
}

func (n *normalization) build(b *builder, x int) int {
	in := b.param(b.param([]int{x}, n.weight), n.bias)
	if n.kind == "batch" {
		return b.Add(graph.BatchNorm{Eps: n.eps}, n.name, b.param(b.param(in, n.mean), n.variance)...)
	}
	if n.kind == "instance" {
		return b.Add(graph.InstanceNorm{Eps: n.eps}, n.name, in...)
	}
	return b.Add(graph.GroupNorm{Groups: n.groups, Eps: n.eps}, n.name, in...)
}

// activation is an elementwise function.
type activation struct {
	noParams
	name string
	f    act.Func
}

func newActivation(name, f string) (*activation, error) {
	fn, err := act.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("activation: %w", err)
	}
	return &activation{name: name, f: fn}, nil
}

func (a *activation) layers(visit func(layer)) { visit(a) }

func (a *activation) build(b *builder, x int) int {
	return b.Add(graph.Act{Func: a.f}, a.name, x)
}

// identity is a module that does nothing in evaluation: Dropout2d.
type identity struct {
	noParams
	name string
}

func (m *identity) layers(visit func(layer)) { visit(m) }

func (m *identity) build(b *builder, x int) int { return b.Pass(m.name, x) }

// resample changes the size of the image by an integer factor.
type resample struct {
	noParams
	name   string
	mode   string // pool, bilinear or nearest
	factor int
}

func (m *resample) layers(visit func(layer)) { visit(m) }

func (m *resample) build(b *builder, x int) int {
	if m.mode == "pool" {
		pool, err := graph.Bind("avg_pool2d", fmt.Appendf(nil, `{"kernel_size": %d}`, m.factor))
		if err != nil {
			panic(err) // a factor is a number
		}
		return b.Add(pool, m.name, x)
	}
	return b.Add(graph.Interpolate{Scale: graph.Floats{float64(m.factor)}, Mode: m.mode}, m.name, x)
}
