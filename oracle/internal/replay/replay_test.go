package replay

import (
	"math"
	"testing"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
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

// suspected runs gate 6 as if another gate had found a step wrong.
func suspected(t *testing.T, e *facts.Gate, step int) *report.Finding {
	return rig.Do(t, e, rig.Faulty(step), rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).suspects() }))
}

// TestSuspects breaks one rollout in one way at a time, at a late step, in turn in
// a precision that leaves much room for errors and in one that leaves little.
func TestSuspects(t *testing.T) {
	reads := func(source func(r *rig.Rig, x *tensor.Tensor, before []*tensor.Tensor) *tensor.Tensor) rig.Mischief {
		return func(r *rig.Rig, t int, d *emulate.Device, draws *emulate.Draws, before []*tensor.Tensor) {
			plain, m := *d, emulate.New(r.Op, r.Config)
			d.Update = func(x, _ *tensor.Tensor) *tensor.Tensor {
				out, err := m.Operator(&plain, source(r, x, before), draws.Rewind())
				if err != nil {
					r.T.Fatal(err)
				}
				return m.Advance(&plain, x, out)
			}
		}
	}
	config := func(change func(c *rollout.Config)) rig.Mischief {
		return rig.PolicyFault(func(r *rig.Rig, d *emulate.Device, x, _, out *tensor.Tensor) *tensor.Tensor {
			c := r.Config
			change(&c)
			return emulate.New(r.Op, c).Advance(d, x, out)
		})
	}
	swapped := func(x *tensor.Tensor) *tensor.Tensor { return Mixed(x, []int{2, 0, 1}) }
	draws := func(f func(r *rig.Rig, t int, d *emulate.Draws)) rig.Mischief {
		return func(r *rig.Rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) { f(r, t, d) }
	}
	for i, c := range []struct {
		name      string
		do        rig.Mischief
		verdict   report.Verdict
		diagnosis string
	}{
		{"old state read", reads(func(_ *rig.Rig, _ *tensor.Tensor, b []*tensor.Tensor) *tensor.Tensor { return b[1] }),
			report.FailRollout, "operator reads an old state"},
		{"another's state read", reads(
			func(_ *rig.Rig, x *tensor.Tensor, _ []*tensor.Tensor) *tensor.Tensor { return swapped(x) },
		), report.FailLogic, "state of another realization"},
		{"blend with another's",
			rig.PolicyFault(func(r *rig.Rig, d *emulate.Device, x, _, out *tensor.Tensor) *tensor.Tensor {
				return emulate.New(r.Op, r.Config).Advance(d, swapped(x), out)
			}), report.FailRollout, "state of another realization"},
		{"places changed", rig.PolicyFault(
			func(_ *rig.Rig, _ *emulate.Device, _, right, _ *tensor.Tensor) *tensor.Tensor { return swapped(right) },
		), report.FailRollout, "realizations in each other's place"},
		{"alpha swapped", config(func(c *rollout.Config) { c.Alpha = 1 - c.Alpha }), report.FailRollout,
			"alpha and 1 - alpha swapped"},
		{"alpha wrong", config(func(c *rollout.Config) { c.Alpha = 0.35 }), report.FailRollout, "alpha wrong"},
		{"twice", config(func(c *rollout.Config) { c.Alpha *= c.Alpha }), report.FailRollout, "policy applied twice"},
		{"residual", config(func(c *rollout.Config) { c.Policy, c.Dt = rollout.Residual, 0.7 }), report.FailRollout,
			"another policy"},
		{"leak", rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, _, right, _ *tensor.Tensor) *tensor.Tensor {
			y := tensor.Of(right.Format, measure.Scaled(right.Data, 0.9), right.Shape...)
			y.Format.RoundSlice(y.Data, y.Data)
			return y
		}), report.FailRollout, "state scaled"},
		{"clamped", config(func(c *rollout.Config) { c.Clamp = &[2]float64{-0.5, 0.5} }), report.FailRollout,
			"clamp that was not asked for"},
		{"channels reversed", rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, _, right, _ *tensor.Tensor) *tensor.Tensor {
			y := right.Clone()
			for n := range y.N() {
				copy(y.Plane(n, 0), right.Plane(n, 2))
				copy(y.Plane(n, 2), right.Plane(n, 0))
			}
			return y
		}), report.FailRollout, "channels in another order"},
		{"stale tile", rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, x, right, _ *tensor.Tensor) *tensor.Tensor {
			y := right.Clone()
			for h := range 8 {
				copy(y.Plane(1, 2)[h*y.W():h*y.W()+8], x.Plane(1, 2)[h*y.W():])
			}
			return y
		}), report.FailRollout, "part of the state is stale"},
		{"a bit", rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, _, right, _ *tensor.Tensor) *tensor.Tensor {
			y := right.Clone()
			y.Data[99] = fp16.Float32.FromBits(fp16.Float32.Bits(y.Data[99]) ^ 1<<22)
			return y
		}), report.FailLogic, "a bit has flipped"},
		{"loaded as bfloat16", reads(func(_ *rig.Rig, x *tensor.Tensor, _ []*tensor.Tensor) *tensor.Tensor {
			y := x.Clone()
			fp16.BFloat16.RoundSlice(y.Data, y.Data)
			return y
		}), report.FailRollout, "state read as bfloat16"},
		{"no noise", draws(func(_ *rig.Rig, _ int, d *emulate.Draws) { clear(d.Data[0]) }), report.FailRNG, "no noise"},
		{"last step's noise", draws(func(r *rig.Rig, t int, d *emulate.Draws) { *d = *r.Draws(t - 1) }), report.FailRNG,
			"noise of another step"},
		{"first step's noise", draws(func(r *rig.Rig, t int, d *emulate.Draws) { *d = *r.Draws(1) }), report.FailRNG,
			"the same noise at every step"},
		{"sign", rig.Times(-1), report.FailRNG, "noise of the wrong sign"},
		{"root of 2", rig.Times(math.Sqrt2), report.FailRNG, "noise scale larger by the root of 2"},
		{"shifted", rig.Redraw(func(v []float64, _ int) []float64 {
			y := make([]float64, len(v))
			Roll(y, v, 3)
			return y
		}), report.FailRNG, "noise shifted in the stream"},
		{"one channel without noise", rig.Redraw(func(v []float64, per int) []float64 {
			y := append([]float64(nil), v...)
			for m := 0; m < len(y); m += per {
				clear(y[m+256 : m+512])
			}
			return y
		}), report.FailRNG, "noise missing in some channels"},
		{"another stream", draws(func(r *rig.Rig, t int, d *emulate.Draws) { *d = *r.Draws(t + 1000) }), report.FailRNG,
			"another noise stream"},
		{"uniform", rig.Redraw(rig.Uniform), report.FailRNG, "noise differs from the specified draws"},
		{"of few bits", rig.Redraw(fewBits), report.FailRNG, "noise differs from the specified draws"},
		// in the other precision
		{"of few bits", rig.Redraw(fewBits), report.FailRNG, "noise differs from the specified draws"},
	} {
		precision := []string{"float32", "float16"}[i%2]
		r := rig.NewRig(t, precision, "gaussian", 0.1)
		e := r.Exam(r.Run(rig.From(6, c.do)), true)
		rig.Want(t, c.name+", "+precision, suspected(t, e, 6), c.verdict, c.diagnosis, 6)
	}
}

