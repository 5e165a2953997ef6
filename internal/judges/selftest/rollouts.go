package selftest

import (
	"context"
	"strings"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// modes are all modes of the contract: precision and autocast.
var modes = [][2]string{
	{"float64", ""}, {"float32", ""}, {"float32:fast", ""}, {"tf32", ""}, {"tf32:away", ""}, {"tf32:truncate", ""},
	{"float16", "cuda:1.13"}, {"float16", "cuda"}, {"float16", "cpu"},
	{"bfloat16", "cuda:1.13"}, {"bfloat16", "cuda"}, {"bfloat16", "cpu:1.13"}, {"bfloat16", "cpu"},
}

// setups are the rollouts: between them every policy, norm, activation, noise
// and post-processing that a mode may treat in its own way.
var setups = []struct {
	name     string
	operator operator.Config
	rollout  rollout.Config
}{
	{"convex-instance-gelu",
		operator.Config{NumLayers: 4, Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.05},
		rollout.Config{Policy: rollout.Convex, Alpha: 0.5}},
	{"residual-group-silu",
		operator.Config{NumLayers: 2, Activation: "silu", Normalization: "group", NoiseType: "laplace", NoiseScale: 0.05},
		rollout.Config{Policy: rollout.Residual, Dt: 0.1, Normalization: rollout.MinMax, EngineBatch: 3}},
	{"residual-layer-relu",
		operator.Config{NumLayers: 1, Activation: "relu", Normalization: "layer", NoiseType: "dropout", NoiseScale: 0.25},
		rollout.Config{Policy: rollout.Residual, Dt: 0.1}},
	{"autoregressive-batch-tanh",
		operator.Config{
			NumLayers: 2, Activation: "tanh", Normalization: "batch", NoiseType: "multiplicative", NoiseScale: 0.05,
		},
		rollout.Config{Policy: rollout.Autoregressive, Normalization: rollout.ZScore, Clamp: &[2]float64{-2, 2}}},
	{"convex-none-gelu",
		operator.Config{NumLayers: 1, KernelSize: 5, Activation: "gelu", Normalization: "none"},
		rollout.Config{Policy: rollout.Convex, Alpha: 0.25}},
	{"convex-uafno-silu",
		operator.Config{Activation: "silu", Normalization: "layer", NoiseType: "gaussian", NoiseScale: 0.05,
			UAFNO: &operator.UAFNO{EncoderLevels: 1, Modes: 3, AFNOBlocks: 1, BlocksPerLevel: 1}},
		rollout.Config{Policy: rollout.Convex, Alpha: 0.5}},
}

const rolloutPrefix = "rollout/"

func (c Case) rollout() bool { return strings.HasPrefix(c.Name, rolloutPrefix) }

func rollouts() []Case {
	var all []Case
	for _, s := range setups {
		o, r := s.operator, s.rollout
		o.BaseChannels, o.InputChannels, o.OutputChannels = 3, 2, 2
		if o.KernelSize == 0 {
			o.KernelSize = 3
		}
		r.Timesteps, r.Realizations, r.BaseSeed = 5, 3, seed
		for _, m := range modes {
			if m[1] == "cpu:1.13" && (o.Normalization == "group" || o.Normalization == "layer") {
				continue // PyTorch has no such rollout
			}
			if o.UAFNO != nil && strings.HasSuffix(m[1], ":1.13") {
				continue // what 1.13 makes of transforms was not recorded
			}
			name := rolloutPrefix + s.name + "/" + strings.TrimSuffix(m[0]+"/"+m[1], "/")
			all = append(all, Case{name, func(batch int) (string, error) { return rolled(o, r, m, batch) }})
		}
	}
	return all
}

// rolled returns the digest of a rollout.
func rolled(o operator.Config, r rollout.Config, m [2]string, batch int) (string, error) {
	mode, err := graph.ParseMode(m[0], m[1])
	if err != nil {
		return "", err
	}
	op, err := operator.Init(o, seed)
	if err != nil {
		return "", err
	}
	c := rollout.Case{Operator: o, Rollout: r}
	stream, err := c.OpenStream("counter", op, mode)
	if err != nil {
		return "", err
	}
	shape := rollout.Shape{C: o.InputChannels, H: 9, W: 12}
	if o.UAFNO != nil {
		shape.H = 10 // which is halved
	}
	digest := rollout.NewDigest(mode.Wide(), r.Realizations, r.Timesteps, shape.C, shape.H, shape.W)
	e := &rollout.Engine{
		Stepper: rollout.Stepper{Operator: op, Config: r, Mode: mode, Batch: batch},
		Stream:  stream, Shape: shape, Sinks: []rollout.Sink{digest},
		Start: func(m int) []float64 { return normals(60+m, shape.Len()) },
	}
	if err := e.Run(context.Background(), nil); err != nil {
		return "", err
	}
	return digest.Hex(), nil
}
