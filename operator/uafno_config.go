package operator

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/internal/ground/strict"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/noise"
)

// ignoredUAFNO are parameters that Spinlock samples and stores, but that its U-AFNO
// builder never reads.
var ignoredUAFNO = []string{
	"num_layers", "kernel_size", "dropout_rate", "use_batch_norm", "noise_location", "schedule_period",
}

// readUAFNO is ReadConfig for an operator_type of u_afno.
func readUAFNO(o *strict.Object) (Config, error) {
	c := Config{
		BaseChannels:   int(o.Int("base_channels", 32, 1, mostSize)),
		InputChannels:  int(o.Int("input_channels", 3, 1, mostSize)),
		OutputChannels: int(o.Int("output_channels", 3, 1, mostSize)),
		GridSize:       int(o.Int("grid_size", 0, 1, mostSize)),
		Activation:     o.String("activation", "gelu"),
		Normalization:  o.String("normalization", "instance"),
		NoiseType:      o.String("noise_type", ""),
		NoiseScale:     o.Float("noise_scale", 0),
		UAFNO: &UAFNO{
			EncoderLevels:      int(o.Int("encoder_levels", 3, 1, mostLevels)),
			Modes:              int(o.Int("modes", 32, 1, mostSize)),
			AFNOBlocks:         int(o.Int("afno_blocks", 4, 1, 1024)),
			HiddenDim:          int(o.Int("hidden_dim", 0, 0, mostSize)),
			BlocksPerLevel:     int(o.Int("blocks_per_level", 2, 1, 1024)),
			NoiseSchedule:      o.String("noise_schedule", "constant"),
			SpatialCorrelation: o.Float("spatial_correlation", 0),
		},
	}
	unread := ignoredUAFNO
	if c.NoiseType == "" || !(c.NoiseScale > 0) { // Spinlock builds no noise then
		if _, err := noise.ParseType(c.NoiseType); c.NoiseType != "" && err != nil {
			o.Fail("noise_type", "%w", err)
		}
		c.NoiseType, c.NoiseScale = "", 0
		unread = append([]string{"noise_type", "noise_scale"}, unread...)
	}
	for _, key := range unread {
		if o.Has(key) {
			c.Ignored = append(c.Ignored, key)
		}
	}
	o.Ignore(ignoredUAFNO...)
	if err := o.Close(); err != nil {
		return c, err
	}
	c = c.withDefaults()
	if field, err := c.check(); err != nil {
		return c, o.Errorf(field, "%w", err)
	}
	return c, nil
}

// mostUAFNOWeights bounds the weights of a U-AFNO: twice those of Spinlock's default one,
// nearly all of which are of frequencies. A file is seen before they take memory.
const mostUAFNOWeights = 1 << 30

// mostLevels is beyond any image: 2^12 pixels have become one.
const mostLevels = 12

