package rollout

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/strict"
	"github.com/refrun/refrun/operator"
)

// TestReadConfig reads every parameter, and the defaults.
func TestReadConfig(t *testing.T) {
	for _, k := range []struct {
		json string
		want Config
	}{
		{`{"num_timesteps": 3, "num_realizations": 2}`,
			Config{Policy: Convex, Alpha: 0.5, Dt: 0.01, Timesteps: 3, Realizations: 2, Precision: "float32"}},
		{`{"num_timesteps": 1, "num_realizations": 1048576, "policy_type": "residual", "alpha": 0, "dt": 1e-45,
		"base_seed": -2, "precision": "bfloat16",
			"autocast": "cuda", "engine_batch": 2147483647, "normalization": "zscore", "clamp_range": [-1.5, -1.5]}`,
			Config{Policy: Residual, Alpha: 0, Dt: 1e-45, Timesteps: 1, Realizations: 1 << 20, BaseSeed: 1<<64 - 2,
				Precision: "bfloat16",
				Autocast:  "cuda", EngineBatch: 1<<31 - 1, Normalization: ZScore, Clamp: &[2]float64{-1.5, -1.5}}},
		{`{"num_timesteps": 3, "num_realizations": 2, "policy_type": "autoregressive", "normalization": "none", ` +
			`"autocast": null, "clamp_range": null, "alpha": null}`,
			Config{Policy: Autoregressive, Alpha: 0.5, Dt: 0.01, Timesteps: 3, Realizations: 2, Precision: "float32"}},
	} {
		if got, err := ReadConfig("f", "rollout", []byte(k.json)); err != nil || !reflect.DeepEqual(got, k.want) {
			t.Errorf("%s\n is %+v (%v)\nwant %+v", k.json, got, err, k.want)
		}
	}
}

func TestEngineBatches(t *testing.T) {
	for _, k := range []struct {
		m, batch int
		want     string
	}{
		{1, 0, "[[0 1]]"}, {5, 0, "[[0 5]]"}, {5, 1, "[[0 1] [1 2] [2 3] [3 4] [4 5]]"}, {5, 4, "[[0 4] [4 5]]"},
		{4, 4, "[[0 4]]"}, {3, 1<<31 - 1, "[[0 3]]"},
	} {
		if got := fmt.Sprint(Config{Realizations: k.m, EngineBatch: k.batch}.EngineBatches()); got != k.want {
			t.Errorf("%d realizations by %d: %s, want %s", k.m, k.batch, got, k.want)
		}
	}
}

