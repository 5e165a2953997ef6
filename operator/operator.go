package operator

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// Operator is O of a rollout: an image-to-image network with noise on one of its layers. It is safe for concurrent use.
type Operator struct {
	Config  Config
	modules []module
	noise   *stochasticBlock // nil if there is none
	noisy   int              // channels of the field that it adds to

	plans plans

	kept   graph.Kept // what operations have made of the weights
	mu     sync.Mutex
	graphs []sizedGraph // those built last at the end
}

// sizedGraph is the operator's graph for images of a size, with its noise or without it.
type sizedGraph struct {
	quiet   bool
	h, w    int
	builder *builder
}

// mostGraphs bounds the graphs that an operator keeps.
const mostGraphs = 8

// build returns the tree of build_simple_cnn with zero parameters: a convBlock
// to b channels, num_layers blocks of b*2^min(i,2) channels (ResidualBlocks of
// two convolutions if there are more than three, else ConvBlocks), the noise,
// and a 1x1 output layer.
func build(c Config) (*Operator, error) {
	c = c.withDefaults()
	if c.Nodes != nil {
		op, err := buildNodes(c)
		if err != nil {
			return nil, fmt.Errorf("operator.%w", err)
		}
		return op, nil
	}
	if field, err := c.check(); err != nil {
		return nil, fmt.Errorf("operator.%s: %w", field, err)
	}
	if err := fitting(c.weights()); err != nil {
		return nil, fmt.Errorf("operator.base_channels: %d: %w", c.BaseChannels, err)
	}
	op := &Operator{Config: c}
	if c.UAFNO != nil {
		return op, op.buildUAFNO()
	}
	if c.FNO != nil {
		f, err := newFNO(c)
		op.modules = []module{f}
		return op, err
	}
	o := convOptions{
		KernelSize: c.KernelSize, Normalization: c.Normalization, Activation: c.Activation, Dropout: c.DropoutRate,
	}
	channels := c.InputChannels
	for i := range c.NumLayers + 1 {
		name := fmt.Sprintf("conv_blocks.%d", i)
		out := c.BaseChannels * widening(i)
		var m module
		var err error
		if i > 0 && c.NumLayers > 3 {
			m, err = newResidualBlock(name, channels, out, 2, o)
		} else {
			m, err = newConvBlock(name, channels, out, o)
		}
		if err != nil {
			return nil, fmt.Errorf("operator.%w", err)
		}
		op.modules = append(op.modules, m)
		channels = out
	}
	if c.NoiseType != "" {
		block, field, err := noiseBlock(c.NoiseType, c.NoiseScale)
		if err != nil {
			return nil, fmt.Errorf("operator.%s: %w", field, err)
		}
		op.noise, op.noisy = newStochasticBlock("stochastic_block", block), channels
		op.modules = append(op.modules, op.noise)
	}
	output, err := newOutputLayer("output_layer", channels, c.OutputChannels, 1, "none")
	op.modules = append(op.modules, output)
	return op, err
}

// Load returns the operator of those parameters with the weights of a file. It
// accepts the names of Spinlock's SimpleCNNOperator (conv_blocks.0...) and
// those of the nn.Sequential that its older versions built (0..., 1...).
// What torch.compile and nn.DataParallel put before all names is left out: see
// [Prefix]. Missing, surplus, misshapen and non-finite tensors are errors that
// name file, tensor, value and expectation.
func Load(c Config, f *safetensors.File) (*Operator, error) {
	op, err := build(c)
	if err != nil {
		return nil, err
	}
	prefix := Prefix(c, f)
	return op, load(f, prefix, op.sequentialNames(f, prefix), op.modules...)
}

// Init returns the operator of those parameters with the weights PyTorch gives
// it after torch.manual_seed(seed), bit for bit.
func Init(c Config, seed uint64) (*Operator, error) {
	op, err := build(c)
	if err != nil {
		return nil, err
	}
	if op.Config.FNO != nil {
		return nil, errors.New("operator.operator_type: fno: seeds give no weights: want a weights file")
	}
	visitAll(func(l layer) {
		if o, ok := l.(*bound); ok && len(o.own) > 0 && err == nil {
			err = fmt.Errorf("operator.nodes: "+
				"%s: no draws of PyTorch's belong to the parameters of op %s: want a weights file", o.name, o.op.Name())
		}
	}, op.modules...)
	if err != nil {
		return nil, err
	}
	return op, initialise(seed, op.modules...)
}

// sequentialNames returns the prefix that each module has in an nn.Sequential,
// or nil if the file does not use them.
func (op *Operator) sequentialNames(f *safetensors.File, prefix string) map[string]string {
	if _, err := f.Tensor(prefix + "0.block.0.weight"); err != nil || !op.Config.CNN() {
		return nil
	}
	to := map[string]string{}
	for i, m := range op.modules {
		switch m.(type) {
		case *stochasticBlock:
			to["stochastic_block"] = fmt.Sprint(i)
		case *outputLayer:
			to["output_layer"] = fmt.Sprint(i)
		default:
			to[fmt.Sprintf("conv_blocks.%d", i)] = fmt.Sprint(i)
		}
	}
	return to
}