// fewBits makes draws as Box and Muller do of uniform numbers of 6 bits, near the ones given.
func fewBits(v []float64, _ int) []float64 {
	y := make([]float64, len(v))
	for i := 0; i+1 < len(v); i += 2 {
		squares := float64(v[i]*v[i]) + float64(v[i+1]*v[i+1])
		u := (math.Floor(64*math.Exp(-squares/2)) + 0.5) / 64
		by := math.Sqrt(-2 * math.Log(u) / squares)
		y[i], y[i+1] = fp16.Float32.Round(by*v[i]), fp16.Float32.Round(by*v[i+1])
	}
	return y
}

// TestStaleOrNotWritten: a part of a state that is as it was is a fault of the
// rollout, unless a kernel that leaves its output unwritten explains it: under a
// policy that adds the output or takes it as it is, step after step.
func TestStaleOrNotWritten(t *testing.T) {
	tile := func(to, from *tensor.Tensor) {
		for h := range 8 {
			copy(to.Plane(1, 2)[h*to.W():h*to.W()+8], from.Plane(1, 2)[h*to.W():])
		}
	}
	kept := rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, x, right, _ *tensor.Tensor) *tensor.Tensor {
		y := right.Clone()
		tile(y, x)
		return y
	})
	unwritten := rig.PolicyFault(func(r *rig.Rig, d *emulate.Device, x, _, out *tensor.Tensor) *tensor.Tensor {
		y := out.Clone()
		tile(y, tensor.Like(y))
		return emulate.New(r.Op, r.Config).Advance(d, x, y)
	})
	for _, c := range []struct {
		name    string
		policy  rollout.Policy
		do      rig.Mischief
		verdict report.Verdict
	}{
		{"a blend keeps neither", rollout.Convex, rig.From(6, kept), report.FailRollout},
		{"a sum, at one step", rollout.Residual, rig.At(6, kept), report.FailRollout},
		{"a sum, with an output of zeros", rollout.Residual, rig.From(6, unwritten), report.FailLogic},
		{"the output itself, at one step", rollout.Autoregressive, rig.At(6, kept), report.FailRollout},
		{"the output itself, since then", rollout.Autoregressive, rig.From(6, kept), report.FailLogic},
		{"a sum, at the last step", rollout.Residual, rig.At(8, kept), report.FailLogic},
	} {
		r := rig.NewRig(t, "float32", "", 0)
		r.Config.Policy, r.Config.Dt = c.policy, 0.1
		step := 6
		if c.name == "a sum, at the last step" {
			step = 8
		}
		rig.Want(t, c.name, suspected(t, r.Exam(r.Run(c.do), true), step), c.verdict, "part of the state is stale", step)
	}
}

