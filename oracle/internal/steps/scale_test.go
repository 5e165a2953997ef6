package steps

import (
	"testing"

	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// TestScale: errors of a right device are what the claim makes one expect of them: where a half state
// is the output itself, where the share that a power of two makes of the output is not rounded, and
// at each number where the last roundings are nearly all of a plane's errors.
func TestScale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		precision, norm, noise string
		ro                     rollout.Config
	}{
		{"bfloat16", "batch", "", rollout.Config{Policy: rollout.Autoregressive}},
		{"float16", "instance", "gaussian", rollout.Config{Policy: rollout.Autoregressive}},
		{"float16", "batch", "gaussian", rollout.Config{Policy: rollout.Autoregressive, State: "float16"}},
		{"float16", "batch", "gaussian", rollout.Config{Policy: rollout.Convex, Alpha: .5}},
		{"float16", "batch", "", rollout.Config{Policy: rollout.Convex, Alpha: .3}},
		{"bfloat16", "group", "", rollout.Config{Policy: rollout.Residual, Dt: .125}},
	} {
		b := newStepBench(t, c.precision, "cuda", c.norm, c.ro)
		b.build(operator.Config{
			NumLayers: 2, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3, Activation: "relu",
			Normalization: c.norm, NoiseType: c.noise, NoiseScale: .04,
		}, map[string]string{"": "none", "gaussian": "counter"}[c.noise])
		b.run()
		for step := 1; step <= 3; step++ {
			m := b.measured(step)
			f := m.figures()
			if z := f.sumZ / f.count; z < 0.8 || z > 1.25 || f.peak() > 6 {
				t.Errorf("%s, %s, %+v, step %d: a mean square of %.3g of what is expected, the largest %.3g: "+
					"want about 1, and 6 at most", c.precision, c.norm, c.ro, step, z, f.peak())
			}
		}
	}
}
