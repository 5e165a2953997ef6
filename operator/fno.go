package operator

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// FNO holds the parameters of neuraloperator's models.FNO for images (release 2.0.0), under
// its names. A zero field means its default, and channels of the data are the Config's.
//
//	lifting, then n_layers of  gelu(SpectralConv(x) + skip(x)) -> ChannelMLP + gate x -> gelu,
//	without the last layer's gelu, then projection
//
// The complex weights are those of PyTorch's state_dict: tensors of complex64 numbers, or of
// float32 pairs in a last axis of 2 (view_as_real). Seeds give no weights: Init is an error.
type FNO struct {
	Modes              [2]int  // n_modes: frequencies kept along the height, both signs, and along the width
	HiddenChannels     int     // of the layers
	Layers             int     // n_layers, default 4
	LiftingRatio       float64 // lifting_channel_ratio, default 2
	ProjectionRatio    float64 // projection_channel_ratio, default 2
	NoGrid             bool    // without positional_embedding grid
	Norm               string  // "" for none, instance_norm or group_norm
	NoChannelMLP       bool    // without use_channel_mlp
	ChannelMLPExpanded float64 // channel_mlp_expansion, default 0.5
	ChannelMLPSkip     string  // linear, identity, soft-gating or none; default soft-gating
	Skip               string  // fno_skip: the same, default linear
}

// fno is the tree of an FNO.
type fno struct {
	c          Config
	convs      []*spectralConv
	skips      []module // nil for none
	mlps       [][]module
	gates      []module // nil for none
	norms      []*normalization
	lifting    []module
	projection []module
	act        []*activation
}

func newFNO(c Config) (*fno, error) {
	f, o := &fno{c: c}, c.FNO
	hidden, err := o.HiddenChannels, error(nil)
	gelu := func(name string) *activation {
		a, e := newActivation(name, c.Activation)
		if e != nil && err == nil {
			err = e
		}
		return a
	}
	mlp := func(name string, in, between, out int) []module {
		return []module{flatConv(join(name, "fcs.0"), in, between, true), gelu(join(name, "non_linearity")),
			flatConv(join(name, "fcs.1"), between, out, true)}
	}
	for l := range o.Layers {
		at := func(part string) string { return fmt.Sprintf("fno_blocks.%s.%d", part, l) }
		f.convs = append(f.convs, newSpectralConv(at("convs"), hidden, o.Modes))
		f.skips = append(f.skips, skip(at("fno_skips"), o.Skip, hidden))
		if !o.NoChannelMLP {
			f.mlps = append(f.mlps, mlp(at("channel_mlp"), hidden, roundEven(float64(hidden)*o.ChannelMLPExpanded), hidden))
			f.gates = append(f.gates, skip(at("channel_mlp_skips"), o.ChannelMLPSkip, hidden))
		}
		for k := range 2 {
			if o.Norm == "" {
				break
			}
			kind := map[string]string{"instance_norm": "instance", "group_norm": "layer"}[o.Norm]
			n, e := newNorm(fmt.Sprintf("fno_blocks.norm.%d", 2*l+k), kind, hidden)
			if e != nil {
				return nil, e
			}
			if n.fixed = kind == "instance"; n.fixed { // neuraloperator's has no parameters
				n.weight.fill(1)
			}
			f.norms = append(f.norms, n)
		}
		f.act = append(f.act, gelu(at("act")), gelu(at("last")))
	}
	in := c.InputChannels
	if !o.NoGrid {
		in += 2
	}
	f.lifting = mlp("lifting", in, int(o.LiftingRatio*float64(hidden)), hidden)
	f.projection = mlp("projection", hidden, int(o.ProjectionRatio*float64(hidden)), c.OutputChannels)
	return f, err
}

func (f *fno) layers(visit func(layer)) {
	for _, c := range f.convs {
		visit(c)
	}
	each := func(modules []module) {
		for _, m := range modules {
			if m != nil {
				m.layers(visit)
			}
		}
	}
	each(f.skips)
	for _, m := range f.mlps {
		each(m)
	}
	each(f.gates)
	for _, n := range f.norms {
		visit(n)
	}
	each(f.lifting)
	each(f.projection)
}