// TestDeadSample: a realization of zeros since some step is right to the bit if its
// last state is taken for each of them, though no buffer is shared.
func TestDeadSample(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", 0.1)
	r.Config.Policy = rollout.Autoregressive
	dead := rig.From(3, rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, _, right, _ *tensor.Tensor) *tensor.Tensor {
		y := right.Clone()
		clear(y.Samples(2, 3).Data)
		return y
	}))
	if f := suspected(t, r.Exam(r.Run(dead), true), 3); f != nil && f.Diagnosis == "stored states share one buffer" {
		t.Error(f.Text)
	}
}

// TestNoSuspect holds faults that are none of the rollout or its noise: they must
// get no name here.
func TestNoSuspect(t *testing.T) {
	for name, f := range map[string]rig.Mischief{
		"fewer roundings than claimed": func(_ *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
			d.Store = append([]fp16.Format(nil), d.Store...)
			d.Store[2] = fp16.Float64
		},
		"weights": func(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
			d.Perturb = func(i int, y *tensor.Tensor, _ []*tensor.Tensor) {
				if i == 3 {
					for n := range y.N() {
						copy(y.Plane(n, 1), y.Plane(n, 2))
					}
				}
			}
		},
		"activation": func(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
			d.Perturb = func(i int, y *tensor.Tensor, _ []*tensor.Tensor) {
				if i == 2 {
					for k, v := range y.Data {
						y.Data[k] = math.Min(v, 1.5)
					}
				}
			}
		},
		"truncation": func(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
			d.Perturb = func(_ int, y *tensor.Tensor, _ []*tensor.Tensor) {
				for k, v := range y.Data {
					y.Data[k] = v - math.Mod(v, 1.0/256)
				}
			}
		},
	} {
		for _, precision := range []string{"float32", "float16"} {
			r := rig.NewRig(t, precision, "gaussian", 0.1)
			e := r.Exam(r.Run(f), true)
			rig.Want(t, name+", "+precision, suspected(t, e, 1), "", "", 0)
			r = rig.NewRig(t, precision, "dropout", 0.2)
			e = r.Exam(r.Run(f), true)
			rig.Want(t, name+" and dropout, "+precision, suspected(t, e, 1), "", "", 0)
		}
	}
}

