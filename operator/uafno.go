package operator

import (
	"fmt"

	"github.com/refrun/refrun/noise"
)

// UAFNO holds what Spinlock's U-AFNO (its u_afno.UAFNOOperator) has beside the
// parameters that all its operators share. A zero field means its default.
//
// Images go through a U-Net: levels that double the channels, up to eight times
// base_channels, and halve the sides, and levels that undo it and are joined with what the
// former held. In between there are AFNO blocks, which mix the low frequencies of the
// whole image. So the sides of images must be multiples of 2^EncoderLevels.
type UAFNO struct {
	EncoderLevels  int // default 3
	Modes          int // frequencies that a block mixes along each axis, default 32
	AFNOBlocks     int // default 4
	HiddenDim      int // channels inside the feed-forward part of a block, default twice those of the block
	BlocksPerLevel int // residual blocks of each level, default 2

	NoiseSchedule      string  // noise.ParseSchedule's names, default constant
	SpatialCorrelation float64 // of the noise, 0 for white
	// NoiseScope is what a correlated field is normalised over. Spinlock's is the whole
	// engine batch, which [rollout.Case] chooses where it knows it.
	NoiseScope noise.Scope
}

// uafno is the tree of a U-AFNO without its noise.
type uafno struct {
	stem       *convBlock
	levels     []encoderLevel
	bottleneck []*afnoBlock
	decoder    []decoderLevel
	output     *outputLayer
}

type encoderLevel struct {
	features   []module
	downsample *downsampleBlock
}

type decoderLevel struct {
	upsample *upsampleBlock
	refine   []module
}

// newUAFNO returns the tree of UAFNOOperator with zero parameters.
func newUAFNO(c Config) (*uafno, error) {
	o := convOptions{Normalization: c.Normalization, Activation: c.Activation}
	u := new(uafno)
	var err error
	if u.stem, err = newConvBlock("encoder.stem", c.InputChannels, c.BaseChannels, o); err != nil {
		return nil, err
	}
	channels := c.BaseChannels
	var skips []int
	for l := range c.UAFNO.EncoderLevels {
		out := min(2*channels, 8*c.BaseChannels)
		level := encoderLevel{}
		if level.features, err = residuals(fmt.Sprintf("encoder.feature_blocks.%d", l), channels, out,
			c.UAFNO.BlocksPerLevel, o); err != nil {
			return nil, err
		}
		if level.downsample, err = newDownsampleBlock(fmt.Sprintf("encoder.downsample_blocks.%d", l), out, out, 2,
			"conv", o); err != nil {
			return nil, err
		}
		u.levels = append(u.levels, level)
		skips = append(skips, out)
		channels = out
	}
	for i := range c.UAFNO.AFNOBlocks {
		b, err := newAFNOBlock(fmt.Sprintf("bottleneck.%d", i), channels, c.UAFNO.Modes,
			hiddenChannels(c.UAFNO.HiddenDim, channels), c.Activation)
		if err != nil {
			return nil, err
		}
		u.bottleneck = append(u.bottleneck, b)
	}
	for i := range skips {
		out := skips[len(skips)-1-i]
		name := fmt.Sprintf("decoder.levels.%d", i)
		level := decoderLevel{}
		if level.upsample, err = newUpsampleBlock(join(name, "upsample"), channels, out, 2, "bilinear", out, "concat",
			o); err != nil {
			return nil, err
		}
		if level.refine, err = residuals(join(name, "refine"), out, out, c.UAFNO.BlocksPerLevel, o); err != nil {
			return nil, err
		}
		u.decoder = append(u.decoder, level)
		channels = out
	}
	u.output, err = newOutputLayer("decoder.output", channels, c.OutputChannels, 1, "none")
	return u, err
}

// residuals returns an nn.Sequential of n residual blocks, the first from in to out
// channels.
func residuals(name string, in, out, n int, o convOptions) (blocks []module, err error) {
	for i := range n {
		b, err := newResidualBlock(join(name, fmt.Sprint(i)), in, out, 2, o)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
		in = out
	}
	return blocks, nil
}

// hiddenChannels returns the channels inside the feed-forward part of an AFNO block, which
// Spinlock computes by way of their ratio to those of the block and cuts off: 49 of 98
// become 49, but 21 of 22 may become 20.
func hiddenChannels(hidden, channels int) int {
	if hidden == 0 {
		hidden = 2 * channels
	}
	ratio := float64(hidden) / float64(channels)
	return int(float64(float64(channels) * ratio))
}

// layers goes in the order of construction, which is that of PyTorch's draws; a
// state_dict lists encoder.downsample_blocks behind all of encoder.feature_blocks.
func (u *uafno) layers(visit func(layer)) {
	u.stem.layers(visit)
	for _, l := range u.levels {
		visitAll(visit, l.features...)
		l.downsample.layers(visit)
	}
	for _, b := range u.bottleneck {
		b.layers(visit)
	}
	for _, l := range u.decoder {
		l.upsample.layers(visit)
		visitAll(visit, l.refine...)
	}
	u.output.layers(visit)
}

// build maps x [N,in,H,W] to [N,out,H,W].
func (u *uafno) build(b *builder, x int) int {
	height, width := b.h, b.w
	if side := 1 << len(u.levels); (height%side != 0 || width%side != 0) && b.err == nil {
		b.err = fmt.Errorf("operator: images of %dx%d: want sides that are multiples of %d, "+
			"since images are halved %d times and joined with what they were", height, width, side, len(u.levels))
	}
	defer func() { b.h, b.w, b.skip = height, width, -1 }()
	x = u.stem.build(b, x)
	var skips []int
	for l, level := range u.levels {
		x = b.Pass(fmt.Sprintf("encoder.feature_blocks.%d", l), b.sequence(x, level.features...))
		skips = append(skips, x)
		x = level.downsample.build(b, x)
		b.h, b.w = (b.h+1)/2, (b.w+1)/2
	}
	for _, block := range u.bottleneck {
		x = block.build(b, x)
	}
	x = b.Pass("bottleneck", x)
	for i, level := range u.decoder {
		b.skip = skips[len(skips)-1-i]
		x = level.upsample.build(b, x)
		x = b.Pass(fmt.Sprintf("decoder.levels.%d.refine", i), b.sequence(x, level.refine...))
	}
	return b.Pass("decoder", u.output.build(b, x))
}
