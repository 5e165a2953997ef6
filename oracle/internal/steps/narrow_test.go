package steps

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestNarrowScale: a device of PyTorch 1.13's autocast, which rounds the scale of noise, is right by that contract
// where another is claimed: its noise is held against noise of that scale.
func TestNarrowScale(t *testing.T) {
	t.Parallel()
	ro := convex(.4)
	ro.Clamp = &[2]float64{-.75, .75}
	b := newStepBench(t, "bfloat16", "cpu", "batch", ro)
	e := b.gate.e
	config := e.Op.Config
	config.NoiseScale, config.NoiseType = .01824, "laplace" // 0.3 per cent from the half number
	op, err := operator.Init(config, 7)
	if err != nil {
		t.Fatal(err)
	}
	e.Op, e.Machine, e.Case.Operator = op, emulate.New(op, ro), op.Config
	if e.Stream, err = e.Case.OpenStream("counter", op, e.Mode); err != nil {
		t.Fatal(err)
	}
	b.gate = newStepGate(e.Evidence, e.Facts)
	mode, err := graph.ParseMode("bfloat16", "cpu:1.13")
	if err != nil {
		t.Fatal(err)
	}
	s := rollout.Stepper{Operator: op, Config: e.Case.Rollout, Mode: mode}
	b.device = func(step int) *emulate.Device {
		return &emulate.Device{Mode: e.Mode, Update: func(x, _ *tensor.Tensor) *tensor.Tensor {
			y, err := s.Step(tensor.Of(mode.Wide(), x.Data, x.Shape...), b.gate.draws.Rewind())
			if err != nil {
				t.Fatal(err)
			}
			return y
		}}
	}
	r := b.check()
	if len(r.Findings) > 0 {
		t.Fatal(r.Findings[0].Text)
	}
	if r.Contract != "bfloat16/autocast-cpu:1.13/state-float32/noise-counter" {
		t.Errorf("contract %s, pattern %s", r.Contract, r.Pattern)
	}
}

// TestSignOfRounded: Laplace noise of a pattern that rounds draws has the sign of the rounded normal number, as the
// engine has it: none below half of the least number of float16.
func TestSignOfRounded(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "float16", "cuda", "batch", convex(.4))
	g := b.gate
	unrounded := g.claim
	unrounded.Points &^= emulate.AtDraw
	block := noise.Block{Type: noise.Laplace, Scale: .125}
	normals := []float64{1, -1, 1e-8, -1e-8, 4e-8, 0}
	for _, c := range []struct {
		p    emulate.Pattern
		want []float64
	}{{g.claim, []float64{.125, -.125, 0, 0, .125, 0}}, {unrounded, []float64{.125, -.125, .125, -.125, .125, 0}}} {
		draws := &emulate.Draws{
			Kinds: []noise.Kind{noise.Exponential, noise.Normal}, Data: [][]float64{{1, 1, 1, 1, 1, 1}, normals},
		}
		g.draws = draws
		x := tensor.New(fp16.Float64, 1, 1, 2, 3)
		y, err := g.noisy(0, &block, draws, x, c.p, fp16.Float16, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(y.Data, c.want) {
			t.Errorf("%v: noise %v, want %v", c.p.Points, y.Data, c.want)
		}
	}
	// The engine's.
	z, zero := tensor.New(fp16.Float16, 1, 1, 2, 3), tensor.New(fp16.Float16, 1, 1, 2, 3)
	draws := &emulate.Draws{Kinds: []noise.Kind{noise.Exponential, noise.Normal},
		Data: [][]float64{{1, 1, 1, 1, 1, 1}, slices.Clone(normals)}}
	if err := block.Apply(z, zero, noise.Time{}, draws.Rewind()); err != nil {
		t.Fatal(err)
	}
	if want := []float64{.125, -.125, 0, 0, .125, 0}; !slices.Equal(z.Data, want) {
		t.Errorf("engine: noise %v, want %v", z.Data, want)
	}
}
