package oracle

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestStructure breaks the states of a right device in one way each.
func TestStructure(t *testing.T) {
	r := newRig(t, "float32", "gaussian", 0.05)
	right := r.run(nil)
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
		{"one realization stands still", func(s *rollout.States) { copy(s.At(2, 5), s.At(2, 4)) }, report.FailRollout, "realization stands still", 5},
		{"stored late", func(s *rollout.States) {
			for m := range s.M {
				for u := s.T - 1; u >= 3; u-- {
					copy(s.At(m, u), s.At(m, u-1))
				}
			}
		}, report.FailRollout, "states stored one step late", 3},
		{"copied realization", func(s *rollout.States) { copy(s.At(2, 6), s.At(0, 6)) }, report.FailRollout, "realizations share a state", 6},
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
		e := r.exam(&s, true)
		want(t, c.name, do(t, e, readMasks, checkStructure), c.verdict, c.diagnosis, c.step)
	}
}

// TestRightRepeats holds devices that repeat states by right: realizations
// without noise from one start, and an operator at its fixed point.
func TestRightRepeats(t *testing.T) {
	r := newRig(t, "float32", "", 0)
	s := r.run(nil)
	for m := 1; m < s.M; m++ {
		for u := range s.T {
			copy(s.At(m, u), s.At(0, u))
		}
	}
	e := r.exam(s, true)
	want(t, "one start, no noise", do(t, e, readMasks, checkStructure), "", "", 0)

	noisy := newRig(t, "float32", "gaussian", 0.05)
	for _, known := range []bool{true, false} {
		e = noisy.exam(s, known)
		want(t, "one start, and noise", do(t, e, readMasks, checkStructure), report.FailRNG, "the same noise for all realizations", 1)
	}

	// Masks that drop nothing are the same, and so is what a device of any
	// precision makes of one state with them.
	r = newRig(t, "tf32", "dropout", 1e-6)
	s = r.run(nil)
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
	e = r.exam(s, true)
	want(t, "one start, one mask", do(t, e, looking(func(g *gate) error { return (&structureGate{g}).repeats() })), "", "", 0)

	r = newRig(t, "float32", "", 0)
	for _, p := range r.op.Params() {
		for i := range p.Data {
			p.Data[i] = 0
		}
	}
	r.c.Alpha = 0
	s = r.run(nil)
	e = r.exam(s, true)
	want(t, "fixed point", do(t, e, readMasks, checkStructure), "", "", 0)
	if len(e.r.Findings) != 1 || e.r.Findings[0].Verdict != report.NoPower || !strings.Contains(e.r.Findings[0].Text, "constant") {
		t.Errorf("states of zeros: findings %+v: want one that says that constants show nothing", e.r.Findings)
	}
}

// TestOverflow holds a device whose NaNs the claim has, too.
func TestOverflow(t *testing.T) {
	r := newRig(t, "float16", "", 0)
	huge := *r.op.Params()[0]
	for i := range huge.Data {
		huge.Data[i] *= 1e5
	}
	s := r.run(nil)
	if firstPoison(s.At(0, 1)) < 0 {
		t.Fatal("the operator does not overflow")
	}
	e := r.exam(s, true)
	want(t, "overflow", do(t, e, looking(func(g *gate) error { return (&structureGate{g}).poison() })), "", "", 0)
	if len(e.r.Notes) != 1 {
		t.Errorf("notes %q: want one", e.r.Notes)
	}
}

// TestPower holds evidence that can and cannot show a fault.
func TestPower(t *testing.T) {
	r := newRig(t, "float32", "", 0)
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
		r.c.Timesteps, r.c.Clamp = c.steps, nil
		if c.clamp != nil {
			r.c.Clamp = &[2]float64{c.clamp[0], c.clamp[1]}
		}
		e := r.exam(r.run(nil), true)
		want(t, name, do(t, e, readMasks, checkStructure), "", "", 0)
		if got := len(e.r.Findings) == 0; got != c.power {
			t.Errorf("%s: findings %+v: want power %v", name, e.r.Findings, c.power)
		}
	}
}

