package steps

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// stepBench is a rollout that a synthetic device makes and the step gates see.
type stepBench struct {
	t    *testing.T
	gate *stepGate
	// device returns what computes step t.
	device func(t int) *emulate.Device
	// start may change the first states.
	start func(x []float64)
	// after may change the states of a step before they are recorded.
	after func(t int, y *tensor.Tensor)
	// unnamed is that the library is not asked which fault a wrong device has, which takes most of the time.
	unnamed bool
}

const stepBenchSteps = 3 // the first, a middle one and the last, unless a test says otherwise

func newStepBench(t *testing.T, precision, autocast, norm string, ro rollout.Config) *stepBench {
	t.Helper()
	return newDeepStepBench(t, precision, autocast, norm, 2, ro)
}

func newDeepStepBench(t *testing.T, precision, autocast, norm string, layers int, ro rollout.Config) *stepBench {
	t.Helper()
	return newStepBenchOf(t, precision, autocast, operator.Config{
		NumLayers: layers, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3, Activation: "gelu",
		Normalization: norm, NoiseType: "gaussian", NoiseScale: .05,
	}, ro)
}

func newStepBenchOf(t *testing.T, precision, autocast string, config operator.Config, ro rollout.Config) *stepBench {
	t.Helper()
	mode, err := graph.ParseMode(precision, autocast)
	if err != nil {
		t.Fatal(err)
	}
	op, err := operator.Init(config, 7)
	if err != nil {
		t.Fatal(err)
	}
	if ro.Realizations = 2; ro.Timesteps == 0 {
		ro.Timesteps = stepBenchSteps + 1
	}
	c := &rollout.Case{File: "test", Operator: op.Config, Rollout: ro}
	e := &evidence.Evidence{Ctx: context.Background(), Case: c, Op: op, Machine: emulate.New(op, ro), Mode: mode}
	if e.Stream, err = c.OpenStream("counter", op, mode); err != nil {
		t.Fatal(err)
	}
	e.States = &rollout.States{M: 2, T: ro.Timesteps, C: 3, H: 16, W: 16, Format: fp16.Float32}
	g := newStepGate(e, &facts.Facts{})
	b := &stepBench{t: t, gate: g}
	b.device = func(int) *emulate.Device { return b.correct(g.claim, 1) }
	return b
}

// correct is a correct device of a pattern, whose sums are lambda times as
// inexact as one addition after another is; those of a fine claim where there is a method that makes them so.
func (b *stepBench) correct(p emulate.Pattern, lambda float64) *emulate.Device {
	p.Twice = p.Half()
	return b.gate.device(p, 1,
		&emulate.Legal{Machine: b.gate.e.Machine, U: b.gate.u, Lambda: lambda, Tiled: !p.Discrete(), Member: 1 << 30})
}

// check lets the device run and returns the report of the step gates alone.
func (b *stepBench) check() *report.Report {
	b.t.Helper()
	b.run()
	e := b.gate.e
	e.Report = &report.Report{FirstStep: -1, Claim: e.Case.Rollout.ModeName(e.Op, e.Mode, e.Stream)}
	if b.unnamed {
		e.Watch = func(stage string, _, _ int) {
			if stage == "hypotheses" {
				e.Until = time.Now()
			}
		}
	}
	g := newStepGate(e.Evidence, e.Facts)
	if err := g.steps(); err != nil {
		b.t.Fatal(err)
	}
	b.gate.e.Pool, e.Report.Findings = g.e.Pool, g.e.Found
	return e.Report
}

// run lets the device run.
func (b *stepBench) run() {
	b.t.Helper()
	e := b.gate.e
	s := e.States
	r := rand.New(rand.NewPCG(3, 4))
	s.Data = make([]float64, s.M*s.T*s.CHW())
	for m := range s.M {
		x := s.At(m, 0)
		for k := range x { // waves, askew where a row has not 24 numbers, and noise
			x[k] = fp16.Float32.Round(math.Sin(float64(k%24)/3+float64(k/24)/5+float64(m)) + .3*r.NormFloat64())
		}
		if b.start != nil {
			b.start(x)
		}
	}
	for t := 1; t < s.T; t++ {
		step, err := b.gate.step(t)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := b.gate.begin(step); err != nil {
			b.t.Fatal(err)
		}
		y, err := e.Machine.Step(b.device(t), step.X, step.Draws.Rewind())
		if err != nil {
			b.t.Fatal(err)
		}
		if b.after != nil {
			b.after(t, y)
		}
		fp16.Float32.RoundSlice(y.Data, y.Data)
		for m := range s.M {
			copy(s.At(m, t), y.Samples(m, m+1).Data)
		}
	}
}