// TestStranger holds the states of another operator.
func TestStranger(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", 0.1)
	s := r.Run(nil)
	other := rig.NewRig(t, "float32", "gaussian", 0.1)
	for i, p := range other.Op.Params() {
		if len(p.Shape) == 4 {
			for k := range p.Data {
				p.Data[k] *= math.Copysign(1, math.Sin(float64(7*k+i)))
			}
		}
	}
	e := other.Exam(s, true)
	rig.Want(t, "another operator", suspected(t, e, 1), "", "", 0)
	if len(e.Report.Notes) != 1 {
		t.Errorf("notes %q: want one that says that it is another operator's", e.Report.Notes)
	}
}

// TestFree holds the growth of small differences where it is known, and the
// horizon that follows from it.
func TestFree(t *testing.T) {
	r := rig.NewRig(t, "float32", "", 0)
	for _, p := range r.Op.Params() {
		clear(p.Data)
	}
	// Without output X_t is a X_{t-1}: differences shrink by a, and so do states.
	e := r.Exam(r.Run(nil), true)
	rig.Want(t, "contraction",
		rig.Do(t, e, rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).Free() })), "", "", 0)
	if g := e.Report.GrowthPerStep; g == nil || math.Abs(float64(*g)-0.3) > 1e-3 || e.Report.Horizon != nil {
		t.Errorf("contraction: growth %v, horizon %v: want 0.3, none", g, e.Report.Horizon)
	}
	// With an error of e in each step D_t^2 = (a D_{t-1})^2 + e^2, beside states
	// that shrink.
	r.Config.Alpha, r.Config.Timesteps = 0.9, 30
	e = r.Exam(r.Run(nil), true)
	e.Report.OneStep.MeanAbs = 0.01
	first, d := 0, 0.0
	for u := 1; u < e.States.T; u++ {
		d = math.Hypot(0.9*d, 0.012533)
		if first == 0 && d > 0.1*diff.Std(e.States.At(0, u)) {
			first = u
		}
	}
	rig.Do(t, e, rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).Free() }))
	if h := e.Report.Horizon; first < 3 || h == nil || *h != first {
		t.Errorf("horizon %v: want %d, 3 or more", h, first)
	}
	// A recorded case grows as two rollouts of it that start close together do.
	c := rig.OpenCase(t, "seed_small")
	recorded, err := c.ReadTrajectory()
	if err != nil {
		t.Fatal(err)
	}
	own, moved := rig.FreeRun(t, c, recorded, 0), rig.FreeRun(t, c, recorded, 1e-6)
	pair := diff.PerStep(moved, own, recorded.M, recorded.T, recorded.CHW(), fp16.Float32)
	last := recorded.T - 1
	measured := math.Pow(float64(pair[last].RMSOverStd*pair[last].Std/(pair[2].RMSOverStd*pair[2].Std)), 1/float64(last-2))
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	seen := &evidence.Evidence{Ctx: t.Context(), Case: c, Op: op, States: recorded, Machine: emulate.New(op, c.Rollout),
		Mode: graph.Mode{Precision: fp16.Float32}}
	if seen.Stream, err = c.OpenStream("", op, seen.Mode); err != nil {
		t.Fatal(err)
	}
	e = facts.Begin(seen, &facts.Facts{Report: facts.Open(seen)})
	rig.Do(t, e, rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).Free() }))
	if g := float64(*e.Report.GrowthPerStep); measured < 1.2 || math.Abs(g/measured-1) > 0.15 {
		t.Errorf("seed_small: growth %.3f: want %.3f, as a pair of rollouts has it", g, measured)
	}
	r = rig.NewRig(t, "float32", "gaussian", 0.01)
	s := r.Run(nil)
	e = r.Exam(s, true)
	e.Report.OneStep.MeanAbs = 1e-6
	if rig.Do(t, e, rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).Free() })); e.Report.GrowthPerStep ==
		nil || len(e.Report.Notes) != 0 {
		t.Errorf("growth %v, notes %q: want a growth and no note", e.Report.GrowthPerStep, e.Report.Notes)
	}
	// The same device with one wrong step is far from our own rollout.
	for m := range s.M {
		for i, v := range s.At(m, 1) {
			s.At(m, 1)[i] = fp16.Float32.Round(v + 0.03)
		}
	}
	e = r.Exam(s, true)
	e.Report.OneStep.MeanAbs = 1e-6
	if rig.Do(t, e, rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).Free() })); len(e.Report.Notes) != 1 {
		t.Errorf("notes %q: want one", e.Report.Notes)
	}
}