// TestStart holds the recorded cases, whose states 0 are their initial
// conditions, and the same with other states 0.
func TestStart(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/rollouts/*")
	if err != nil || len(dirs) < 7 {
		t.Fatal(len(dirs), err)
	}
	for _, dir := range dirs {
		c := openCase(t, filepath.Base(dir))
		mode, err := operator.ParseMode(c.Rollout.Precision, "")
		if err != nil {
			t.Fatal(err)
		}
		if mode.Precision == fp16.BFloat16 {
			if mode, err = operator.ParseMode(c.Rollout.Precision, "cpu"); err != nil {
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
			e := &evidence{ctx: t.Context(), c: c, op: op, states: s, machine: emulate.New(op, c.Rollout), mode: mode}
			if e.stream, err = c.OpenStream("", op, mode); err != nil {
				t.Fatal(err)
			}
			want(t, dir+", "+name, do(t, newGate(e, &facts{r: open(e)}), looking(func(g *gate) error { return (&structureGate{g}).start() })), verdict, diagnosis, 0)
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
		check("in bfloat16", func(s *rollout.States) { fp16.BFloat16.RoundSlice(s.At(0, 0), s.At(0, 0)) }, report.FailPrecision, "state kept in bfloat16")
	}
}

// TestStartZeros: zeros, normalized, are a right state 0.
func TestStartZeros(t *testing.T) {
	c := &rollout.Case{Rollout: rollout.Config{Normalization: rollout.MinMax}}
	x := tensor.New(fp16.Float64, 1, 1, 4, 4)
	e := newGate(&evidence{c: c, states: &rollout.States{M: 1, T: 2, C: 1, H: 4, W: 4, Data: make([]float64, 32)}}, &facts{r: &report.Report{}})
	want(t, "zeros", do(t, e, looking(func(g *gate) error { return (&structureGate{g}).startOf(0, x, make([]float64, 16)) })), "", "", 0)
}

// TestStartCoarse: a normalized start that a device computes in float32 and stores in
// float16 may be the other neighbour of a number that lies between two.
func TestStartCoarse(t *testing.T) {
	r := newRig(t, "float32", "gaussian", 0.05)
	r.c.Normalization = rollout.ZScore
	s := r.run(nil)
	s.Format = fp16.Float16
	fp16.Float16.RoundSlice(s.At(0, 0), s.At(0, 0))
	exact := append([]float64(nil), s.At(0, 0)...)
	exact[3] = 0.5 + 0x1p-12 - 0x1p-30 // just below the tie of 0.5 and 0.5+2^-11
	for _, v := range []struct {
		stored  float64
		verdict report.Verdict
	}{{0.5, ""}, {0.5 + 0x1p-11, ""}, {0.5 + 0x1p-10, report.FailRollout}, {0.5 - 0x1p-12, report.FailRollout}} {
		s.At(0, 0)[3] = v.stored
		e := r.exam(s, true)
		given := tensor.Of(fp16.Float32, exact, 1, s.C, s.H, s.W)
		f := do(t, e, looking(func(g *gate) error { return (&structureGate{g}).startOf(0, given, exact) }))
		want(t, fmt.Sprint("stored as ", v.stored), f, v.verdict, "", 0)
	}
}

// TestRepeated: whether most numbers are the same.
func TestRepeated(t *testing.T) {
	for _, s := range []struct {
		x    []float64
		want bool
	}{{[]float64{0, 0, 0}, true}, {[]float64{1, 0, 2, 0, 0}, true}, {[]float64{0, 1, 0, 2, 0, 3, 4}, false}, {[]float64{1, 2, 3}, false}, {[]float64{5, 1, 2, 5, 5, 3, 5}, true}} {
		if got := repeated(s.x); got != s.want {
			t.Errorf("%v: %v, want %v", s.x, got, s.want)
		}
	}
}