// measured returns a step of the first engine batch, measured.
func (b *stepBench) measured(t int) *measured {
	b.t.Helper()
	step, err := b.gate.step(t)
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := b.gate.measure(step)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// wide gives a bench more numbers, for what some of them alone show, or where they have places.
func (b *stepBench) wide() *stepBench {
	b.gate.e.States.H, b.gate.e.States.W = 20, 24
	return b
}

func convex(alpha float64) rollout.Config {
	return rollout.Config{Policy: rollout.Convex, Alpha: alpha}
}

// TestStepsCorrect: devices that do what is claimed are found to, whatever the
// order of their float32 sums.
func TestStepsCorrect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		precision, autocast, norm string
		ro                        rollout.Config
		lambda                    float64
	}{
		{"float32", "", "instance", convex(.5), 4.4},
		{"float32", "", "batch", rollout.Config{Policy: rollout.Autoregressive}, .3},
		{"float32", "", "group", rollout.Config{Policy: rollout.Residual, Dt: .1, Normalization: rollout.MinMax}, 1},
		{"tf32", "", "layer", convex(.3), 4.4},
		{"float16", "cuda", "instance", convex(.7), 4.4},
		{"float16", "cpu", "none", rollout.Config{Policy: rollout.Residual, Dt: .05, Clamp: &[2]float64{-1, 1}}, 1},
		{"bfloat16", "cuda", "group", convex(.5), .3},
		{"bfloat16", "cpu:1.13", "batch", rollout.Config{Policy: rollout.Autoregressive}, 2},
		{"float16", "cuda", "instance", rollout.Config{Policy: rollout.Residual, Dt: .1, Normalization: rollout.MinMax}, 1},
		{"bfloat16", "cuda", "group", rollout.Config{Policy: rollout.Autoregressive, Normalization: rollout.ZScore}, 1},
		{"bfloat16", "cpu", "none", rollout.Config{Policy: rollout.Autoregressive, Normalization: rollout.MinMax}, 4.4},
		{"float16", "cuda", "instance",
			rollout.Config{Policy: rollout.Autoregressive, Normalization: rollout.MinMax, EngineBatch: 2}, 1},
	} {
		b := newStepBench(t, c.precision, c.autocast, c.norm, c.ro)
		b.device = func(int) *emulate.Device { return b.correct(b.gate.claim, c.lambda) }
		r := b.check()
		if len(r.Findings) > 0 || r.Contract != r.Claim || len(r.Steps) != stepBenchSteps {
			t.Errorf("%s, %s, %s: contract %q, findings %v: want %q and none",
				c.precision, c.norm, c.ro.Policy, r.Contract, r.Findings, r.Claim)
		}
	}
}

// TestStepsHalfPost: states of a half type are normalized by one operation, as the
// contract has it, or by a formula on tensors; a coarser result is neither.
func TestStepsHalfPost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		precision     string
		normalization rollout.Normalization
		how           string
	}{
		{"bfloat16", rollout.ZScore, "contract"},
		{"bfloat16", rollout.MinMax, "formula"},
		{"float16", rollout.ZScore, "formula"},
		{"bfloat16", rollout.ZScore, "coarse"},
		{"float16", rollout.MinMax, "coarse"},
	} {
		b := newStepBench(t, c.precision, "cuda", "group",
			rollout.Config{Policy: rollout.Autoregressive, Normalization: c.normalization})
		p := b.gate.claim
		p.Twice = c.how == "formula"
		b.device = func(int) *emulate.Device { return b.gate.device(p, 1, nil) }
		if b.unnamed = c.how == "coarse"; b.unnamed {
			b.after = func(_ int, y *tensor.Tensor) {
				for k, v := range y.Data {
					q := 4 * p.Mode.Precision.Ulp(v)
					y.Data[k] = math.RoundToEven(v/q) * q
				}
			}
		}
		failed := slices.ContainsFunc(b.check().Findings, func(f report.Finding) bool { return f.Verdict.Failed() })
		if failed != (c.how == "coarse") {
			t.Errorf("%s, %s, %s: failed: %v; %v", c.precision, c.normalization, c.how, failed, b.gate.e.Report.Findings)
		}
	}
}