// build maps x [N,in,H,W] to [N,out,H,W].
func (f *fno) build(b *builder, x int) int {
	if !f.c.FNO.NoGrid {
		x = b.grid("positional_embedding", x)
	}
	x = b.Pass("lifting", b.sequence(x, f.lifting...))
	for l := range f.convs {
		x = f.layer(b, l, x)
	}
	return b.Pass("projection", b.sequence(x, f.projection...))
}

// layer is one FNO block, with its activations behind its sums.
func (f *fno) layer(b *builder, l, x int) int {
	last := l == len(f.convs)-1
	y := f.convs[l].build(b, x)
	if f.norms != nil {
		y = f.norms[2*l].build(b, y)
	}
	if s := f.skips[l]; s != nil {
		y = b.Add(graph.Addition, fmt.Sprintf("fno_blocks.sum.%d", l), y, s.build(b, x))
	}
	if !last {
		y = f.act[2*l].build(b, y)
	}
	if f.mlps != nil {
		y = b.Pass(fmt.Sprintf("fno_blocks.channel_mlp.%d", l), b.sequence(y, f.mlps[l]...))
		if g := f.gates[l]; g != nil {
			y = b.Add(graph.Addition, fmt.Sprintf("fno_blocks.gated.%d", l), y, g.build(b, x))
		}
	}
	if f.norms != nil {
		y = f.norms[2*l+1].build(b, y)
	}
	if !last {
		y = f.act[2*l+1].build(b, y)
	}
	return y
}

// grid appends two channels to x: the place of each pixel along the height and along the
// width, from 0 to below 1, as torch.linspace(0, 1, n+1) without its last number has it.
func (b *builder) grid(name string, x int) int {
	places := tensor.New(fp16.Float32, 1, 2, b.h, b.w)
	for k := range b.h * b.w {
		places.Data[k], places.Data[b.h*b.w+k] = place(k/b.w, b.h), place(k%b.w, b.w)
	}
	first := b.Add(graph.Slice{Axes: graph.Ints{1}, End: graph.Ints{1}}, join(name, "first"), x)
	zero := b.Add(graph.Binary{Of: pointwise.Sub}, join(name, "zero"), first, first) // of as many samples
	v := b.Constant(join(name, "grid"), places)
	b.params[v] = &Param{Name: join(name, "grid"), Shape: places.Shape, Data: places.Data, constant: places}
	return b.Add(graph.Cat{Axis: 1}, name, x, b.Add(graph.Addition, join(name, "places"), zero, v))
}

// place is element i of torch.linspace(0, 1, n+1): float32 operations from the nearer end,
// of which the product and the difference are rounded once, together.
func place(i, n int) float64 {
	step := 1 / float32(n)
	if i < (n+1)/2 {
		return float64(step * float32(i))
	}
	return float64(float32(math.FMA(-float64(step), float64(n-i), 1)))
}

// flatConv is torch.nn.Conv1d of one pixel on images whose pixels lie in a row.
func flatConv(name string, in, out int, bias bool) *conv2d {
	c := pointConv(name, in, out)
	c.weight.flat = true
	if !bias {
		c.bias = nil
	}
	return c
}

// skip returns a skip connection of that kind, nil for none.
func skip(name, kind string, channels int) module {
	switch kind {
	case "linear":
		return flatConv(join(name, "conv"), channels, channels, false)
	case "identity":
		return &identity{name: name}
	case "soft-gating":
		return &softGating{name: name, weight: newParam(join(name, "weight"), 1, channels, 1, 1)}
	}
	return nil
}

// softGating multiplies each channel with a weight.
type softGating struct {
	name   string
	weight *Param
}

func (s *softGating) layers(visit func(layer))     { visit(s) }
func (s *softGating) params() []*Param             { return []*Param{s.weight} }
func (s *softGating) prepare() error               { return nil }
func (s *softGating) initialise(g *noise.TorchCPU) { s.weight.fill(1) }

func (s *softGating) build(b *builder, x int) int {
	return b.Add(graph.Binary{Of: pointwise.Mul}, s.name, b.param([]int{x}, s.weight)...)
}
