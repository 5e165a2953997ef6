package study

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// small returns a case of a small operator, with whole batches of two of the
// three realizations, and what to study of it.
func small(t *testing.T, edit func(*rollout.Case)) (*rollout.Case, Options) {
	t.Helper()
	c, err := rollout.ParseCase("small.json", []byte(`{"weights_seed": 3,
		"operator": {"num_layers": 2, "base_channels": 4, "normalization": "instance", "activation": "gelu",
		"noise_type": "gaussian", "noise_scale": 0.01},
		"rollout": {"policy_type": "convex", "alpha": 0.5, "num_timesteps": 10, "num_realizations": 3,
		"engine_batch": 2, "base_seed": 5}}`))
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(c)
	}
	o := Options{Shape: rollout.Shape{C: 3, H: 6, W: 7}}
	starts := make([][]float64, 4)
	for m := range starts {
		starts[m] = make([]float64, o.Shape.Len())
		if err := rollout.White(uint64(m), o.Shape, starts[m]); err != nil {
			t.Fatal(err)
		}
	}
	o.Start = func(m int) []float64 { return starts[m] }
	for _, name := range []string{"tf32", "float16", "bfloat16"} {
		m, err := graph.ParseMode(name, "")
		if err != nil {
			t.Fatal(err)
		}
		o.Arithmetics = append(o.Arithmetics, m)
	}
	return c, o
}

// kept is a sink that keeps all states, [t][m].
type kept [][][]float64

func (k kept) State(t, m int, x, _ []float64) error {
	k[t][m] = append([]float64(nil), x...)
	return nil
}

// alone runs one rollout by itself.
func alone(
	t *testing.T, c *rollout.Case, o Options, noise string, mode graph.Mode, seed uint64, delta float64,
) kept {
	t.Helper()
	one := *c
	one.Rollout.BaseSeed += seed
	op, err := one.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := one.OpenStream(noise, op, graph.Mode{Precision: fp16.Float32})
	if err != nil {
		t.Fatal(err)
	}
	k := make(kept, c.Rollout.Timesteps)
	for i := range k {
		k[i] = make([][]float64, c.Rollout.Realizations)
	}
	e := &rollout.Engine{
		Stepper: rollout.Stepper{Operator: op, Config: one.Rollout, Mode: mode}, Stream: stream, Shape: o.Shape,
		Start: func(m int) []float64 {
			x := append([]float64(nil), o.Start(m)...)
			for i := range x {
				x[i] += delta
			}
			return x
		},
		Sinks: []rollout.Sink{k},
	}
	if err := e.Run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return k
}

// TestStudyLockstep: the twins of a study are the rollouts that engines run
// alone, bit for bit, in whole-batch post-processing and with every kind of
// stream and policy, and the distances are between those states.
func TestStudyLockstep(t *testing.T) {
	for _, k := range []struct {
		name, noise string
		edit        func(*rollout.Case)
	}{
		{"convex, whole batches", "counter", func(c *rollout.Case) { c.Rollout.Normalization = rollout.ZScore }},
		{"residual", "torch-cpu:2.x", func(c *rollout.Case) {
			c.Rollout.Policy, c.Rollout.Dt, c.Rollout.EngineBatch = rollout.Residual, 0.1, 0
		}},
		{"autoregressive", "none", func(c *rollout.Case) {
			c.Rollout.Policy, c.Rollout.Normalization, c.Rollout.EngineBatch = rollout.Autoregressive, rollout.MinMax, 0
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			c, o := small(t, k.edit)
			o.Noise = k.noise
			r, err := Run(context.Background(), c, o)
			if err != nil {
				t.Fatal(err)
			}
			float32s := graph.Mode{Precision: fp16.Float32}
			ref := alone(t, c, o, k.noise, float32s, 0, 0)
			twins := map[string]kept{
				"float64": alone(t, c, o, k.noise, graph.Mode{Precision: fp16.Float64}, 0, 0),
				Moved:     alone(t, c, o, k.noise, float32s, 0, 1e-6),
			}
			if k.noise == "none" {
				twins[Other] = alone(t, c, o, k.noise, float32s, 0, 1e-2)
			} else {
				twins[Other] = alone(t, c, o, k.noise, float32s, 1<<24, 0)
			}
			for i, name := range []string{"tf32", "float16", "bfloat16"} {
				twins[name] = alone(t, c, o, k.noise, o.Arithmetics[i], 0, 0)
			}
			if len(r.Twins) != len(twins) {
				t.Fatalf("%d twins, want %d", len(r.Twins), len(twins))
			}
			for _, w := range r.Twins {
				for s, got := range w.Path {
					if want := apart(twins[w.Name][s+1], ref[s+1]); got != want {
						t.Errorf("%s, step %d: %+v, alone %+v", w.Name, s+1, got, want)
					}
				}
			}
			// From the common start the first step of a path is one step. (Float64
			// post-processes the start otherwise.)
			for _, w := range r.Twins {
				if w.OneStep != nil && w.OneStep[0] != w.Path[0] &&
					(w.Name != "float64" || c.Rollout.Normalization == rollout.NoNormalization) {
					t.Errorf("%s: first single step %+v, first step of the path %+v", w.Name, w.OneStep[0], w.Path[0])
				}
				if want := w.Name != Moved && !(w.Name == Other && k.noise == "none"); (w.OneStep != nil) != want {
					t.Errorf("%s: has single steps: %v, want %v", w.Name, w.OneStep != nil, want)
				}
			}
			if (r.NoiseFloor != nil) != (k.noise != "none") {
				t.Errorf("noise floor %v", r.NoiseFloor)
			}
		})
	}
}