// TestStepsHalfProducts: products with constants may be rounded to float32 before the half type, and states be
// normalized by one operation all the same: a device that does both is held against that, bit for bit.
func TestStepsHalfProducts(t *testing.T) {
	t.Parallel()
	for _, n := range []rollout.Normalization{rollout.MinMax, rollout.ZScore} {
		b := newStepBench(t, "bfloat16", "cpu", "instance",
			rollout.Config{Policy: rollout.Convex, Alpha: .9, State: "bfloat16", Normalization: n})
		g, p := b.gate, b.gate.claim
		b.device = func(int) *emulate.Device {
			d, sum := g.device(p, 1, nil), p
			sum.Twice = true
			d.Update = func(x, o *tensor.Tensor) *tensor.Tensor { return g.post(x, g.sum(x, o, sum, nil), p, nil) }
			return d
		}
		r := b.check()
		for _, s := range r.Steps {
			if s.Re > 0 || len(r.Findings) > 0 {
				t.Errorf("%s, step %d: %.3g deviations from the device's own pattern; %v", n, s.Step, s.Re, r.Findings)
			}
		}
	}
}

// TestStepsPattern: devices that round at other points than claimed, and no
// worse, are recognised.
func TestStepsPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		precision, autocast, norm string
		change                    func(p *emulate.Pattern)
		contract, pattern         string
	}{
		{"float16", "cuda", "instance", func(p *emulate.Pattern) { p.Points &^= emulate.AtNorm },
			"float16/autocast-cuda/state-float32/noise-counter with fewer roundings",
			"stores conv, act, draw, product, noise, out, share; bias apart"},
		{"bfloat16", "cuda", "instance", func(p *emulate.Pattern) { p.Points = emulate.AtConv | emulate.AtOut },
			"bfloat16/autocast-cuda/state-float32/noise-counter with fewer roundings", "stores conv, out"},
		{"float16", "cuda", "none", func(p *emulate.Pattern) {
			p.Mode.Autocast = graph.CPU2
			p.Points &^= emulate.AtBias
		}, "float16/autocast-cpu/state-float32/noise-counter", "stores conv, act, draw, product, noise, out, share"},
		{"tf32", "", "instance", func(p *emulate.Pattern) { p.Mode.TF32 = fp16.TowardZero },
			"tf32:truncate/state-float32/noise-counter", ""},
		{"float16", "cuda", "instance", func(p *emulate.Pattern) {
			*p = emulate.Pattern{Mode: graph.Mode{Precision: fp16.Float32}}
		}, "float32/state-float32/noise-counter", ""},
	} {
		b := newStepBench(t, c.precision, c.autocast, c.norm, convex(.4))
		p := b.gate.claim
		c.change(&p)
		b.device = func(int) *emulate.Device { return b.correct(p, 1) }
		if r := b.check(); len(r.Findings) > 0 || r.Contract != c.contract || r.Pattern != c.pattern {
			t.Errorf("%s, %s: contract %q, pattern %q, findings %v: want %q, %q and none", c.precision, c.norm,
				r.Contract, r.Pattern, r.Findings, c.contract, c.pattern)
		}
	}
}

