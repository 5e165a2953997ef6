package operator

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// afnoBlock is Spinlock's afno.AFNOBlock: x plus the spectral mixing of its norm, then
// that plus the feed-forward part of its norm.
type afnoBlock struct {
	name         string
	norm1, norm2 *normalization
	spectral     *spectralMixing
	mlp          []module // named <name>.mlp.0 to .3
}

// newAFNOBlock returns the block over so many channels, with hidden channels inside its
// feed-forward part.
func newAFNOBlock(name string, channels, modes, hidden int, activation string) (*afnoBlock, error) {
	b := &afnoBlock{name: name}
	var err error
	if b.norm1, err = newNorm(join(name, "norm1"), "layer", channels); err != nil {
		return nil, err
	}
	if b.spectral, err = newSpectralMixing(join(name, "spectral"), channels, modes, activation); err != nil {
		return nil, err
	}
	if b.norm2, err = newNorm(join(name, "norm2"), "layer", channels); err != nil {
		return nil, err
	}
	a, err := newActivation(join(name, "mlp.1"), activation)
	if err != nil {
		return nil, err
	}
	b.mlp = []module{pointConv(join(name, "mlp.0"), channels, hidden), a, &identity{name: join(name, "mlp.2")},
		pointConv(join(name, "mlp.3"), hidden, channels)}
	return b, nil
}

// pointConv returns a 1x1 convolution with bias.
func pointConv(name string, in, out int) *conv2d {
	return newConv(name, in, out, 1, true, 1, conv.Zeros)
}

func (a *afnoBlock) layers(visit func(layer)) {
	visitAll(visit, append([]module{a.norm1, a.spectral, a.norm2}, a.mlp...)...)
}

// build maps x [N,C,H,W] to the same shape.
func (a *afnoBlock) build(b *builder, x int) int {
	y := b.Pass(join(a.name, "drop1"), b.sequence(x, a.norm1, a.spectral))
	x = b.Add(graph.Addition, join(a.name, "residual"), x, y)
	y = b.Pass(join(a.name, "mlp"), b.sequence(x, append([]module{a.norm2}, a.mlp...)...))
	return b.Add(graph.Addition, a.name, x, b.Pass(join(a.name, "drop2"), y))
}

// spectralMixing is Spinlock's afno.SpectralMixingBlock without a sum of its own. Of the
// spectrum of an image, rfft2 with norm ortho, it keeps the first Modes frequencies of
// each axis: along the height only those from 0 on, unless it keeps all. It multiplies
// the channels of each frequency with a complex matrix of its own, goes back, and mixes
// the channels of each pixel by a perceptron.
//
// The products of real and imaginary parts are four sums over the channels, each of which
// PyTorch rounds; so are their difference and their sum.
type spectralMixing struct {
	name            string
	channels, modes int
	real, imag      *Param // [in,out,modes,modes]
	mlp             []module
}

func newSpectralMixing(name string, channels, modes int, activation string) (*spectralMixing, error) {
	a, err := newActivation(join(name, "mlp.1"), activation)
	if err != nil {
		return nil, err
	}
	param := func(part string) *Param { return newLargeParam(join(name, part), channels, channels, modes, modes) }
	return &spectralMixing{name: name, channels: channels, modes: modes, real: param("weights_real"),
		imag: param("weights_imag"), mlp: []module{newLinear(join(name, "mlp.0"), channels, 2*channels), a,
			newLinear(join(name, "mlp.2"), 2*channels, channels)}}, nil
}

func (s *spectralMixing) params() []*Param { return []*Param{s.real, s.imag} }
func (s *spectralMixing) prepare() error   { return nil }

func (s *spectralMixing) layers(visit func(layer)) {
	visit(s)
	visitAll(visit, s.mlp...)
}

// initialise draws what scale * torch.randn(...) does, with scale 1/(in out) as float32.
func (s *spectralMixing) initialise(g *noise.TorchCPU) {
	scale := fp16.Float32.Round(1 / float64(s.channels*s.channels))
	for _, p := range s.params() {
		p.allocate()
		g.Normal(p.Data)
		for i, v := range p.Data {
			p.Data[i] = fp16.Float32.Round(v * scale)
		}
	}
}

