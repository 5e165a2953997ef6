package structure

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/noisestat"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestFlat: of a clamped field the numbers that vary count, not the share that
// does not.
func TestFlat(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", .1)
	r.Config.Clamp = &[2]float64{-1, 1}
	s := &rollout.States{M: 3, T: 9, C: 3, H: 16, W: 16, Format: fp16.Float32}
	for _, k := range []struct {
		every int // number that is not clamped
		want  bool
	}{{8, false}, {19, true}} {
		s.Data = make([]float64, s.M*s.T*s.CHW())
		for i := range s.Data {
			if s.Data[i] = 1; i%k.every == 0 {
				s.Data[i] = 0.5 / float64(i+1)
			}
		}
		e := r.Exam(s, true)
		if err := (&Gate{e}).flat(); err != nil || (len(e.Found) > 0) != k.want {
			t.Errorf("one number of %d varies: %v, %v: want a finding: %v", k.every, e.Found, err, k.want)
		}
	}
}

// TestStructure breaks the states of a right device in one way each.
func TestStructure(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", 0.05)
	right := r.Run(nil)
	for _, c := range []struct {
		name      string
		breaks    func(s *rollout.States)
		verdict   report.Verdict
		diagnosis string
		step      int
	}{
		{"right", func(*rollout.States) {}, "", "", 0},
		{"one NaN", func(s *rollout.States) { s.At(1, 4)[17] = math.NaN() }, report.FailLogic, "", 4},
		{"one infinity", func(s *rollout.States) { s.At(1, 4)[17] = math.Inf(1) }, report.FailLogic, "", 4},
		{"one buffer", func(s *rollout.States) {
			for m := range s.M {
				for u := 3; u < s.T; u++ {
					copy(s.At(m, u), s.At(m, s.T-1))
				}
			}
		}, report.FailRollout, "stored states share one buffer", 3},
		{"one realization stands still", func(s *rollout.States) { copy(s.At(2, 5), s.At(2, 4)) }, report.FailRollout,
			"realization stands still", 5},
		{"stored late", func(s *rollout.States) {
			for m := range s.M {
				for u := s.T - 1; u >= 3; u-- {
					copy(s.At(m, u), s.At(m, u-1))
				}
			}
		}, report.FailRollout, "states stored one step late", 3},
		{"copied realization", func(s *rollout.States) { copy(s.At(2, 6), s.At(0, 6)) }, report.FailRollout,
			"realizations share a state", 6},
		{"old state", func(s *rollout.States) { copy(s.At(1, 7), s.At(1, 2)) }, report.FailRollout, "state stored twice", 7},
		{"float16", func(s *rollout.States) {
			for u := 4; u < s.T; u++ {
				fp16.Float16.RoundSlice(s.At(1, u), s.At(1, u))
			}
		}, report.FailPrecision, "state kept in float16", 4},
		{"8 bits", func(s *rollout.States) {
			for i, v := range s.At(0, 2) {
				s.At(0, 2)[i] = fp16.Float32.Round(math.Round(v*32) / 31)
			}
		}, report.FailPrecision, "state quantized", 2},
	} {
		s := *right
		s.Data = append([]float64(nil), right.Data...)
		c.breaks(&s)
		e := r.Exam(&s, true)
		rig.Want(t, c.name, rig.Do(t, e, noisestat.ReadMasks, Check), c.verdict, c.diagnosis, c.step)
	}
}

// TestRightRepeats holds devices that repeat states by right: realizations
// without noise from one start, and an operator at its fixed point.
func TestRightRepeats(t *testing.T) {
	r := rig.NewRig(t, "float32", "", 0)
	s := r.Run(nil)
	for m := 1; m < s.M; m++ {
		for u := range s.T {
			copy(s.At(m, u), s.At(0, u))
		}
	}
	e := r.Exam(s, true)
	rig.Want(t, "one start, no noise", rig.Do(t, e, noisestat.ReadMasks, Check), "", "", 0)

	noisy := rig.NewRig(t, "float32", "gaussian", 0.05)
	for _, known := range []bool{true, false} {
		e = noisy.Exam(s, known)
		rig.Want(t, "one start, and noise", rig.Do(t, e, noisestat.ReadMasks, Check), report.FailRNG,
			"the same noise for all realizations", 1)
	}

	// Masks that drop nothing are the same, and so is what a device of any
	// precision makes of one state with them.
	r = rig.NewRig(t, "tf32", "dropout", 1e-6)
	s = r.Run(nil)
	for u := 1; u < s.T; u++ {
		for k := range s.At(0, u) {
			s.At(0, u)[k] *= 1.01
		}
	}
	for m := 1; m < s.M; m++ {
		for u := range s.T {
			copy(s.At(m, u), s.At(0, u))
		}
	}
	e = r.Exam(s, true)
	rig.Want(t, "one start, one mask",
		rig.Do(t, e, rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).repeats() })), "", "", 0)

	r = rig.NewRig(t, "float32", "", 0)
	for _, p := range r.Op.Params() {
		for i := range p.Data {
			p.Data[i] = 0
		}
	}
	r.Config.Alpha = 0
	s = r.Run(nil)
	e = r.Exam(s, true)
	rig.Want(t, "fixed point", rig.Do(t, e, noisestat.ReadMasks, Check), "", "", 0)
	if len(e.Report.Findings) != 1 || e.Report.Findings[0].Verdict != report.NoPower ||
		!strings.Contains(e.Report.Findings[0].Text, "constant") {
		t.Errorf("states of zeros: findings %+v: want one that says that constants show nothing", e.Report.Findings)
	}
}