// TestStepsTrace: devices that store some nodes of a kind and others not, or
// kinds that no usual fusion leaves out, are recognised too, and so is a fault in
// one of them.
func TestStepsTrace(t *testing.T) {
	t.Parallel()
	minmax := rollout.Config{Policy: rollout.Convex, Alpha: .4, Normalization: rollout.MinMax}
	for _, c := range []struct {
		precision, autocast, norm string
		layers                    int
		ro                        rollout.Config
		change                    func(p *emulate.Pattern)
		faulty                    bool
		pattern                   string
	}{
		{"float16", "cuda", "instance", 2, convex(.4), func(p *emulate.Pattern) { p.Odd = 1<<0 | 1<<4 }, true,
			"; not conv_blocks.0.block.0, conv_blocks.1.block.1"},
		{"bfloat16", "cpu", "layer", 2, convex(.5), func(p *emulate.Pattern) {
			p.Points = emulate.AtConv | emulate.AtProduct | emulate.AtNoise
			p.Odd = 1 << 6
		}, false,
			"; not conv_blocks.2.block.0"},
		{"float16", "cuda", "none", 4, convex(.7),
			func(p *emulate.Pattern) { p.Points &^= emulate.AtConv | emulate.AtDraw }, false, "stores act, sum, "},
		{"float16", "cuda", "instance", 2, minmax, func(p *emulate.Pattern) {
			p.Points &^= emulate.AtConv | emulate.AtDraw
			p.Odd = 1 << 1
		}, false, "; not conv_blocks.0.block.1"},
	} {
		b := newDeepStepBench(t, c.precision, c.autocast, c.norm, c.layers, c.ro)
		p := b.gate.claim
		c.change(&p)
		b.device = func(int) *emulate.Device { return b.correct(p, 1) }
		if b.unnamed = c.faulty; c.faulty {
			b.after = func(t int, y *tensor.Tensor) {
				if t == 2 {
					y.Plane(1, 0)[77] += 1
				}
			}
		}
		r := b.check()
		if got := len(r.Findings) > 0; got != c.faulty || !strings.Contains(r.Pattern, c.pattern) {
			t.Errorf("%s, %s: pattern %q, findings %v: want %q, faulty %v",
				c.precision, c.norm, r.Pattern, r.Findings, c.pattern, c.faulty)
		}
	}
}

// TestStepsFaults: faults are found at their step, and told apart.
func TestStepsFaults(t *testing.T) {
	t.Parallel()
	const at = 2
	tile := func(v float64) func(t int, y *tensor.Tensor) {
		return func(t int, y *tensor.Tensor) {
			if t != at {
				return
			}
			for i := range 64 {
				y.Plane(1, 2)[(8+i/8)*y.W()+4+i%8] *= v
			}
		}
	}
	one := func(change func(v float64) float64) func(t int, y *tensor.Tensor) {
		return func(t int, y *tensor.Tensor) {
			if t == at {
				p := y.Plane(1, 0)
				p[77] = change(p[77])
			}
		}
	}
	// Errors up and down by that much, from one realization on.
	alternating := func(from int, by float64) func(t int, y *tensor.Tensor) {
		return func(t int, y *tensor.Tensor) {
			if t != at {
				return
			}
			for i := range y.Samples(from, y.N()).Data {
				y.Samples(from, y.N()).Data[i] *= 1 + by*math.Copysign(1, math.Sin(float64(i*i)))
			}
		}
	}
	// A rounding more in every convolution, as of partial sums.
	narrow := func(f fp16.Format) func(b *stepBench) func(t int) *emulate.Device {
		return func(b *stepBench) func(t int) *emulate.Device {
			return func(t int) *emulate.Device {
				d := b.correct(b.gate.claim, 1)
				if t < at {
					return d
				}
				perturb := d.Perturb
				d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
					perturb(i, y, in)
					if b.gate.e.Machine.Nodes[i].Op == operator.OpConv {
						for k, v := range y.Data {
							part := v/2 + .3
							y.Data[k] = f.Round(part) + f.Round(v-part)
						}
					}
				}
				return d
			}
		}
	}
	seen := map[string]bool{}
	for _, c := range []struct {
		name, precision, autocast string
		device                    func(b *stepBench) func(t int) *emulate.Device
		after                     func(t int, y *tensor.Tensor)
		verdict                   report.Verdict
		slice                     string
	}{
		{"split sums", "float16", "cuda", narrow(fp16.Float16), nil, report.FailPrecision, ""},
		{"split sums", "bfloat16", "cpu", narrow(fp16.BFloat16), nil, report.FailPrecision, ""},
		{"half sums", "float32", "", narrow(fp16.Float16), nil, report.FailPrecision, ""},
		{"tf32", "float32", "", func(b *stepBench) func(t int) *emulate.Device {
			return func(t int) *emulate.Device {
				p := b.gate.claim
				if t >= at {
					p.Mode.Precision = fp16.TF32
				}
				return b.correct(p, 1)
			}
		}, nil, report.FailPrecision, ""},
		{"stale tile", "float16", "cuda", nil, tile(.8), report.FailLogic, "tile of 8x8 at (8,4) of realization 1"},
		{"stale tile", "float32", "", nil, tile(1.01), report.FailLogic, "realization 1"},
		{"one element", "bfloat16", "cuda", nil, one(func(v float64) float64 { return v + 1 }), report.FailLogic,
			"element (3,5) of channel 0 of realization 1"},
		{"one realization", "float16", "cuda", nil, alternating(1, .02), report.FailLogic, "realization 1"},
		{"errors of a coarse rounding", "float16", "cuda", nil, alternating(0, .002), report.FailPrecision, ""},
		{"errors beyond any rounding", "float16", "cuda", nil, alternating(0, .2), report.FailLogic, ""},
		{"NaN", "tf32", "", nil, one(func(float64) float64 { return math.NaN() }), report.FailLogic,
			"element (3,5) of channel 0 of realization 1"},
		{"state in half", "float32", "", nil, func(t int, y *tensor.Tensor) {
			if t >= at {
				fp16.Float16.RoundSlice(y.Data, y.Data)
			}
		}, report.FailPrecision, ""},
	} {
		if seen[c.name] && !share.All() { // in another format
			continue
		}
		seen[c.name] = true
		b := newStepBench(t, c.precision, c.autocast, "instance", convex(.4)).wide()
		if c.device != nil {
			b.device = c.device(b)
		}
		b.after, b.unnamed = c.after, true
		r := b.check()
		if len(r.Findings) == 0 || r.Findings[0].Step != at || r.Findings[0].Verdict != c.verdict ||
			!strings.Contains(r.Findings[0].Slice, c.slice) || r.Contract != "" {
			t.Errorf("%s, %s: contract %q, findings %+v: want %s at step %d in %q",
				c.name, c.precision, r.Contract, r.Findings, c.verdict, at, c.slice)
			continue
		}
		if len(r.Worst) != 10 || r.Worst[0].Step != at || !strings.HasPrefix(r.Worst[0].Got, "0x") {
			t.Errorf("%s, %s: worst elements %+v", c.name, c.precision, r.Worst)
		}
		for i, s := range r.Steps {
			if c.after != nil && c.name != "state in half" && bool(s.Violation) != (i == at-1) {
				t.Errorf("%s, %s: step %d: violation %v", c.name, c.precision, s.Step, s.Violation)
			}
		}
	}
}