// build maps x [N,C,H,W] to the same shape.
func (s *spectralMixing) build(b *builder, x int) int {
	at := func(part string) string { return join(s.name, part) }
	half := b.w/2 + 1
	high, wide := min(s.modes, b.h), min(s.modes, half)
	x = b.Add(graph.FFT{Kind: "rfft", Axes: graph.Ints{2, 3}, Norm: "ortho"}, at("rfft2"), x)
	x = b.Add(graph.Slice{Axes: graph.Ints{2, 3}, End: graph.Ints{high, wide}}, at("modes"), x)
	re := b.Add(graph.Select{Axis: -1, Index: 0}, at("real"), x)
	im := b.Add(graph.Select{Axis: -1, Index: 1}, at("imag"), x)
	wr, wi := b.corner(s.real, high, wide), b.corner(s.imag, high, wide)
	mixed := func(part string, x, w int) int {
		return b.Add(graph.Einsum{Equation: "bihw,hwio->bohw"}, at(part), x, w)
	}
	outRe := b.Add(graph.Binary{Of: pointwise.Sub}, at("out_real"), mixed("real_real", re, wr), mixed("imag_imag", im, wi))
	outIm := b.Add(graph.Addition, at("out_imag"), mixed("real_imag", re, wi), mixed("imag_real", im, wr))
	// A complex number has float32 parts, whatever autocast makes of the sums.
	outRe = b.Add(graph.Cast{Dtype: "float32"}, at("out_real.float"), outRe)
	outIm = b.Add(graph.Cast{Dtype: "float32"}, at("out_imag.float"), outIm)
	y := b.Add(graph.Stack{Axis: -1}, at("out"), outRe, outIm)
	y = b.Add(graph.Pad{Before: graph.Ints{0, 0, 0}, After: graph.Ints{b.h - high, half - wide, 0}, Mode: "constant"},
		at("out_fft"), y)
	y = b.Add(graph.FFT{Kind: "irfft", Axes: graph.Ints{2, 3}, Sizes: graph.Ints{b.h, b.w}, Norm: "ortho"},
		at("irfft2"), y)
	y = b.Add(graph.Permute{Axes: graph.Ints{0, 2, 3, 1}}, at("permute"), y)
	y = b.Pass(at("mlp"), b.sequence(y, s.mlp...))
	return b.Add(graph.Permute{Axes: graph.Ints{0, 3, 1, 2}}, s.name, y)
}

// corner adds the weights [in,out,modes,modes] of the first frequencies as a constant
// [high,wide,in,out], the order in which they are multiplied.
func (b *builder) corner(p *Param, high, wide int) int {
	n, modes := p.Shape[0]*p.Shape[1], p.Shape[2]
	t := tensor.New(fp16.Float32, high, wide, p.Shape[0], p.Shape[1])
	par.For(high*wide, func(k int) {
		from := p.Data[k/wide*modes+k%wide:]
		for i := range n {
			t.Data[k*n+i] = from[i*modes*modes]
		}
	})
	v := b.Constant(p.Name, t)
	b.params[v] = p
	return v
}

// linear is torch.nn.Linear.
type linear struct {
	name         string
	weight, bias *Param // [out,in], [out]
}

func newLinear(name string, in, out int) *linear {
	return &linear{name: name, weight: newParam(join(name, "weight"), out, in), bias: newParam(join(name, "bias"), out)}
}

func (l *linear) layers(visit func(layer)) { visit(l) }
func (l *linear) params() []*Param         { return []*Param{l.weight, l.bias} }
func (l *linear) prepare() error           { return nil }

// initialise draws what the constructor does, which is that of a convolution.
func (l *linear) initialise(g *noise.TorchCPU) {
	g.ConvInit(l.weight.Data, l.bias.Data, l.weight.Shape[1])
}

// build maps x [...,in] to [...,out].
func (l *linear) build(b *builder, x int) int {
	return b.Add(graph.Linear{}, l.name, b.param(b.param([]int{x}, l.weight), l.bias)...)
}