// apart computes a Distance by its definition.
func apart(x, ref [][]float64) Distance {
	var abs, sq, rel, most, n, variance float64
	for m := range ref {
		for i, w := range ref[m] {
			d := math.Abs(x[m][i] - w)
			abs, most, rel, n = abs+d, max(most, d), rel+d/(math.Abs(w)+1e-8), n+1
			sq += float64(d * d)
		}
		s := diff.Std(ref[m])
		variance += float64(s * s)
	}
	std := math.Sqrt(variance / float64(len(ref)))
	return Distance{diff.Number(abs / n), diff.Number(most), diff.Number(math.Sqrt(sq/n) / std), diff.Number(rel / n)}
}

// TestStudyOneStep: single steps are taken from the reference's state, with the
// reference's noise of that step.
func TestStudyOneStep(t *testing.T) {
	c, o := small(t, func(c *rollout.Case) { c.Rollout.EngineBatch = 0 })
	r, err := Run(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	ref := alone(t, c, o, "counter", graph.Mode{Precision: fp16.Float32}, 0, 0)
	for i, name := range []string{"tf32", "float16", "bfloat16"} {
		for s := 1; s < c.Rollout.Timesteps; s++ {
			// The noise of step s comes s-1 steps after a start at that seed:
			// so a rollout that is put on ref's state at step s-1.
			e, got := engineAt(t, c, o, o.Arithmetics[i]), make(kept, c.Rollout.Timesteps)
			for j := range got {
				got[j] = make([][]float64, c.Rollout.Realizations)
			}
			e.Sinks, e.Config.Timesteps = []rollout.Sink{got}, s+1
			if err := e.Run(context.Background(),
				&rollout.Checkpoint{Step: s - 1, State: stack(ref[s-1], o.Shape)}); err != nil {
				t.Fatal(err)
			}
			if want := apart(got[s], ref[s]); r.Twin(name).OneStep[s-1] != want {
				t.Errorf("%s, step %d: %+v, alone %+v", name, s, r.Twin(name).OneStep[s-1], want)
			}
		}
	}
	// Rounding to 8 bits is 8 times as coarse as rounding to 11.
	half, bf := Mean(r.Twin("float16").OneStep), Mean(r.Twin("bfloat16").OneStep)
	if q := bf.RMSOverStd / half.RMSOverStd; !(q > 5 && q < 12) {
		t.Errorf("bfloat16 %v, float16 %v: ratio %v, want about 8", bf, half, q)
	}
}

// TestStudyChaos: of a small operator that enlarges differences, a study finds
// growth, saturation and horizons in the order of the twins' distances; with the
// residual policy, which moves a state by little, the same finds none.
func TestStudyChaos(t *testing.T) {
	chaos := func(c *rollout.Case) {
		c.Operator.NumLayers, c.Operator.BaseChannels = 4, 2
		c.Rollout.Policy, c.Rollout.Timesteps, c.Rollout.Realizations = rollout.Autoregressive, 41, 1
	}
	c, o := small(t, chaos)
	r, err := Run(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Growth; g == nil || !(g.PerStep > 1.3 && g.PerStep < 4) {
		t.Errorf("growth %+v", g)
	}
	if s := r.Saturated; s == nil || !(*s > 0.25 && *s < 2) {
		t.Fatalf("saturated at %v", s)
	}
	at := func(name string) int {
		w := r.Twin(name)
		if w.Horizon == nil {
			t.Fatalf("%s has no horizon", name)
		}
		h := *w.Horizon
		if half := *r.Saturated / 2; w.Path[h-1].RMSOverStd < half || w.Path[h-2].RMSOverStd >= half {
			t.Errorf("%s: horizon %d between %v and %v, want %v there",
				name, h, w.Path[h-2].RMSOverStd, w.Path[h-1].RMSOverStd, half)
		}
		return h
	}
	if !(at("bfloat16") < at("float16") && at("float16") < at(Moved) && at(Moved) < 40) {
		t.Errorf("horizons: bfloat16 %d, float16 %d, moved %d", at("bfloat16"), at("float16"), at(Moved))
	}

	c, o = small(t, chaos)
	c.Rollout.Policy = rollout.Residual
	if r, err = Run(context.Background(), c, o); err != nil {
		t.Fatal(err)
	}
	if m, b := r.Twin(Moved), r.Twin("bfloat16"); r.Growth != nil || m.Horizon != nil || !m.Measured ||
		b.Horizon != nil || !b.Measured {
		t.Errorf("residual: growth %+v, saturated %v, %+v, %+v", r.Growth, r.Saturated, m, b)
	}
}

// TestStudyFaults: what a study refuses, and what it survives.
func TestStudyFaults(t *testing.T) {
	for _, k := range []struct {
		edit func(*rollout.Case, *Options)
		want string
	}{
		{func(c *rollout.Case, _ *Options) { c.Rollout.Timesteps = 8 }, "small.json: 7 steps: want 8 or more for a study"},
		{func(_ *rollout.Case, o *Options) { o.Noise = "tape" },
			"noise: a tape has no other seed: want counter, torch-cpu, torch-cuda:SMS or none for a study"},
		{func(_ *rollout.Case, o *Options) { o.Noise = "pink" }, `noise: "pink": want `},
		{func(_ *rollout.Case, o *Options) {
			o.Start = func(int) []float64 { return append(make([]float64, 125), math.NaN()) }
		}, "initial condition: NaN or infinite: want finite numbers"},
		{func(c *rollout.Case, _ *Options) {
			c.Operator.NoiseScale = 3e38
		}, "step 1: the float32 rollout is NaN or infinite: want an operator whose states stay finite"},
	} {
		c, o := small(t, nil)
		k.edit(c, &o)
		if _, err := Run(context.Background(), c, o); err == nil || !strings.HasPrefix(err.Error(), k.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %q", err, k.want)
		}
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c, o := small(t, nil)
	if _, err := Run(ctx, c, o); err != context.Canceled {
		t.Errorf("a cancelled study: %v", err)
	}

	// Float16 overflows where float32 does not: an infinite distance, and the
	// place is named.
	c, o = small(t, func(c *rollout.Case) { c.Operator.Normalization = "none" })
	o.Start = func(int) []float64 { return append(make([]float64, 125), 1e6) }
	r, err := Run(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	half := r.Twin("float16")
	if v := half.Overflow; v == nil || v.Step != 1 || v.Layer != "conv_blocks.0.block.0" {
		t.Errorf("overflow %+v", v)
	}
	if !math.IsInf(float64(half.Path[0].MeanAbs), 1) || r.Twin("bfloat16").Overflow != nil ||
		math.IsInf(float64(r.Twin("bfloat16").Path[8].MeanAbs), 1) {
		t.Errorf("float16 %+v, bfloat16 %+v", half.Path[0], r.Twin("bfloat16").Path[8])
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// TestStudyProgress: every step of every engine batch is counted.
func TestStudyProgress(t *testing.T) {
	c, o := small(t, nil)
	calls := 0
	o.Progress = func(done, total int) {
		if calls++; done != calls || total != 18 {
			t.Errorf("call %d: %d of %d", calls, done, total)
		}
	}
	if _, err := Run(context.Background(), c, o); err != nil || calls != 18 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func engineAt(t *testing.T, c *rollout.Case, o Options, mode graph.Mode) *rollout.Engine {
	t.Helper()
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.OpenStream("counter", op, mode)
	if err != nil {
		t.Fatal(err)
	}
	return &rollout.Engine{Stepper: rollout.Stepper{Operator: op, Config: c.Rollout, Mode: mode}, Stream: stream,
		Shape: o.Shape, Start: o.Start}
}

func stack(states [][]float64, s rollout.Shape) *tensor.Tensor {
	x := tensor.New(fp16.Float32, len(states), s.C, s.H, s.W)
	for m, state := range states {
		copy(x.Samples(m, m+1).Data, state)
	}
	return x
}
