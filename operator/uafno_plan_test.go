package operator

import (
	"fmt"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// TestUAFNOPlan: a plan has the bits of Forward in every mode.
func TestUAFNOPlan(t *testing.T) {
	for k, c := range torchUAFNOs(t)[:6] {
		c.config.NoiseType, c.config.NoiseScale = "gaussian", 0.1
		op, err := Init(c.config, c.Seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []graph.Mode{
			{Precision: fp16.Float32},
			{Precision: fp16.TF32},
			{Precision: fp16.BFloat16, Autocast: graph.CPU2},
			{Precision: fp16.Float16, Autocast: graph.CUDA2},
		} {
			draws := func() noise.Draws {
				d, err := noise.Counter{Seed: 1}.At(1, 0, c.input.N())
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			want, err := op.Forward(&Pass{Mode: m, Draws: draws()}, c.input)
			if err != nil {
				t.Fatal(err)
			}
			p := op.Compile(m, c.input.N(), c.input.H(), c.input.W())
			if ok, why := p.Compiled(); !ok {
				t.Errorf("%d, %v: not compiled: %s", k, m, why)
			}
			got := p.Result()
			for again := range 2 {
				if err := p.Forward(got, c.input, draws(), noise.Time{}); err != nil {
					t.Fatal(err)
				}
				if at := unequal(got, want); at != "" {
					t.Errorf("%d, %v, application %d: %s", k, m, again, at)
				}
			}
		}
	}
}

// unequal says where two tensors differ, "" if they do not.
func unequal(a, b *tensor.Tensor) string {
	if a.Format != b.Format {
		return fmt.Sprintf("%v numbers: want %v", a.Format, b.Format)
	}
	n := 0
	for i, v := range a.Data {
		if v != b.Data[i] {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d numbers differ", n, len(a.Data))
}