// TestEnough: faults that are fitted must explain more than draws.
func TestEnough(t *testing.T) {
	for _, c := range []struct {
		s    suspect
		want float64
	}{
		{suspect{name: "alpha wrong", verdict: report.FailRollout}, 0.25},
		{suspect{name: "noise of another step", verdict: report.FailRNG}, 0.7},
		{suspect{name: "other dropout masks", verdict: report.FailRNG, masks: true}, 0.25},
	} {
		if got := c.s.enough(1); got != c.want {
			t.Errorf("%s may leave %v: want %v", c.s.name, got, c.want)
		}
	}
}

// TestRoundingsOfTF32: operands of TF32 that fall otherwise are a right device's, however few of them fall so in the
// claim's own arithmetic.
func TestRoundingsOfTF32(t *testing.T) {
	r := rig.FewChannels(t, "tf32", "", 0, 2, "silu")
	r.Config.Policy, r.Size = rollout.Autoregressive, 8
	s := r.Run(func(r *rig.Rig, step int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
		l := &emulate.Legal{
			Machine: emulate.New(r.Op, r.Config), U: emulate.Accumulator(r.Mode), Lambda: 1, Member: uint64(step),
		}
		d.Perturb, d.Sum = l.Disturb, l.Sum
	})
	e := &Gate{r.Exam(s, true)}
	for step := 1; step < s.T; step++ {
		w, err := e.wrongStep(0, step)
		if err != nil {
			t.Fatal(err)
		}
		if w.rms > 4*w.floor {
			t.Errorf("step %d: a right device is %.3g off, and right ones are up to %.3g", step, w.rms, 4*w.floor)
		}
	}
}

// TestFewOthers: one channel that is zero before a dropout is no other mask.
func TestFewOthers(t *testing.T) {
	for _, others := range []bool{false, true} {
		r := rig.NewRig(t, "float32", "dropout", 0.3)
		config := r.Op.Config
		config.BaseChannels, config.Normalization = 20, "none"
		var err error
		if r.Op, err = operator.Init(config, 5); err != nil {
			t.Fatal(err)
		}
		s := r.Run(rig.From(3, func(_ *rig.Rig, _ int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
			channels := len(d.Data[0]) / 3
			for i := range d.Data[0] {
				if c := i % channels; others {
					d.Data[0][i] = float64((c*7+i)%3/2 ^ 1)
				} else if c == 4 {
					d.Data[0][i] = 1 - d.Data[0][i]
				}
			}
		}))
		f := suspected(t, r.Exam(s, true), 3)
		if got := f != nil && f.ID == "noise.other-dropout-masks"; got != others {
			t.Errorf("other masks %v: found %+v", others, f)
		}
	}
}

// TestRolled: a large operator is rolled out for fewer steps.
func TestRolled(t *testing.T) {
	r := rig.NewRig(t, "float32", "", 0)
	for _, c := range []struct{ size, states, want int }{{16, 9, 8}, {16, 101, 32}, {2048, 101, 12}, {2048, 9, 8}} {
		e := &Gate{r.Exam(&rollout.States{M: 1, T: c.states, C: 3, H: c.size, W: c.size}, false)}
		if got := e.rolled(); got != c.want {
			t.Errorf("%d states of %d pixels: %d steps, want %d", c.states, c.size, got, c.want)
		}
	}
}