// TestStepsRecorded: what real PyTorch recorded keeps its contract.
func TestStepsRecorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dir, precision, autocast string
		re                       float64 // float32: sums of PyTorch's CPU are shorter than one addition after another
		but                      string  // how the contract differs
	}{
		{"rollouts/autoregressive_batch_relu", "float32", "", 1.2, ""},
		{"rollouts/minmax_residual", "float32", "", 1.2, ""},
		{"rollouts/no_norm_no_noise", "float32", "", 1.2, ""},
		{"autocast/1.13-bfloat16/rollouts/none_gelu", "bfloat16", "cpu:1.13", .01, ""},
		{"autocast/1.13-bfloat16/rollouts/instance_silu_dropout", "bfloat16", "cpu:1.13", .3, " with SiLU in bfloat16"},
		{"autocast/2.9-bfloat16/rollouts/none_gelu", "bfloat16", "cpu", .01, ""}, // products are rounded twice
		{"autocast/2.9-float16/rollouts/instance_gelu_laplace", "float16", "cpu", .2, ""},
		{"autocast/2.9-float16/rollouts/layer_tanh_multiplicative", "float16", "cpu", .2, ""},
	} {
		k, err := rollout.OpenCase(rig.Testdata(c.dir))
		if err != nil {
			t.Fatal(err)
		}
		op, err := k.NewOperator()
		if err != nil {
			t.Fatal(err)
		}
		states, err := k.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		mode, err := graph.ParseMode(c.precision, c.autocast)
		if err != nil {
			t.Fatal(err)
		}
		e := facts.Begin(&evidence.Evidence{
			Ctx: context.Background(), Case: k, Op: op, Machine: emulate.New(op, k.Rollout), Mode: mode, States: states,
		}, &facts.Facts{Report: &report.Report{}})
		if e.Stream, err = k.OpenStream("", op, mode); err != nil {
			t.Fatal(err)
		}
		rig.Do(t, e, Check)
		if want := k.Rollout.ModeName(e.Op, mode, e.Stream) + c.but; len(e.Report.Findings) > 0 || e.Report.Contract != want {
			t.Errorf("%s: contract %q, findings %v: want %q and none", c.dir, e.Report.Contract, e.Report.Findings, want)
		}
		for _, s := range e.Report.Steps {
			if !(s.Re <= diff.Number(c.re)) {
				t.Errorf("%s, step %d: %.4f from the emulation: want %v at most", c.dir, s.Step, s.Re, c.re)
			}
		}
	}
}