// HasNoise reports whether the operator draws random numbers.
func (op *Operator) HasNoise() bool { return op.noise != nil }

// Draws returns the primitive draws of one application in order, and the
// channels of the field they are for; nil if the operator has no noise.
func (op *Operator) Draws() (kinds []noise.Kind, channels int) {
	if op.noise == nil {
		return nil, 0
	}
	return op.noise.block.Primitives(), op.noisy
}

// Coupled reports whether the realizations of a batch depend on each other, as they do by
// a noise field that is normalised over all of them: then a batch is applied whole.
func (op *Operator) Coupled() bool {
	return op.noise != nil && op.noise.block.Correlation > 0 && op.noise.block.Scope == noise.WholeBatch
}

// Params returns the parameters in the order of construction. They must not be changed.
func (op *Operator) Params() []*Param { return params(op.modules...) }

// Bytes returns the memory of the parameters and of what the modes and kernels
// in use have made of the convolutions' weights so far.
func (op *Operator) Bytes() int64 {
	n := op.kept.Bytes()
	for _, p := range op.Params() {
		n += 8 * int64(len(p.Data))
	}
	return n
}

// MACs returns the multiplications of products, such as convolutions, that one
// application to one sample of h x w pixels takes.
func (op *Operator) MACs(h, w int) int64 {
	// images may change their size
	if op.Config.UAFNO != nil || op.Config.FNO != nil ||
		slices.ContainsFunc(op.Config.Nodes, func(n NodeConfig) bool { return !slices.Contains(spinlock, n.Op) }) {
		_, p, err := op.inferred(reference, graph.Type{Shape: []int{1, op.Config.InputChannels, h, w}, Format: fp16.Float32})
		if err != nil { // so does an application
			return 0
		}
		return p.Products()
	}
	var n int64
	visitAll(func(l layer) {
		if c, ok := l.(*conv2d); ok {
			n += int64(len(c.weight.Data)) * int64(h) * int64(w)
		}
	}, op.modules...)
	return n
}

// Forward applies the operator to x [N,input_channels,H,W] and returns
// [N,output_channels,H,W] in the format of the mode. A nil Pass is an empty one.
// Several goroutines may call it at once. Features are reported for
// every module, and as "input" and "output".
func (op *Operator) Forward(p *Pass, x *tensor.Tensor) (*tensor.Tensor, error) {
	if p == nil {
		p = new(Pass)
	}
	if err := p.Mode.Check(); err != nil {
		return nil, err
	}
	if f := x.Fault(4); f != "" {
		return nil, errors.New("operator: input: " + f)
	}
	if x.C() != op.Config.InputChannels {
		return nil, fmt.Errorf("operator: input has %d channels: want %d", x.C(), op.Config.InputChannels)
	}
	b := op.graph(p.Draws == nil, x.H(), x.W())
	if b.err != nil {
		return nil, b.err
	}
	return p.run(b.Graph, x)
}

// Graph returns the operator as a graph of its own, with one input and one output, that
// may be added to; its constants are the operator's. Without noise, as where there are no
// draws, the stochastic block passes its input on.
//
// The graph of an operator with a spectrum is one for images of the Config's GridSize: see
// GraphOf.
func (op *Operator) Graph(noise bool) *graph.Graph {
	side := op.side()
	return op.GraphOf(noise, side, side)
}

// GraphOf is Graph for images of h x w pixels. Only operators with a spectrum have another
// one for another size.
func (op *Operator) GraphOf(noise bool, h, w int) *graph.Graph {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.build(!noise, h, w).Graph
}

// build makes the operator's graph. op.mu is held.
func (op *Operator) build(quiet bool, h, w int) *builder {
	b := newBuilder(&op.kept, quiet)
	b.h, b.w = h, w
	b.Outputs = []int{b.Pass("output", b.sequence(b.Input("input"), op.modules...))}
	return b
}

// graph returns the operator's graph for images of h x w pixels, with its noise or
// without it.
func (op *Operator) graph(quiet bool, h, w int) *builder {
	if op.Config.UAFNO == nil && op.Config.FNO == nil { // one for all sizes
		h, w = 0, 0
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	for _, g := range op.graphs {
		if g.quiet == quiet && g.h == h && g.w == w {
			return g.builder
		}
	}
	if len(op.graphs) == mostGraphs {
		op.graphs = slices.Delete(op.graphs, 0, 1)
	}
	b := op.build(quiet, h, w)
	op.graphs = append(op.graphs, sizedGraph{quiet, h, w, b})
	return b
}

// finite reports the first value that is NaN or infinite.
func finite(v []float64) (at int, ok bool) {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return i, false
		}
	}
	return 0, true
}
