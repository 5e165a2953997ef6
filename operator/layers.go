package operator

import (
	"fmt"
	"sync"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/norm"
	"github.com/refrun/refrun/tensor"
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

	// What the modes in use have made of the weights.
	mu      sync.Mutex
	kernels map[operands]*convKernel
}

// operands is how a mode rounds what a convolution multiplies.
type operands struct {
	format   fp16.Format
	tf32     fp16.Rounding
	biasLast bool // the bias is not part of the kernel
}

type convKernel struct {
	*conv.Kernel
	bias []float64 // to be added after rounding, nil if there is none
}

// newConv returns a convolution with weight [out,in,k,k] that pads by k/2.
func newConv(name string, in, out, k int, bias bool, g conv.Params) *conv2d {
	g.Pad = k / 2
	c := &conv2d{name: name, weight: newParam(join(name, "weight"), out, in, k, k), geometry: g}
	if bias {
		c.bias = newParam(join(name, "bias"), out)
	}
	return c
}

// newTransposed returns torch.nn.ConvTranspose2d(in, out, k, stride=k) with
// bias: weight [in,out,k,k].
func newTransposed(name string, in, out, k int) *conv2d {
	return &conv2d{name: name, transposed: true, geometry: conv.Params{Stride: k},
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

// prepare drops the kernels of other weights.
func (c *conv2d) prepare() error {
	c.kernels = map[operands]*convKernel{}
	return nil
}

// kernel returns the kernel of a mode whose operands have that format, and
// makes it at its first use.
func (c *conv2d) kernel(m Mode, f fp16.Format) *convKernel {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := operands{f, m.TF32, c.bias != nil && m.biasApart()}
	if k := c.kernels[o]; k != nil {
		return k
	}
	weight, bias := c.weight.Data, []float64(nil)
	if c.bias != nil {
		bias = c.bias.Data
	}
	if f != fp16.Float32 && f != fp16.Float64 { // which the weights are
		weight = make([]float64, len(weight))
		m.roundSlice(f, weight, c.weight.Data)
	}
	if f == fp16.Float16 || f == fp16.BFloat16 {
		rounded := make([]float64, len(bias))
		f.RoundSlice(rounded, bias)
		bias = rounded
	}
	k := &convKernel{}
	if o.biasLast {
		k.bias, bias = bias, nil
	}
	if len(bias) == 0 {
		bias = nil
	}
	s := c.weight.Shape
	w := tensor.Of(f, weight, s[0], s[1], s[2], s[3])
	if c.transposed {
		k.Kernel = conv.NewTransposedKernel(w, bias)
	} else {
		k.Kernel = conv.NewKernel(w, bias)
	}
	c.kernels[o] = k
	return k
}

func (c *conv2d) Forward(p *Pass, x *tensor.Tensor) (*tensor.Tensor, error) {
	s, g := c.weight.Shape, c.geometry
	if c.kernels == nil {
		return nil, fmt.Errorf("%s: no weights yet: want InitBlock or LoadBlock first", c.name)
	}
	in, out, op := s[1], s[0], "conv2d"
	if c.transposed {
		in, out, op = out, in, "conv_transpose2d"
	}
	if x.C() != in {
		return nil, fmt.Errorf("%s: input has %d channels: want %d", c.name, x.C(), in)
	}
	f, of := p.Mode.conv(op, x.Format)
	k, stride := c.kernel(p.Mode, f), max(g.Stride, 1)
	if c.transposed {
		y := p.new(of, x.N(), out, (x.H()-1)*stride+s[2], (x.W()-1)*stride+s[3])
		conv.Transposed(y, p.Mode.cast(x, f), k.Kernel, stride, 0)
		return p.feature(c.name, k.addBias(y)), nil
	}
	least := 1 // the smallest side the padding can be taken from
	switch g.Padding {
	case conv.Circular:
		least = g.Pad
	case conv.Reflect:
		least = g.Pad + 1
	}
	if x.H() < least || x.W() < least {
		return nil, fmt.Errorf("%s: image is %dx%d: want at least %dx%d for %s padding by %d", c.name, x.H(), x.W(), least, least, g.Padding, g.Pad)
	}
	y := p.new(of, x.N(), out, conv.OutSize(x.H(), s[2], stride, g.Pad), conv.OutSize(x.W(), s[3], stride, g.Pad))
	conv.Forward(y, p.Mode.cast(x, f), k.Kernel, g)
	return p.feature(c.name, k.addBias(y)), nil
}

// addBias adds the bias that the kernel left out, rounding once more.
func (k *convKernel) addBias(y *tensor.Tensor) *tensor.Tensor {
	for i := range y.N() * y.C() {
		if k.bias == nil {
			break
		}
		plane, b := y.Plane(i/y.C(), i%y.C()), k.bias[i%y.C()]
		for j, v := range plane {
			plane[j] = y.Format.Round(v + b) // exact or innocuous: see add
		}
	}
	return y
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
	return 0, fmt.Errorf("%q: want instance, batch, group, layer or none", kind)
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
	n := &normalization{name: name, kind: kind, groups: groups, eps: epsilon, weight: newParam(join(name, "weight"), c), bias: newParam(join(name, "bias"), c)}
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

func (n *normalization) Forward(p *Pass, x *tensor.Tensor) (*tensor.Tensor, error) {
	f, err := p.Mode.result(n.kind+" norm", x.Format)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	y := p.dst(f, x)
	switch n.kind {
	case "instance":
		norm.Instance(y, x, n.weight.Data, n.bias.Data, n.eps)
	case "batch":
		norm.Batch(y, x, n.mean.Data, n.variance.Data, n.weight.Data, n.bias.Data, n.eps)
	default:
		norm.Group(y, x, n.groups, n.weight.Data, n.bias.Data, n.eps)
	}
	return p.feature(n.name, y), nil
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

func (a *activation) Forward(p *Pass, x *tensor.Tensor) (*tensor.Tensor, error) {
	y := p.like("activation", x)
	act.Forward(y, x, a.f)
	return p.feature(a.name, y), nil
}

// identity is a module that does nothing in evaluation: Dropout2d.
type identity struct {
	noParams
	name string
}

func (m *identity) layers(visit func(layer)) { visit(m) }

func (m *identity) Forward(p *Pass, x *tensor.Tensor) (*tensor.Tensor, error) {
	return p.feature(m.name, x), nil
}

// resample changes the size of the image by an integer factor.
type resample struct {
	noParams
	name   string
	mode   string // pool, bilinear or nearest
	factor int
}

func (m *resample) layers(visit func(layer)) { visit(m) }

func (m *resample) Forward(p *Pass, x *tensor.Tensor) (*tensor.Tensor, error) {
	f := m.factor
	if m.mode == "pool" {
		if x.H() < f || x.W() < f {
			return nil, fmt.Errorf("%s: image is %dx%d: want at least %dx%d to pool by %d", m.name, x.H(), x.W(), f, f, f)
		}
		y := p.new(p.Mode.must("avg_pool2d", x.Format), x.N(), x.C(), x.H()/f, x.W()/f)
		conv.AvgPool(y, x, f)
		return p.feature(m.name, y), nil
	}
	y := p.new(p.Mode.must("interpolate", x.Format), x.N(), x.C(), x.H()*f, x.W()*f)
	if m.mode == "nearest" {
		conv.Nearest(y, x, f)
	} else {
		conv.Bilinear(y, x, f)
	}
	return p.feature(m.name, y), nil
}