// TestEnsemble: the ensemble shows what a device with the sums that it assumes
// does, and a device with a tenth of their errors is nearer.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	re := func(lambda float64) float64 {
		b := newStepBench(t, "float16", "cuda", "instance", convex(.5))
		b.device = func(int) *emulate.Device { return b.correct(b.gate.claim, lambda) }
		r := b.check()
		var squares float64
		for _, s := range r.Steps {
			squares += float64(s.Re*s.Re) / stepBenchSteps
		}
		h := b.gate.newSpreads(b.gate.claim)
		for _, at := range []int{1, stepBenchSteps} {
			step, err := b.gate.step(at)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.gate.full(step, h, members); err != nil {
				t.Fatal(err)
			}
		}
		return squares / h.squares[measure.InAll].mean()
	}
	like := re(emulate.CoarseLambda)
	better := re(emulate.CoarseLambda / 10)
	if !(like > .5 && like < 2 && better < .8*like) {
		t.Errorf("mean squares are %.2f and, with a tenth of the errors, %.2f of the ensemble's: "+
			"want about 1, and less", like, better)
	}
}

// TestDoubtful: what a correct device shows is within the limits of many, however
// little few of them had shown; what is far beyond is not asked about, and a fault is none.
func TestDoubtful(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		error  float64
		excess float64
		want   bool
	}{{"correct", 0, 2, true}, {"correct, far beyond", 0, 2 * nearLimit, false}, {"a fault", 0.02, 2, false}} {
		b := newStepBench(t, "float16", "cuda", "instance", convex(.5))
		b.after = func(_ int, y *tensor.Tensor) {
			for i := range y.Data {
				y.Data[i] += c.error * float64(i%3-1)
			}
		}
		b.run()
		step, err := b.gate.step(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.gate.begin(step); err != nil {
			t.Fatal(err)
		}
		f := b.measured(1).figures()
		got, err := b.gate.doubtful(step, f, &stepFault{excess: c.excess})
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v: want %v", c.name, got, err, c.want)
		}
		if (f.by != nil) != c.want {
			t.Errorf("%s: it is judged by the limits of many: %v", c.name, f.by != nil)
		}
	}
}

// TestJudge: an error that is larger than the emulation's is found also where
// the two have nothing in common.
func TestJudge(t *testing.T) {
	t.Parallel()
	const n, c, h, w = 2, 3, 32, 32
	r := rand.New(rand.NewPCG(5, 6))
	field := func(size float64) []float64 {
		v := make([]float64, n*c*h*w)
		for i := range v {
			v[i] = size * r.NormFloat64()
		}
		return v
	}
	difference := func(g, e []float64) []float64 {
		d := make([]float64, len(g))
		for i := range d {
			d[i] = g[i] - e[i]
		}
		return d
	}
	limits := &spreads{of: 400, alike: 1, channels: c}
	for range 9 {
		g, e := field(1), field(1)
		limits.add(measure.Cut(n, c, h, w, difference(g, e), g, e))
	}
	for _, k := range []struct {
		size float64
		gate string
	}{{1, ""}, {1.3, "accuracy"}, {.7, ""}} {
		g, e := field(k.size), field(1)
		near := difference(field(1), e) // as if nothing had changed
		figures := &stepFigures{cuts: measure.Cut(n, c, h, w, near, g, e), count: n * c * h * w, alike: 1, of: 400}
		got := limits.judge(figures)
		if figures.alike, figures.of = 400, 1; limits.judge(figures) != nil {
			t.Errorf("errors of size %v, of pixels that are all alike: found", k.size)
		}
		gate := ""
		if got != nil {
			gate = got.gate
		}
		if gate != k.gate {
			t.Errorf("errors of size %v: found %q: want %q", k.size, gate, k.gate)
		}
	}
}

