package operator

import (
	"cmp"
	"fmt"
	"math"

	"github.com/refrun/refrun/internal/ground/strict"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/noise"
)

// Config holds the parameters of one of Spinlock's operators under Spinlock's names: of its CNN
// (builder.build_simple_cnn), or of another one if UAFNO or Nodes say so. A zero or empty field means its default; the
// Config of an [Operator] has them filled in.
type Config struct {
	NumLayers      int     // blocks after the first, 0 or more
	BaseChannels   int     // channels of the first block, 1 or more
	InputChannels  int     // default 3
	OutputChannels int     // default 3
	KernelSize     int     // odd, default 3
	GridSize       int     // side of the images it is meant for; 0 if not said
	Activation     string  // act.Parse's names, default "gelu"
	Normalization  string  // instance, batch, group, layer or none; default "instance"
	DropoutRate    float64 // in [0,1]; inactive in evaluation, which is all this project does
	NoiseType      string  // noise.ParseType's names, "" for no noise
	NoiseScale     float64 // rounded to float32 where it is used

	// UAFNO, if not nil, makes the operator Spinlock's U-AFNO (its
	// builder.build_u_afno), which NumLayers, KernelSize and DropoutRate do not describe.
	UAFNO *UAFNO

	// FNO, if not nil, makes the operator neuraloperator's FNO, which of the fields above
	// InputChannels, OutputChannels, GridSize and Activation describe.
	FNO *FNO

	// Nodes, if not nil, are the operations of an operator of another shape
	// than Spinlock's, which the fields above do not describe; only
	// InputChannels and GridSize then have a meaning, and OutputChannels is that
	// of the last node.
	Nodes []NodeConfig

	// Ignored lists parameters that were given and that, as in Spinlock,
	// reach no part of the operator.
	Ignored []string
}

// ignored are parameters that Spinlock samples and stores, but that its CNN
// builder never reads.
var ignored = []string{"use_batch_norm", "noise_location", "noise_schedule", "schedule_period", "spatial_correlation"}

// mostSize bounds channels and pixels, beyond any operator that fits in memory.
const mostSize = 1 << 16

// ReadConfig takes an operator's parameters from the text of a JSON object, such as
//
//	{"num_layers": 3, "base_channels": 32, "noise_type": "gaussian", "noise_scale": 0.05}
//
// with the keys of docs/FORMATS.md. What is left out has the default that [Config] says.
// Unknown keys, missing ones (num_layers, base_channels) and values out of range are
// errors of one line that names file, field, value and expectation: file is what they
// call the text, and place where in it the object stands, "" for the whole.
func ReadConfig(file, place string, data []byte) (Config, error) {
	o, err := strict.Parse(file, place, data)
	if err != nil {
		return Config{}, err
	}
	if o.Has("nodes") {
		return readNodes(o)
	}
	switch kind := o.String("operator_type", "cnn"); kind {
	case "cnn":
	case "u_afno":
		return readUAFNO(o)
	case "fno":
		return readFNO(o)
	default:
		return Config{}, o.Errorf("operator_type", "%.60q: want cnn, u_afno or fno", kind)
	}
	o.Need("num_layers", "base_channels")
	c := Config{
		NumLayers:      int(o.Int("num_layers", 0, 0, 1024)),
		BaseChannels:   int(o.Int("base_channels", 1, 1, mostSize)),
		InputChannels:  int(o.Int("input_channels", 3, 1, mostSize)),
		OutputChannels: int(o.Int("output_channels", 3, 1, mostSize)),
		KernelSize:     int(o.Int("kernel_size", 3, 1, 255)),
		GridSize:       int(o.Int("grid_size", 0, 1, mostSize)),
		Activation:     o.String("activation", "gelu"),
		Normalization:  o.String("normalization", "instance"),
		DropoutRate:    o.Float("dropout_rate", 0),
		NoiseType:      o.String("noise_type", ""),
		NoiseScale:     o.Float("noise_scale", 0),
	}
	unread := ignored
	// Spinlock builds the noise only if both of its parameters are given.
	noisy := o.Has("noise_type") && o.Has("noise_scale")
	if !noisy {
		c.NoiseType, c.NoiseScale = "", 0
		unread = append([]string{"noise_type", "noise_scale"}, ignored...)
	}
	for _, key := range unread {
		if o.Has(key) {
			c.Ignored = append(c.Ignored, key)
		}
	}
	if err := o.Close(); err != nil {
		return c, err
	}
	if field, err := c.check(); err != nil {
		return c, o.Errorf(field, "%w", err)
	}
	if noisy {
		if _, field, err := noiseBlock(c.NoiseType, c.NoiseScale); err != nil {
			return c, o.Errorf(field, "%w", err)
		}
	}
	return c, nil
}

// noiseBlock returns the noise of that type and scale, or which of them makes none,
// and why.
func noiseBlock(kind string, scale float64) (b noise.Block, field string, err error) {
	t, err := noise.ParseType(kind)
	switch {
	case err != nil:
		return b, "noise_type", err
	case !strict.Finite(scale) || math.Abs(scale) > math.MaxFloat32:
		return b, "noise_scale", fmt.Errorf("%v: want a finite float32", scale)
	case t == noise.Dropout && !(scale >= 0 && scale <= 1):
		return b, "noise_scale", fmt.Errorf("%v: want a probability from 0 to 1, since noise_type is dropout", scale)
	}
	return noise.Block{Type: t, Scale: scale}, "", nil
}

