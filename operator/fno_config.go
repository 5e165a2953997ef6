package operator

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/internal/ground/strict"
	"github.com/refrun/refrun/internal/op/act"
)

// readFNO is ReadConfig for an operator_type of fno.
func readFNO(o *strict.Object) (Config, error) {
	o.Need("n_modes", "hidden_channels")
	f := &FNO{
		HiddenChannels:     int(o.Int("hidden_channels", 1, 1, mostSize)),
		Layers:             int(o.Int("n_layers", 4, 1, 1024)),
		LiftingRatio:       o.Float("lifting_channel_ratio", 2),
		ProjectionRatio:    o.Float("projection_channel_ratio", 2),
		NoGrid:             o.String("positional_embedding", "grid") == "none",
		Norm:               o.String("norm", ""),
		NoChannelMLP:       !o.Bool("use_channel_mlp", true),
		ChannelMLPExpanded: o.Float("channel_mlp_expansion", 0.5),
		ChannelMLPSkip:     o.String("channel_mlp_skip", "soft-gating"),
		Skip:               o.String("fno_skip", "linear"),
	}
	c := Config{FNO: f,
		InputChannels:  int(o.Int("input_channels", 3, 1, mostSize)),
		OutputChannels: int(o.Int("output_channels", 3, 1, mostSize)),
		GridSize:       int(o.Int("grid_size", 0, 1, mostSize)),
		Activation:     o.String("non_linearity", "gelu"),
	}
	if e := o.String("positional_embedding", "grid"); e != "grid" && e != "none" {
		o.Fail("positional_embedding", "%.60q: want grid or none", e)
	}
	modes := o.Ints("n_modes")
	if len(modes) == 2 {
		f.Modes = [2]int(modes)
	} else {
		o.Fail("n_modes", "%d numbers: want 2, of images", len(modes))
	}
	if err := o.Close(); err != nil {
		return c, err
	}
	c = c.withDefaults()
	if field, err := c.check(); err != nil {
		return c, o.Errorf(field, "%w", err)
	}
	return c, nil
}

func (f FNO) withDefaults() FNO {
	f.Layers, f.LiftingRatio, f.ProjectionRatio = cmp.Or(f.Layers, 4), cmp.Or(f.LiftingRatio, 2),
		cmp.Or(f.ProjectionRatio, 2)
	f.ChannelMLPExpanded = cmp.Or(f.ChannelMLPExpanded, 0.5)
	f.ChannelMLPSkip, f.Skip = cmp.Or(f.ChannelMLPSkip, "soft-gating"), cmp.Or(f.Skip, "linear")
	return f
}

// checkFNO is check for an FNO.
func (c Config) checkFNO() (field string, err error) {
	f := c.FNO
	kinds := []string{"linear", "identity", "soft-gating", "none"}
	_, weights := c.costFNO(1, 1)
	switch {
	case min(f.Modes[0], f.Modes[1]) < 1 || max(f.Modes[0], f.Modes[1]) > mostSize:
		return "n_modes", fmt.Errorf("%v: want 1 to %d", f.Modes, mostSize)
	case f.HiddenChannels < 1 || f.HiddenChannels > mostSize:
		return "hidden_channels", fmt.Errorf("%d: want 1 to %d", f.HiddenChannels, mostSize)
	case !(weights <= mostUAFNOWeights):
		return "hidden_channels", fmt.Errorf("%d: want fewer, or fewer modes: the operator would have %.3g weights, "+
			"and %.3g are the most", f.HiddenChannels, weights, float64(mostUAFNOWeights))
	case f.Norm != "" && f.Norm != "instance_norm" && f.Norm != "group_norm":
		return "norm", fmt.Errorf("%.60q: want instance_norm, group_norm or no such field", f.Norm)
	case !slices.Contains(kinds, f.Skip):
		return "fno_skip", fmt.Errorf("%.60q: want linear, identity, soft-gating or none", f.Skip)
	case !slices.Contains(kinds, f.ChannelMLPSkip):
		return "channel_mlp_skip", fmt.Errorf("%.60q: want linear, identity, soft-gating or none", f.ChannelMLPSkip)
	}
	hidden := float64(f.HiddenChannels)
	for _, n := range []struct {
		field    string
		channels float64
	}{{"lifting_channel_ratio", math.Floor(f.LiftingRatio * hidden)},
		{"projection_channel_ratio", math.Floor(f.ProjectionRatio * hidden)},
		{"channel_mlp_expansion", math.RoundToEven(f.ChannelMLPExpanded * hidden)}} {
		if !(n.channels >= 1 && n.channels <= mostSize) {
			return n.field, fmt.Errorf("%v channels: want 1 to %d", n.channels, mostSize)
		}
	}
	if _, err := act.Parse(c.Activation); err != nil {
		return "non_linearity", err
	}
	return "", nil
}

// roundEven is Python's round.
func roundEven(v float64) int { return int(math.RoundToEven(v)) }

// costFNO is costUAFNO for an FNO.
func (c Config) costFNO(h, w int) (macs, weights float64) {
	f, hidden, in := c.FNO, float64(c.FNO.HiddenChannels), float64(c.InputChannels)
	if !f.NoGrid {
		in += 2
	}
	square := hidden * hidden
	lifted, projected := math.Floor(f.LiftingRatio*hidden), math.Floor(f.ProjectionRatio*hidden)
	pixels := float64(in*lifted) + float64(lifted*hidden) + float64(hidden*projected) +
		float64(projected*float64(c.OutputChannels))
	layers := float64(f.Layers)
	if f.Skip == "linear" {
		pixels += float64(layers * square)
	}
	if !f.NoChannelMLP {
		pixels += float64(2 * layers * hidden * math.RoundToEven(f.ChannelMLPExpanded*hidden))
		if f.ChannelMLPSkip == "linear" {
			pixels += float64(layers * square)
		}
	}
	rows, columns := float64(f.Modes[0]), float64(f.Modes[1]/2+1)
	macs = float64(pixels*float64(h)*float64(w)) +
		float64(4*layers*square*min(rows, float64(h))*min(columns, float64(w/2+1)))
	return macs, pixels + float64(2*layers*square*rows*columns)
}