// TestTooManyWeights counts the weights of operators that are refused for
// them. The numbers are sums by hand over the blocks, with b channels, a kernel
// of k x k and 3 channels of the state:
//
//	1 layer   3bkk + bb kk + 3b
//	3 layers  3bkk + (1 + 2 + 2*4) bb kk + 3*4b
//	4 layers  3bkk + (1+1 + 2+4 + 8+16 + 16+16) bb kk + (2 + 8) bb + 3*4b, in pairs, and two projections
func TestTooManyWeights(t *testing.T) {
	for _, k := range []struct {
		layers, b, k int
		want         string // "" if there are few enough
	}{
		{0, 65536, 3, ""}, // 2.0e6
		{1, 16384, 1, "2.69e+08"},
		{1, 16380, 1, ""}, // 268.40e6, and 2^28 is 268.44e6
		{2, 65536, 3, "1.16e+11"},
		{3, 65536, 255, "3.07e+15"},
		{4, 65536, 3, "2.52e+12"},
		{4, 640, 3, ""}, // 2.40e8
		{4, 680, 3, "2.71e+08"},
	} {
		text := fmt.Sprintf(`{"num_layers": %d, "base_channels": %d, "kernel_size": %d}`, k.layers, k.b, k.k)
		_, err := operator.ReadConfig("f", "operator", []byte(text))
		want := fmt.Sprintf("f: operator.base_channels: %d: want fewer: the operator would have %s weights, "+
			"and 2.68e+08 are the most", k.b, k.want)
		if (err == nil) != (k.want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
	// What is counted is what is built.
	for _, layers := range []int{0, 1, 2, 3, 4, 6} {
		for _, kernel := range []int{1, 3} {
			c := operator.Config{NumLayers: layers, BaseChannels: 4, InputChannels: 3, OutputChannels: 2,
				KernelSize: kernel, Activation: "relu", Normalization: "instance"}
			op, err := operator.Init(c, 0)
			if err != nil {
				t.Fatal(err)
			}
			built := 0
			for _, p := range op.Params() {
				if strings.HasSuffix(p.Name, ".weight") && len(p.Shape) == 4 {
					built += len(p.Data)
				}
			}
			if counted := byHand(layers, 4, 3, 2, kernel); built != counted {
				t.Errorf("%d layers, kernel %d: %d weights, counted %d", layers, kernel, built, counted)
			}
		}
	}
}

// byHand is the count of TestTooManyWeights, for b channels.
func byHand(layers, b, in, out, k int) int {
	kk, bb := k*k, b*b
	n := in * b * kk
	if layers <= 3 {
		return n + []int{0, 1, 1 + 2, 1 + 2 + 8}[layers]*bb*kk + out*b*[]int{1, 1, 2, 4}[layers]
	}
	n += (1 + 1 + 2 + 4 + 8 + 16) * bb * kk
	n += 32 * (layers - 3) * bb * kk
	return n + (2+8)*bb + out*4*b
}

// FuzzReadConfig: parameters from anywhere are refused in one line, or make an
// operator and a rollout that keep their promises.
func FuzzReadConfig(f *testing.F) {
	for _, s := range []string{
		`{"num_timesteps": 3, "num_realizations": 2}`,
		`{"num_timesteps": 3, "num_realizations": 7, "engine_batch": 4, "policy_type": "convex", "alpha": 0.25, ` +
			`"precision": "tf32", "autocast": "cpu"}`,
		`{"num_timesteps": 2, "num_realizations": 1, "policy_type": "residual", "dt": 1e-9, ` +
			`"normalization": "minmax", "clamp_range": [0, 1], "base_seed": -1}`,
		`{"num_timesteps": 1, "num_realizations": 1, "normalization": "zscore", "clamp_range": [1, 0]}`,
		`{"num_layers": 1, "base_channels": 2}`,
		`{"num_layers": 4, "base_channels": 3, "input_channels": 1, "output_channels": 2, "kernel_size": ` +
			`5, "activation": "silu", "normalization": "batch"}`,
		`{"num_layers": 0, "base_channels": 3, "normalization": "group", "noise_type": "dropout", ` +
			`"noise_scale": 0.5, "dropout_rate": 1}`,
		`{"num_layers": 0, "base_channels": 1, "noise_type": "laplace", "noise_scale": -1e38, "spatial_correlation": 0.1}`,
	} {
		f.Add([]byte(s))
	}
	line := func(t *testing.T, err error) {
		if s := err.Error(); strings.ContainsAny(s, "\n\r") {
			t.Errorf("error %q: want one line", s)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ReadConfig("f.json", "rollout", data); err != nil {
			line(t, err)
		} else {
			if !(c.Alpha >= 0 && c.Alpha < 1) || !(c.Dt > 0 && strict.Finite(c.Dt)) || c.Timesteps < 1 ||
				c.Realizations < 1 || c.EngineBatch < 0 || c.Clamp != nil && !(c.Clamp[0] <= c.Clamp[1]) {
				t.Errorf("accepted %+v", c)
			}
			if _, err := fp16.ParseFormat(c.Precision); err != nil {
				t.Errorf("accepted %v", err)
			}
			if c.Realizations <= 1000 {
				next := 0
				for _, b := range c.EngineBatches() {
					if b[0] != next || b[1] <= b[0] {
						t.Fatalf("engine batches %v of %d realizations", c.EngineBatches(), c.Realizations)
					}
					next = b[1]
				}
				if next != c.Realizations {
					t.Errorf("engine batches end at %d of %d realizations", next, c.Realizations)
				}
			}
		}
		c, err := operator.ReadConfig("f.json", "operator", data)
		if err != nil {
			line(t, err)
			return
		}
		if c.KernelSize%2 == 0 || c.KernelSize < 1 || c.InputChannels < 1 || c.OutputChannels < 1 ||
			c.BaseChannels < 1 || c.NumLayers < 0 || !strict.Finite(c.NoiseScale) {
			t.Fatalf("accepted %+v", c)
		}
		if c.BaseChannels > 4 || c.InputChannels > 8 || c.OutputChannels > 8 || c.KernelSize > 3 || c.NumLayers > 5 {
			return // too slow to build here
		}
		op, err := operator.Init(c, 1)
		if err != nil {
			line(t, err)
			return
		}
		if op.HasNoise() != (c.NoiseType != "") {
			t.Errorf("%+v: noise %v", c, op.HasNoise())
		}
	})
}
