package operator

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/noise"
)

// convOptions are the options that Spinlock's convolution blocks share.
type convOptions struct {
	KernelSize    int     // odd; 0 means 3
	Stride        int     // 0 means 1
	Normalization string  // instance, batch, group, layer or none; "" means instance
	Activation    string  // "" means gelu
	PaddingMode   string  // zeros, circular, reflect or replicate; "" means zeros
	Dropout       float64 // inactive in evaluation
	NoBias        bool    // the bias exists only without a norm, and not if NoBias
}

func (o convOptions) withDefaults() convOptions {
	if o.KernelSize == 0 {
		o.KernelSize = 3
	}
	if o.Stride == 0 {
		o.Stride = 1
	}
	if o.Normalization == "" {
		o.Normalization = "instance"
	}
	if o.Activation == "" {
		o.Activation = "gelu"
	}
	if o.PaddingMode == "" {
		o.PaddingMode = "zeros"
	}
	return o
}

// convBlock is convolution, norm, activation (and dropout, which evaluation
// skips): Spinlock's blocks.ConvBlock.
type convBlock struct {
	name string
	seq  []module // named <name>.block.0, .1, ...
}

// newConvBlock returns a convBlock from in to out channels at the given path
// of names. Options that make no block are errors that begin with the option.
func newConvBlock(name string, in, out int, o convOptions) (*convBlock, error) {
	o = o.withDefaults()
	if in < 1 || out < 1 {
		return nil, fmt.Errorf("channels: %d to %d: want 1 or more", in, out)
	}
	if o.KernelSize < 1 || o.KernelSize%2 == 0 {
		return nil, fmt.Errorf("kernel_size: %d: want an odd number", o.KernelSize)
	}
	if o.Stride < 1 {
		return nil, fmt.Errorf("stride: %d: want 1 or more", o.Stride)
	}
	padding, err := conv.ParsePadding(o.PaddingMode)
	if err != nil {
		return nil, fmt.Errorf("padding_mode: %w", err)
	}
	b := &convBlock{name: name}
	next := func() string { return join(name, fmt.Sprintf("block.%d", len(b.seq))) }
	bias := !o.NoBias && o.Normalization == "none"
	b.seq = append(b.seq, newConv(next(), in, out, o.KernelSize, bias, o.Stride, padding))
	n, err := newNorm(next(), o.Normalization, out)
	if err != nil {
		return nil, err
	}
	if n != nil {
		b.seq = append(b.seq, n)
	}
	a, err := newActivation(next(), o.Activation)
	if err != nil {
		return nil, err
	}
	b.seq = append(b.seq, a)
	if o.Dropout > 0 {
		b.seq = append(b.seq, &identity{name: next()})
	}
	return b, nil
}

func (b *convBlock) layers(visit func(layer)) { visitAll(visit, b.seq...) }

// build maps x [N,in,H,W] to [N,out,H/stride,W/stride], rounded up.
func (b *convBlock) build(g *builder, x int) int { return g.Pass(b.name, g.sequence(x, b.seq...)) }

// residualBlock is a run of ConvBlocks plus its own input, through a 1x1
// convolution without bias where the number of channels changes; no activation
// follows the sum. It is Spinlock's blocks.ResidualBlock.
type residualBlock struct {
	name       string
	blocks     []module // named <name>.blocks.0, ...
	projection *conv2d  // nil if in = out
}

// newResidualBlock returns a block of numConvs ConvBlocks, the first from in
// to out channels, the rest from out to out.
func newResidualBlock(name string, in, out, numConvs int, o convOptions) (*residualBlock, error) {
	if numConvs < 1 {
		return nil, fmt.Errorf("num_convs: %d: want 1 or more", numConvs)
	}
	if o.Stride > 1 {
		return nil, fmt.Errorf("stride: %d: want 1, since the block adds its input", o.Stride)
	}
	r := &residualBlock{name: name}
	from := in
	for i := range numConvs {
		b, err := newConvBlock(join(name, fmt.Sprintf("blocks.%d", i)), from, out, o)
		if err != nil {
			return nil, err
		}
		r.blocks = append(r.blocks, b)
		from = out
	}
	if in != out {
		r.projection = newConv(join(name, "projection"), in, out, 1, false, 1, conv.Zeros)
	}
	return r, nil
}