// CNN reports whether the operator is Spinlock's CNN, which NumLayers and the like describe.
func (c Config) CNN() bool { return c.Nodes == nil && c.UAFNO == nil && c.FNO == nil }

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	c.InputChannels = cmp.Or(c.InputChannels, 3)
	if c.Nodes != nil { // which say the rest themselves
		return c
	}
	if c.UAFNO != nil {
		u := *c.UAFNO
		u.EncoderLevels, u.Modes, u.AFNOBlocks = cmp.Or(u.EncoderLevels, 3), cmp.Or(u.Modes, 32), cmp.Or(u.AFNOBlocks, 4)
		u.BlocksPerLevel, u.NoiseSchedule = cmp.Or(u.BlocksPerLevel, 2), cmp.Or(u.NoiseSchedule, "constant")
		c.UAFNO, c.BaseChannels = &u, cmp.Or(c.BaseChannels, 32)
	}
	if c.FNO != nil {
		f := c.FNO.withDefaults()
		c.FNO = &f
	}
	c.OutputChannels, c.KernelSize = cmp.Or(c.OutputChannels, 3), cmp.Or(c.KernelSize, 3)
	c.Activation, c.Normalization = cmp.Or(c.Activation, "gelu"), cmp.Or(c.Normalization, "instance")
	return c
}

// check returns the first parameter that makes no operator, and why.
func (c Config) check() (field string, err error) {
	if c.UAFNO != nil {
		return c.checkUAFNO()
	}
	if c.FNO != nil {
		return c.checkFNO()
	}
	for _, n := range []struct {
		field     string
		is, least int
	}{{"num_layers", c.NumLayers, 0}, {"base_channels", c.BaseChannels, 1}, {"input_channels", c.InputChannels, 1},
		{"output_channels", c.OutputChannels, 1}, {"kernel_size", c.KernelSize, 1}} {
		if n.is < n.least {
			return n.field, fmt.Errorf("%d: want %d or more", n.is, n.least)
		}
	}
	switch {
	case c.KernelSize%2 == 0:
		return "kernel_size",
			fmt.Errorf("%d: want an odd number, so that padding by half of it keeps the image size", c.KernelSize)
	case !(c.DropoutRate >= 0 && c.DropoutRate <= 1):
		return "dropout_rate", fmt.Errorf("%v: want a number from 0 to 1", c.DropoutRate)
	case c.weights() > mostWeights:
		return "base_channels", fmt.Errorf("%d: want fewer: the operator would have %.3g weights, "+
			"and %.3g are the most", c.BaseChannels, c.weights(), float64(mostWeights))
	}
	if _, err := act.Parse(c.Activation); err != nil {
		return "activation", err
	}
	for i := range c.NumLayers + 1 {
		if _, err := normGroups(c.Normalization, c.BaseChannels*widening(i)); err != nil {
			return "normalization", err
		}
	}
	if c.NoiseType != "" {
		_, field, err := noiseBlock(c.NoiseType, c.NoiseScale)
		return field, err
	}
	return "", nil
}

// widening returns how many times base_channels block i has, 0 being the first.
func widening(i int) int {
	if i == 0 {
		return 1
	}
	return 1 << min(i-1, 2)
}

// mostWeights bounds what is set aside for an operator before its weights are
// seen: 2 GiB as float64, many times the largest of Spinlock's operators.
const mostWeights = 1 << 28

// weights returns the number of elements of all convolutions, as build makes
// them; a float64, since a file may say anything.
func (c Config) weights() float64 {
	if c.UAFNO != nil {
		_, n := c.costUAFNO(1, 1)
		return n
	}
	if c.FNO != nil {
		_, n := c.costFNO(1, 1)
		return n
	}
	k := float64(c.KernelSize) * float64(c.KernelSize)
	in, sum := float64(c.InputChannels), 0.0
	for i := range c.NumLayers + 1 {
		out := float64(c.BaseChannels) * float64(widening(i))
		sum += in * out * k
		if i > 0 && c.NumLayers > 3 { // a ResidualBlock
			sum += out * out * k
			if in != out {
				sum += in * out
			}
		}
		in = out
	}
	return sum + in*float64(c.OutputChannels)
}

// MACs returns what [Operator.MACs] does for images h x w, and the weights of all
// convolutions, without building the operator: a float64, since a file may say anything.
// Of a Config with Nodes both are 0: only its graph says what they are.
func (c Config) MACs(h, w int) (macs, weights float64) {
	if c.Nodes != nil {
		return 0, 0
	}
	c = c.withDefaults()
	if c.UAFNO != nil {
		return c.costUAFNO(h, w)
	}
	if c.FNO != nil {
		return c.costFNO(h, w)
	}
	n := c.weights()
	return n * float64(h) * float64(w), n
}