// TestOverflow holds a device whose NaNs the claim has, too.
func TestOverflow(t *testing.T) {
	r := rig.NewRig(t, "float16", "", 0)
	huge := *r.Op.Params()[0]
	for i := range huge.Data {
		huge.Data[i] *= 1e5
	}
	s := r.Run(nil)
	if evidence.FirstPoison(s.At(0, 1)) < 0 {
		t.Fatal("the operator does not overflow")
	}
	e := r.Exam(s, true)
	rig.Want(t, "overflow", rig.Do(t, e, rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).poison() })), "", "", 0)
	if len(e.Report.Notes) != 1 {
		t.Errorf("notes %q: want one", e.Report.Notes)
	}
}

// TestPower holds evidence that can and cannot show a fault.
func TestPower(t *testing.T) {
	r := rig.NewRig(t, "float32", "", 0)
	for name, c := range map[string]struct {
		clamp []float64
		steps int
		power bool
	}{
		"as it is":        {nil, 9, true},
		"clamped, a bit":  {[]float64{-1, 1}, 9, true},
		"clamped to bits": {[]float64{-0.01, 0.01}, 9, false},
		"one step":        {nil, 2, false},
	} {
		r.Config.Timesteps, r.Config.Clamp = c.steps, nil
		if c.clamp != nil {
			r.Config.Clamp = &[2]float64{c.clamp[0], c.clamp[1]}
		}
		e := r.Exam(r.Run(nil), true)
		rig.Want(t, name, rig.Do(t, e, noisestat.ReadMasks, Check), "", "", 0)
		if got := len(e.Report.Findings) == 0; got != c.power {
			t.Errorf("%s: findings %+v: want power %v", name, e.Report.Findings, c.power)
		}
	}
}

// TestStart holds the recorded cases, whose states 0 are their initial
// conditions, and the same with other states 0.
func TestStart(t *testing.T) {
	dirs, err := filepath.Glob(rig.Testdata("rollouts", "*"))
	if err != nil || len(dirs) < 7 {
		t.Fatal(len(dirs), err)
	}
	for _, dir := range dirs {
		c := rig.OpenCase(t, filepath.Base(dir))
		mode, err := graph.ParseMode(c.Rollout.Precision, "")
		if err != nil {
			t.Fatal(err)
		}
		if mode.Precision == fp16.BFloat16 {
			if mode, err = graph.ParseMode(c.Rollout.Precision, "cpu"); err != nil {
				t.Fatal(err)
			}
		}
		check := func(name string, breaks func(s *rollout.States), verdict report.Verdict, diagnosis string) {
			op, err := c.NewOperator()
			if err != nil {
				t.Fatal(err)
			}
			file, err := c.ReadTrajectory()
			if err != nil {
				t.Fatal(err)
			}
			s := &rollout.States{M: file.M, T: file.T, C: file.C, H: file.H, W: file.W, Format: file.Format}
			for m := range s.M {
				for u := range s.T {
					s.Data = append(s.Data, file.At(m, u)...)
				}
			}
			breaks(s)
			e := &evidence.Evidence{
				Ctx: t.Context(), Case: c, Op: op, States: s, Machine: emulate.New(op, c.Rollout), Mode: mode,
			}
			if e.Stream, err = c.OpenStream("", op, mode); err != nil {
				t.Fatal(err)
			}
			rig.Want(t, dir+", "+name, rig.Do(t, facts.Begin(e, &facts.Facts{Report: facts.Open(e)}),
				rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).start() })), verdict, diagnosis, 0)
		}
		check("as recorded", func(*rollout.States) {}, "", "")
		check("another start", func(s *rollout.States) { s.At(0, 0)[5] += 0.01 }, report.FailRollout, "")
		check("shifted", func(s *rollout.States) {
			for m := range s.M {
				for u := range s.T - 1 {
					copy(s.At(m, u), s.At(m, u+1))
				}
			}
		}, report.FailRollout, "states stored one step early")
		check("in bfloat16", func(s *rollout.States) { fp16.BFloat16.RoundSlice(s.At(0, 0), s.At(0, 0)) },
			report.FailPrecision, "state kept in bfloat16")
	}
}