func (r *residualBlock) layers(visit func(layer)) {
	visitAll(visit, r.blocks...)
	if r.projection != nil {
		visit(r.projection)
	}
}

// build returns rn(blocks(x) + projection(x)).
func (r *residualBlock) build(g *builder, x int) int {
	y := g.sequence(x, r.blocks...)
	if r.projection != nil {
		x = r.projection.build(g, x)
	}
	return g.Add(graph.Addition, r.name, y, x)
}

// stochasticBlock adds noise: Spinlock's blocks.StochasticBlock. Its parameter
// noise_scale is the float32 number s0 of package noise.
type stochasticBlock struct {
	name  string
	scale *Param
	block noise.Block
}

// newStochasticBlock returns the block at the given path of names; b.Scale is
// rounded to float32.
func newStochasticBlock(name string, b noise.Block) *stochasticBlock {
	s := &stochasticBlock{name: name, scale: newParam(join(name, "noise_scale"), 1), block: b}
	s.scale.fill(fp16.Float32.Round(b.Scale))
	return s
}

func (s *stochasticBlock) layers(visit func(layer)) { visit(s) }
func (s *stochasticBlock) params() []*Param         { return []*Param{s.scale} }

// The scale is a constant of the configuration and draws nothing.
func (s *stochasticBlock) initialise(*noise.TorchCPU) {}

func (s *stochasticBlock) prepare() error {
	s.block.Scale = s.scale.Data[0]
	if s.block.Type == noise.Dropout && !(s.block.Scale >= 0 && s.block.Scale <= 1) {
		return fmt.Errorf("%s: %v: want a probability from 0 to 1, since the noise is dropout", s.scale.Name, s.block.Scale)
	}
	return nil
}

// build returns x with noise, or x itself if there is none.
func (s *stochasticBlock) build(g *builder, x int) int {
	if g.quiet {
		return g.Pass(s.name, x)
	}
	return g.Add(graph.Noise{Block: s.block}, s.name, x)
}

// mostFactor is the largest change of size that package conv takes.
const mostFactor = 8192

// downsampleBlock halves (or divides by factor) the image: Spinlock's
// blocks.DownsampleBlock.
type downsampleBlock struct {
	name string
	seq  []module
}

// newDownsampleBlock returns a block of mode "conv" (a convBlock of stride
// factor) or "pool" (average pooling, then a convBlock). factor 0 means 2, mode
// "" means conv.
func newDownsampleBlock(name string, in, out, factor int, mode string, o convOptions) (*downsampleBlock, error) {
	if factor == 0 {
		factor = 2
	}
	if factor < 1 || factor > mostFactor {
		return nil, fmt.Errorf("factor: %d: want 1 to %d", factor, mostFactor)
	}
	d := &downsampleBlock{name: name}
	path := join(name, "downsample")
	switch mode {
	case "", "conv":
		o.Stride = factor
	case "pool":
		d.seq = append(d.seq, &resample{name: join(path, "0"), mode: "pool", factor: factor})
		path = join(path, "1")
	default:
		return nil, fmt.Errorf("mode: %.60q: want conv or pool", mode)
	}
	b, err := newConvBlock(path, in, out, o)
	if err != nil {
		return nil, err
	}
	d.seq = append(d.seq, b)
	return d, nil
}

func (d *downsampleBlock) layers(visit func(layer)) { visitAll(visit, d.seq...) }

// build maps x [N,in,H,W] to [N,out,H/factor,W/factor].
func (d *downsampleBlock) build(g *builder, x int) int {
	return g.Pass(d.name, g.sequence(x, d.seq...))
}

// upsampleBlock enlarges the image, joins it with a skip connection if it has
// one, and convolves: Spinlock's blocks.UpsampleBlock.
type upsampleBlock struct {
	name string
	up   module
	conv *convBlock
	skip int  // channels of the skip connection, 0 if none
	sum  bool // add instead of concatenate
}