// TestLegalSums holds the size of disturbances to float32 sums that are really
// added up, one product after another.
func TestLegalSums(t *testing.T) {
	t.Parallel()
	op, err := operator.Init(operator.Config{NumLayers: 0, BaseChannels: 16, InputChannels: 16, OutputChannels: 16,
		KernelSize: 3, Activation: "none", Normalization: "none"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := emulate.New(op, rollout.Config{})
	r := rand.New(rand.NewPCG(1, 2))
	x := tensor.New(fp16.Float64, 1, 16, 16, 16)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(r.NormFloat64())
	}
	l := &emulate.Legal{Machine: m, U: 0x1p-24, Lambda: 1, Member: 5}
	exact, err := m.Node(&emulate.Device{}, 0, []*tensor.Tensor{x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	disturbed := exact.Clone()
	l.Disturb(0, disturbed, []*tensor.Tensor{x})
	w := m.Nodes[0].Weight.Data
	var model, real float64
	for o := range 16 {
		for y := 1; y < 15; y++ {
			for px := 1; px < 15; px++ {
				var sum float32
				for k := range 16 * 9 {
					v := x.Plane(0, k/9)[(y+k%9/3-1)*16+px+k%3-1]
					sum += float32(float64(float32(v)) * float64(float32(w[o*16*9+k])))
				}
				sum += float32(m.Nodes[0].Bias.Data[o])
				at := (o*16+y)*16 + px
				d, e := float64(sum)-exact.Data[at], disturbed.Data[at]-exact.Data[at]
				real, model = real+float64(d*d), model+float64(e*e)
			}
		}
	}
	if q := math.Sqrt(real / model); !(q > .8 && q < 1.25) {
		t.Errorf("float32 sums are %.3f of the model's errors: want about 1", q)
	}
}

// TestChernoff: the bound of a gamma tail holds, and is not much beyond it. With
// shape 1 the tail is e^-x, with shape 2 (1+x) e^-x.
func TestChernoff(t *testing.T) {
	t.Parallel()
	for _, shape := range []float64{1, 2} {
		x := chernoff(shape, shape)
		p := math.Exp(-x)
		if shape == 2 {
			p *= 1 + x
		}
		if !(p < 1e-10 && p > 1e-13) {
			t.Errorf("shape %v: the chance of more than %.2f is %.2g: want a little below 1e-10", shape, x, p)
		}
	}
	if x := chernoff(1, 1e-4); !(x > 1.06 && x < 1.08) { // normal: 6.4 deviations, and a little
		t.Errorf("a mean of 1 with deviation .01 stays below %.3f: want 1.065 to 1.075", x)
	}
}

// TestCut holds sums over slices to sums over the numbers that they name.
func TestCut(t *testing.T) {
	t.Parallel()
	const n, c, h, w = 2, 3, 19, 33
	r := rand.New(rand.NewPCG(8, 9))
	v := make([]float64, n*c*h*w)
	for i := range v {
		v[i] = r.NormFloat64()
	}
	v[500] = math.NaN()
	hot := ((1*c+2)*h+11)*w + 13
	v[hot] = 400
	s := measure.Cut(n, c, h, w, v, nil, nil)
	sum := func(in func(i, k, y, x int) bool) (total float64) {
		for i, q := range v {
			if q == q && in(i/(c*h*w), i/(h*w)%c, i/w%h, i%w) {
				total += q * q
			}
		}
		return total
	}
	for _, k := range []struct {
		kind  measure.SliceKind
		index int
		name  string
		want  float64
	}{
		{measure.InAll, 0, "", sum(func(i, k, y, x int) bool { return true })},
		{measure.InSample, 1, "realization 1", sum(func(i, k, y, x int) bool { return i == 1 })},
		{measure.InChannel, 2, "channel 2", sum(func(i, k, y, x int) bool { return k == 2 })},
		{measure.InPlane, 4, "channel 1 of realization 1", sum(func(i, k, y, x int) bool { return i == 1 && k == 1 })},
		{measure.InRow, 18, "row 18", sum(func(i, k, y, x int) bool { return y == 18 })},
		{measure.InColumn, 32, "column 32", sum(func(i, k, y, x int) bool { return x == 32 })},
		{measure.InRowMod, 3, "h mod 8 = 3", sum(func(i, k, y, x int) bool { return y%8 == 3 })},
		{measure.InColumnMod, 8 + 13, "w mod 16 = 13", sum(func(i, k, y, x int) bool { return x%16 == 13 })},
		{measure.InRing, 0, "border", sum(func(i, k, y, x int) bool { return y == 0 || y == h-1 || x == 0 || x == w-1 })},
	} {
		if got := s.Of[k.kind].Squares[k.index]; math.Abs(got-k.want) > 1e-9*k.want || s.Name(k.kind, k.index) != k.name {
			t.Errorf("%q: %v: want %q and %v", s.Name(k.kind, k.index), got, k.name, k.want)
		}
	}
	if s.Most[measure.InPeak][1] != 160000 || s.At[measure.InPeak][1] != hot {
		t.Errorf("peak %v at %d: want 160000 at %d", s.Most[measure.InPeak][1], s.At[measure.InPeak][1], hot)
	}
	if q := s.Most[measure.InWindow][1] * 64 * c; q < 160000 || q > 160000+3*64*c {
		t.Errorf("window of %v: want the one with the peak", q)
	}
	if got, want := s.Concentrated(), 160000/s.Of[measure.InAll].Squares[0]; got < want || got > want+.02 {
		t.Errorf("concentrated %v: want %v and a little", got, want)
	}
	if got, want := s.Home(4), "element (11,13) of channel 2 of realization 5"; got != want {
		t.Errorf("home %q: want %q", got, want)
	}
	if slices.Contains([]float64{s.Of[measure.InPlane].Count[0], s.Of[measure.InAll].Count[0]}, n*c*h*w) ||
		s.Of[measure.InAll].Count[0] != n*c*h*w-1 {
		t.Error("a NaN was counted")
	}
}

// TestDate: a fault that is looked for at a few steps is dated exactly.
func TestDate(t *testing.T) {
	t.Parallel()
	for first := 1; first <= 101; first++ {
		calls, least := 0, 101
		err := date([]int{1, 50, 100}, []int{1, 50, 100}, func(at int, again bool) (bool, error) {
			calls++
			if again && least == 101 {
				t.Errorf("step %d: asked again before anything was found", at)
			}
			if at >= first {
				least = min(least, at)
			}
			return at >= first, nil
		})
		if err != nil || least != first || calls > 9 {
			t.Errorf("fault from %d on: dated %d in %d calls", first, least, calls)
		}
		// A step between others may say nothing of a fault.
		full := []int{1, 50, 101}
		least = 101
		if err := date([]int{1, 25, 50, 75, 101}, full, func(at int, again bool) (bool, error) {
			if at < first || !again && !slices.Contains(full, at) {
				return false, nil
			}
			least = min(least, at)
			return true, nil
		}); err != nil || least != first {
			t.Errorf("fault from %d on, not seen between: dated %d", first, least)
		}
	}
}

// TestRightIsNotSearched: the whole library is asked of a step that is beyond its limit, and not of one that was judged
// right, though few devices do not reach it.
func TestRightIsNotSearched(t *testing.T) {
	t.Parallel()
	for _, right := range []bool{true, false} {
		b := newStepBench(t, "tf32", "", "layer", convex(.4))
		b.device = func(int) *emulate.Device { return b.correct(b.gate.claim, 64) }
		b.run()
		e := b.gate.e
		e.Report = &report.Report{FirstStep: -1}
		g := newStepGate(e.Evidence, e.Facts)
		if _, _, err := g.measureAll(); err != nil {
			t.Fatal(err)
		}
		g.h0.squares[measure.InAll] = spread{} // what few roundings may do is left
		if _, err := g.hypotheses(0, 1, right, false); err != nil {
			t.Fatal(err)
		}
		large := slices.ContainsFunc(e.Report.Filters, func(r report.FilterRow) bool { return !table.ByID(r.ID).Small })
		if large == right {
			t.Errorf("judged right %v: faults that cannot hide were asked %v", right, large)
		}
	}
}