// TestStartZeros: zeros, normalized, are a right state 0.
func TestStartZeros(t *testing.T) {
	c := &rollout.Case{Rollout: rollout.Config{Normalization: rollout.MinMax}}
	x := tensor.New(fp16.Float64, 1, 1, 4, 4)
	e := facts.Begin(&evidence.Evidence{
		Case: c, States: &rollout.States{M: 1, T: 2, C: 1, H: 4, W: 4, Data: make([]float64, 32)},
	}, &facts.Facts{Report: &report.Report{}})
	rig.Want(t, "zeros", rig.Do(t, e,
		rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).StartOf(0, x, make([]float64, 16)) })), "", "", 0)
}

// TestStartCoarse: a normalized start that a device computes in float32 and stores in
// float16 may be the other neighbour of a number that lies between two.
func TestStartCoarse(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", 0.05)
	r.Config.Normalization = rollout.ZScore
	s := r.Run(nil)
	s.Format = fp16.Float16
	fp16.Float16.RoundSlice(s.At(0, 0), s.At(0, 0))
	exact := append([]float64(nil), s.At(0, 0)...)
	exact[3] = 0.5 + 0x1p-12 - 0x1p-30 // just below the tie of 0.5 and 0.5+2^-11
	for _, v := range []struct {
		stored  float64
		verdict report.Verdict
	}{{0.5, ""}, {0.5 + 0x1p-11, ""}, {0.5 + 0x1p-10, report.FailRollout}, {0.5 - 0x1p-12, report.FailRollout}} {
		s.At(0, 0)[3] = v.stored
		e := r.Exam(s, true)
		given := tensor.Of(fp16.Float32, exact, 1, s.C, s.H, s.W)
		f := rig.Do(t, e, rig.Looking(func(g *facts.Gate) error { return (&Gate{g}).StartOf(0, given, exact) }))
		rig.Want(t, fmt.Sprint("stored as ", v.stored), f, v.verdict, "", 0)
	}
}

// TestStartHalf: half numbers may be normalized by operations on half numbers, each of which rounds; what is farther
// off is another start, and so is that in float32.
func TestStartHalf(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", 0.05)
	r.Config.Normalization = rollout.ZScore
	s := r.Run(nil)
	given := append([]float64(nil), s.At(0, 0)...)
	fp16.BFloat16.RoundSlice(given, given)
	mean, variance := measure.Moments(given)
	deviation := math.Sqrt(variance * float64(len(given)) / float64(len(given)-1))
	round := fp16.BFloat16.Round
	want := make([]float64, len(given))
	for i, v := range given {
		want[i] = (v - mean) / deviation
	}
	for _, k := range []struct {
		format    fp16.Format
		off       float64
		verdict   report.Verdict
		diagnosis string
	}{
		{fp16.BFloat16, 0, "", ""},
		{fp16.BFloat16, .2, report.FailRollout, ""},
		{fp16.Float32, 0, report.FailPrecision, "state kept in bfloat16"},
	} {
		s.Format = k.format
		for i, v := range given {
			s.At(0, 0)[i] = round(round(v-round(mean))/round(deviation) + k.off)
		}
		e := r.Exam(s, true)
		f := rig.Do(t, e, rig.Looking(func(g *facts.Gate) error {
			return (&Gate{g}).StartOf(0, tensor.Of(k.format, given, 1, s.C, s.H, s.W), want)
		}))
		rig.Want(t, fmt.Sprintf("%v, %v off", k.format, k.off), f, k.verdict, k.diagnosis, 0)
	}
}

// TestRepeated: whether most numbers are the same.
func TestRepeated(t *testing.T) {
	for _, s := range []struct {
		x    []float64
		want bool
	}{
		{[]float64{0, 0, 0}, true},
		{[]float64{1, 0, 2, 0, 0}, true},
		{[]float64{0, 1, 0, 2, 0, 3, 4}, false},
		{[]float64{1, 2, 3}, false},
		{[]float64{5, 1, 2, 5, 5, 3, 5}, true},
	} {
		if got := repeated(s.x); got != s.want {
			t.Errorf("%v: %v, want %v", s.x, got, s.want)
		}
	}
}