// TestSilentChannel: a hidden channel that is zero everywhere has any factor. The others' are what they are near to,
// not what the states show of them, in TF32 too, whose right steps are so near.
func TestSilentChannel(t *testing.T) {
	r := rig.NewRig(t, "tf32", "dropout", 0.3)
	config := r.Op.Config
	config.BaseChannels, config.Activation, config.Normalization, config.KernelSize = 16, "relu", "none", 1
	var err error
	if r.Op, err = operator.Init(config, 5); err != nil {
		t.Fatal(err)
	}
	m := emulate.New(r.Op, r.Config)
	for i := range m.Nodes {
		if n := &m.Nodes[i]; n.Op == operator.OpConv && n.Bias != nil {
			n.Bias.Data[3] = -100
			break
		}
	}
	s := r.Run(rig.From(3, func(r *rig.Rig, _ int, d *emulate.Device, dr *emulate.Draws, _ []*tensor.Tensor) {
		d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
			if m.Nodes[i].Op == operator.OpNoise {
				hw := y.H() * y.W()
				for k, v := range in[0].Data {
					y.Data[k] = float64(v * dr.Data[0][k/hw] / 0.3)
				}
			}
		}
	}))
	f := suspected(t, r.Exam(s, true), 3)
	if f == nil || f.ID != "noise.dropout-with-p-and-1-p-swapped" {
		t.Errorf("found %+v", f)
	}
}

// TestFloors: factors of any size, one for each channel, must leave less than what is named; and of a claim whose
// errors are known a name must leave what right devices do.
func TestFloors(t *testing.T) {
	for _, c := range []struct {
		precision string
		s         suspect
		want      float64
	}{{"float32", suspect{masks: true}, 4}, {"float32", suspect{odd: true}, 4},
		{"tf32", suspect{masks: true, odd: true}, 2},
		{"float16", suspect{}, math.Sqrt(2.5)}, {"bfloat16", suspect{masks: true, odd: true}, math.Sqrt(2.5)}} {
		r := rig.NewRig(t, c.precision, "", 0)
		w, err := (&Gate{r.Exam(r.Run(nil), true)}).wrongStep(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.floors(&c.s); got != c.want {
			t.Errorf("%s, %+v may leave %v floors: want %v", c.precision, c.s, got, c.want)
		}
	}
}

// TestNamesExplain: a layer norm whose root is off scales most of the operator's output, as another dt does. What a
// fitted dt leaves of it, the shifts that are not scaled, is more than right devices have: it is not the name.
func TestNamesExplain(t *testing.T) {
	for _, precision := range []string{"float16", "bfloat16"} {
		for bits := range 3 {
			r := rig.NewRig(t, precision, "", 0)
			var err error
			if r.Op, err = operator.Init(operator.Config{InputChannels: 3, Nodes: []operator.NodeConfig{
				{Op: "conv", Name: "c", OutChannels: 8, KernelSize: 3},
				{Op: "norm", Name: "n", Normalization: "layer"},
				{Op: "act", Name: "a", Activation: "relu"},
				{Op: "conv", Name: "out", OutChannels: 3, KernelSize: 3},
			}}, 5); err != nil {
				t.Fatal(err)
			}
			r.Config.Policy, r.Config.Dt = rollout.Residual, 0.05
			nodes := emulate.New(r.Op, r.Config).Nodes
			shift := nodes[1].Bias.Data
			for c := range shift {
				shift[c] = 0.12 * float64(c%3-1)
			}
			ulp := math.Ldexp(map[string]float64{"float16": 0x1p-7, "bfloat16": 0x1p-4}[precision], bits)
			s := r.Run(func(_ *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
				d.Perturb = func(i int, y *tensor.Tensor, _ []*tensor.Tensor) {
					if nodes[i].Op == operator.OpNorm {
						for p := range y.N() * y.C() {
							for k, plane := 0, y.Plane(p/y.C(), p%y.C()); k < len(plane); k++ {
								plane[k] += float64(ulp * (plane[k] - shift[p%y.C()]))
							}
						}
					}
				}
			})
			if f := suspected(t, r.Exam(s, true), 1); f != nil {
				t.Errorf("%s, root off by %.2g: %s", precision, ulp, f.Text)
			}
		}
	}
}