// newUpsampleBlock returns a block of mode "bilinear" (align_corners false),
// "nearest" or "transpose" (a transposed convolution of kernel and stride
// factor, with bias), joining a skip connection of skipChannels by fusion
// "concat" ([up, skip] on channels) or "add" (equal channels). factor 0 means
// 2, mode "" bilinear, fusion "" concat, skipChannels 0 none.
func newUpsampleBlock(
	name string, in, out, factor int, mode string, skipChannels int, fusion string, o convOptions,
) (*upsampleBlock, error) {
	if factor == 0 {
		factor = 2
	}
	if factor < 1 || factor > mostFactor {
		return nil, fmt.Errorf("factor: %d: want 1 to %d", factor, mostFactor)
	}
	if in < 1 {
		return nil, fmt.Errorf("channels: %d: want 1 or more", in)
	}
	if skipChannels < 0 {
		return nil, fmt.Errorf("skip_channels: %d: want 0 or more", skipChannels)
	}
	u := &upsampleBlock{name: name, skip: skipChannels}
	path := join(name, "upsample")
	switch mode {
	case "":
		mode = "bilinear"
		fallthrough
	case "bilinear", "nearest":
		u.up = &resample{name: path, mode: mode, factor: factor}
	case "transpose":
		u.up = newTransposed(path, in, in, factor)
	default:
		return nil, fmt.Errorf("mode: %.60q: want bilinear, nearest or transpose", mode)
	}
	from := in
	switch fusion {
	case "", "concat":
		from += skipChannels
	case "add":
		u.sum = true
		if skipChannels != 0 && skipChannels != in {
			return nil, fmt.Errorf("skip_channels: %d: want %d, the channels they are added to", skipChannels, in)
		}
	default:
		return nil, fmt.Errorf("fusion_mode: %.60q: want concat or add", fusion)
	}
	var err error
	u.conv, err = newConvBlock(join(name, "conv"), from, out, o)
	return u, err
}

func (u *upsampleBlock) layers(visit func(layer)) { visitAll(visit, u.up, u.conv) }

// build maps x [N,in,H,W], and a skip connection [N,skipChannels,H*factor,W*factor] if
// the block has one, to [N,out,H*factor,W*factor].
func (u *upsampleBlock) build(g *builder, x int) int {
	y := u.up.build(g, x)
	if (g.skip >= 0) != (u.skip > 0) && g.err == nil {
		g.err = fmt.Errorf("%s: skip connection: want one of %d channels", u.name, u.skip)
	}
	switch {
	case u.skip == 0:
	case u.sum:
		y = g.Add(graph.Addition, join(u.name, "fusion"), y, g.skip)
	default:
		y = g.Add(graph.Cat{Axis: 1}, join(u.name, "fusion"), y, g.skip)
	}
	return g.Pass(u.name, u.conv.build(g, y))
}

// outputLayer is a convolution with bias and an activation: Spinlock's
// blocks.OutputLayer.
type outputLayer struct {
	name string
	conv *conv2d
	act  *activation
}

// newOutputLayer returns the layer; k 0 means 1, activation "" means none.
func newOutputLayer(name string, in, out, k int, activation string) (*outputLayer, error) {
	if k == 0 {
		k = 1
	}
	if k < 1 || k%2 == 0 {
		return nil, fmt.Errorf("kernel_size: %d: want an odd number", k)
	}
	if in < 1 || out < 1 {
		return nil, fmt.Errorf("channels: %d to %d: want 1 or more", in, out)
	}
	if activation == "" {
		activation = "none"
	}
	a, err := newActivation(join(name, "activation"), activation)
	return &outputLayer{name: name, conv: newConv(join(name, "conv"), in, out, k, true, 1, conv.Zeros), act: a}, err
}

func (o *outputLayer) layers(visit func(layer)) { visitAll(visit, o.conv, o.act) }

// build maps x [N,in,H,W] to [N,out,H,W].
func (o *outputLayer) build(g *builder, x int) int {
	return g.Pass(o.name, g.sequence(x, o.conv, o.act))
}
