package rollout

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// TestStepAllocates: a step into memory that there is allocates nothing, whatever
// the policy.
func TestStepAllocates(t *testing.T) {
	if asm.RowKernels() == nil {
		t.Log("plain Go settles elements with memory of its own")
		return
	}
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 8, InputChannels: 3, OutputChannels: 3,
		KernelSize: 3, Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := noise.ParseTorchCPU("torch-cpu:2.x", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range []Policy{Autoregressive, Residual, Convex} {
		for _, precision := range []string{"float32", "float16"} {
			mode, err := graph.ParseMode(precision, "")
			if err != nil {
				t.Fatal(err)
			}
			s := &Stepper{Operator: op, Config: Config{Policy: policy, Alpha: 0.5, Dt: 0.1}, Mode: mode,
				Overflow: func(string, int) {}}
			x := tensor.New(s.Config.StateFormat(mode.Output()), 2, 3, 16, 16)
			for i := range x.Data {
				x.Data[i] = fp16.Float16.Round(float64(i%17)/8 - 1)
			}
			next := tensor.Like(x)
			if a := testing.AllocsPerRun(20, func() {
				if err := s.step(next, x, g); err != nil {
					t.Fatal(err)
				}
				x, next = next, x
			}); a != 0 {
				t.Errorf("%s, %s: %v allocations", policy, precision, a)
			}
		}
	}
}