// checkUAFNO is check for a U-AFNO.
func (c Config) checkUAFNO() (field string, err error) {
	u := c.UAFNO
	for _, n := range []struct {
		field    string
		is, most int
	}{{"base_channels", c.BaseChannels, mostSize}, {"input_channels", c.InputChannels, mostSize},
		{"output_channels", c.OutputChannels, mostSize},
		{"encoder_levels", u.EncoderLevels, mostLevels}, {"modes", u.Modes, mostSize},
		{"afno_blocks", u.AFNOBlocks, 1024}, {"blocks_per_level", u.BlocksPerLevel, 1024}} {
		if n.is < 1 || n.is > n.most {
			return n.field, fmt.Errorf("%d: want 1 to %d", n.is, n.most)
		}
	}
	channels := c.BaseChannels << min(u.EncoderLevels, 3)
	_, weights := c.costUAFNO(1, 1)
	switch {
	case weights > mostUAFNOWeights:
		return "base_channels", fmt.Errorf("%d: want fewer, or fewer modes: the operator would have %.3g weights, "+
			"and %.3g are the most", c.BaseChannels, weights, float64(mostUAFNOWeights))
	case u.HiddenDim < 0 || hiddenChannels(u.HiddenDim, channels) < 1:
		return "hidden_dim", fmt.Errorf(
			"%d: want 0 or more, and a part of the %d channels that is not cut off to nothing", u.HiddenDim, channels,
		)
	case c.GridSize%(1<<u.EncoderLevels) != 0:
		return "grid_size", fmt.Errorf("%d: want a multiple of %d, since images are halved %d times and joined with "+
			"what they were", c.GridSize, 1<<u.EncoderLevels, u.EncoderLevels)
	case !(u.SpatialCorrelation >= 0 && u.SpatialCorrelation <= math.MaxFloat64):
		return "spatial_correlation", fmt.Errorf("%v: want a finite number of 0 or more", u.SpatialCorrelation)
	}
	if _, err := act.Parse(c.Activation); err != nil {
		return "activation", err
	}
	for l := range min(u.EncoderLevels, 3) + 1 {
		if _, err := normGroups(c.Normalization, c.BaseChannels<<l); err != nil {
			return "normalization", err
		}
	}
	if _, err := noise.ParseSchedule(u.NoiseSchedule); err != nil {
		return "noise_schedule", err
	}
	if c.NoiseType != "" {
		_, field, err := noiseBlock(c.NoiseType, c.NoiseScale)
		return field, err
	}
	return "", nil
}

// buildUAFNO adds the modules of a U-AFNO to an operator: the network, then its noise.
func (op *Operator) buildUAFNO() error {
	c := op.Config
	u, err := newUAFNO(c)
	if err != nil {
		return fmt.Errorf("operator.%w", err)
	}
	op.modules = []module{u}
	if c.NoiseType == "" {
		return nil
	}
	block, field, err := noiseBlock(c.NoiseType, c.NoiseScale)
	if err != nil {
		return fmt.Errorf("operator.%s: %w", field, err)
	}
	if block.Schedule, err = noise.ParseSchedule(c.UAFNO.NoiseSchedule); err != nil {
		return fmt.Errorf("operator.noise_schedule: %w", err)
	}
	block.Period, block.Correlation, block.Scope = schedulePeriod, c.UAFNO.SpatialCorrelation, c.UAFNO.NoiseScope
	op.noise, op.noisy = newStochasticBlock("stochastic", block), c.OutputChannels
	op.modules = append(op.modules, op.noise)
	return nil
}

// costUAFNO returns the multiplications of products for an image h x w, and the weights of
// products; float64 numbers, since a file may say anything.
func (c Config) costUAFNO(h, w int) (macs, weights float64) {
	u := c.UAFNO
	height, width := float64(h), float64(w)
	add := func(n float64) { macs, weights = macs+float64(n*height*width), weights+float64(n) }
	residuals := func(in, out float64) {
		if in != out {
			add(in * out)
		}
		add(float64(9*in*out) + float64(9*out*out))
		add(float64(u.BlocksPerLevel-1) * 18 * out * out)
	}
	base := float64(c.BaseChannels)
	add(9 * float64(c.InputChannels) * base)
	in := base
	var skips []float64
	for range u.EncoderLevels {
		out := min(2*in, 8*base)
		residuals(in, out)
		skips, in = append(skips, out), out
		height, width = math.Ceil(height/2), math.Ceil(width/2)
		add(9 * out * out)
	}
	blocks, modes, hidden := float64(u.AFNOBlocks), float64(u.Modes), float64(hiddenChannels(u.HiddenDim, int(in)))
	add(blocks * (float64(4*in*in) + float64(2*in*hidden)))
	macs += float64(blocks * 4 * in * in * min(modes, height) * min(modes, math.Floor(width/2)+1))
	weights += float64(blocks * 2 * in * in * modes * modes)
	for i := range skips {
		out := skips[len(skips)-1-i]
		height, width = 2*height, 2*width
		add(9 * (in + out) * out)
		residuals(out, out)
		in = out
	}
	add(in * float64(c.OutputChannels))
	return macs, weights
}

// schedulePeriod is Spinlock's schedule_period, in steps.
const schedulePeriod = 100
