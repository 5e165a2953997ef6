package operator

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestUAFNOConfig: what is left out is Spinlock's default, and parameters that make no
// U-AFNO are refused by name.
func TestUAFNOConfig(t *testing.T) {
	c, err := ReadConfig("f", "",
		[]byte(`{"operator_type": "u_afno", "kernel_size": 5, "noise_type": "gaussian", "noise_scale": 0}`))
	if err != nil {
		t.Fatal(err)
	}
	if u := *c.UAFNO; u !=
		(UAFNO{EncoderLevels: 3, Modes: 32, AFNOBlocks: 4, BlocksPerLevel: 2, NoiseSchedule: "constant"}) ||
		c.BaseChannels != 32 || c.InputChannels != 3 || c.OutputChannels != 3 || c.Activation != "gelu" ||
		c.Normalization != "instance" || c.NoiseType != "" {
		t.Errorf("%+v, %+v: want Spinlock's defaults, and no noise of scale 0", c, u)
	}
	if got := strings.Join(c.Ignored, " "); got != "noise_type noise_scale kernel_size" {
		t.Errorf("ignored: %s: want what reaches no part of the operator", got)
	}
	for _, bad := range []struct{ with, want string }{
		{`"operator_type": "fft"`, `f: operator_type: "fft": want cnn`},
		{`"modes": 0`, "f: modes: 0: want"},
		{`"encoder_levels": 13`, "f: encoder_levels: 13: want"},
		{`"afno_blocks": -1`, "f: afno_blocks: -1: want"},
		{`"blocks_per_level": 0`, "f: blocks_per_level: 0: want"},
		{`"hidden_dim": -1`, "f: hidden_dim: -1: want"},
		{`"grid_size": 20`, "f: grid_size: 20: want a multiple of 8"},
		{`"normalization": "group", "base_channels": 12`, "f: normalization: group norm of 48 channels"},
		{`"normalization": "rms"`, `f: normalization: "rms": want`},
		{`"activation": "elu"`, "f: activation: "},
		{`"noise_type": "pink", "noise_scale": 1`, `f: noise_type: `},
		{`"noise_type": "dropout", "noise_scale": 2`, `f: noise_scale: 2: want a probability`},
		{`"noise_schedule": "linear"`, "f: noise_schedule: "},
		{`"spatial_correlation": -1`, "f: spatial_correlation: -1: want"},
		{`"base_channels": 60000`, "f: base_channels: 60000: want fewer"},
		{`"modes": 60000`, "f: base_channels: 32: want fewer, or fewer modes"},
		{`"levels": 2`, "f: levels: unknown key"},
	} {
		text := `{"operator_type": "u_afno", ` + bad.with + `}`
		if strings.Contains(bad.with, "operator_type") {
			text = "{" + bad.with + "}"
		}
		if _, err := ReadConfig("f", "", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), bad.want) {
			t.Errorf("%s: %v: want %s...", bad.with, err, bad.want)
		}
	}
}

// TestUAFNOCost: products and weights that are computed from a configuration are those of
// the operator.
func TestUAFNOCost(t *testing.T) {
	for k, c := range torchUAFNOs(t) {
		op, err := Init(c.config, c.Seed)
		if err != nil {
			t.Fatal(err)
		}
		macs, weights := c.config.MACs(c.input.H(), c.input.W())
		if n := op.MACs(c.input.H(), c.input.W()); macs != float64(n) {
			t.Errorf("%d: %v multiplications: want %d", k, macs, n)
		}
		n := 0
		for _, p := range op.Params() {
			if len(p.Shape) > 1 {
				n += len(p.Data)
			}
		}
		if weights != float64(n) {
			t.Errorf("%d: %v weights: want %d", k, weights, n)
		}
	}
}

// TestUAFNOSides: images whose sides cannot be joined with what they were are an error
// that says where, and operators take images of several sizes in turn.
func TestUAFNOSides(t *testing.T) {
	op, err := Init(Config{
		BaseChannels: 2, UAFNO: &UAFNO{EncoderLevels: 2, Modes: 3, AFNOBlocks: 1, BlocksPerLevel: 1},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	first := map[[2]int]*tensor.Tensor{}
	for _, side := range [][2]int{{8, 8}, {12, 16}, {8, 8}, {16, 12}, {12, 16}, {8, 20}, {8, 8}} {
		x := tensor.New(fp16.Float32, 1, 3, side[0], side[1])
		for i := range x.Data {
			x.Data[i] = float64(i%7) - 3
		}
		y, err := op.Forward(nil, x)
		if err != nil {
			t.Fatal(err)
		}
		if before := first[side]; before != nil {
			if at := unequal(y, before); at != "" {
				t.Errorf("%v, once more: %s", side, at)
			}
		}
		first[side] = y
	}
	_, err = op.Forward(nil, tensor.New(fp16.Float32, 1, 3, 8, 10))
	if err == nil || !strings.Contains(err.Error(), "8x10: want sides that are multiples of 4") {
		t.Errorf("%v: want an error that says which sides are right", err)
	}
}
