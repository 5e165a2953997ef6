package oracle

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// checkStructure is gate 0: whether the states are what a rollout stores at all,
// before anybody asks how exact they are. What looks wrong is held against a
// step of the claim before it is called so: an operator may overflow, stand
// still, or give few numbers by right.
func checkStructure(ev *evidence, f *facts) ([]report.Finding, error) {
	e := &structureGate{newGate(ev, f)}
	for _, look := range []func() error{e.poison, e.start, e.repeats, e.grid, e.flat} {
		if err := look(); err != nil {
			return nil, err
		}
	}
	return e.found, nil
}

// structureGate is that gate at work.
type structureGate struct{ *gate }

// claimAt returns the device that computes step t as the claim says.
func (e *evidence) claimAt(t int) (*emulate.Device, error) {
	mode := e.mode
	store, err := e.machine.Formats(mode, mode.Wide())
	if err == nil && t > 1 { // the start is of the widest format, an autoregressive state of the output's
		store, err = e.machine.Formats(mode, e.c.Rollout.StateFormat(store[len(store)-1]))
	}
	if err != nil {
		return nil, err
	}
	return &emulate.Device{Mode: mode, Store: store, State: e.c.Rollout.StateFormat(store[len(store)-1])}, nil
}

// emulated returns the states after b as the claim computes them. Where the
// noise is unknown it takes some noise of the right distribution: what it
// returns then has the right size and kind.
func (e *evidence) emulated(b *batchStep) (*tensor.Tensor, error) {
	d, err := e.claimAt(b.Step)
	if err != nil {
		return nil, err
	}
	draws := b.Draws.Rewind()
	if e.stream == nil {
		if draws, err = someNoise(0, b.Lo, b.Hi, b.Step); err != nil {
			return nil, err
		}
	}
	return e.machine.Step(d, b.X, draws)
}

// predict returns the step into state t of m's engine batch, and what the
// claim makes of it.
func (e *evidence) predict(m, t int) (*batchStep, *tensor.Tensor, error) {
	k, lo, hi := batchOf(e.c.Rollout, m)
	b, err := e.step(k, lo, hi, t)
	if err != nil {
		return nil, nil, err
	}
	y, err := e.emulated(b)
	return b, y, err
}

// someNoise returns draws of a stream that no device has, for simulations.
func someNoise(run, lo, hi, t int) (noise.Draws, error) {
	return noise.Counter{Seed: 0x5eed0f0ac1e, Operator: uint32(run)}.At(t, lo, hi)
}

// sample returns the states of realization m in a tensor or slice of its
// engine batch.
func (b *batchStep) sample(data []float64, m int) []float64 {
	n := len(data) / (b.Hi - b.Lo)
	return data[(m-b.Lo)*n : (m-b.Lo+1)*n]
}

// fits reports whether a state lies as near to the step of the claim as the
// claim's own roundings allow, up to the errors of sums that it leaves open: 16
// times the distance of the emulation from the exact step.
func (e *evidence) fits(m, t int) (bool, error) {
	b, y, err := e.predict(m, t)
	if err != nil {
		return false, err
	}
	truth, err := e.machine.Step(&emulate.Device{Mode: e.mode}, b.X, b.Draws.Rewind())
	if err != nil {
		return false, err
	}
	want, exact := b.sample(y.Data, m), b.sample(truth.Data, m)
	return rmsDiff(e.states.At(m, t), want) <= 16*rmsDiff(exact, want)+0x1p-20*rmsOf(exact), nil
}

// poison looks for numbers that are none.
func (e *structureGate) poison() error {
	s := e.states
	for t := range s.T {
		for m := range s.M {
			at := firstPoison(s.At(m, t))
			if at < 0 {
				continue
			}
			f := report.Finding{Verdict: report.FailLogic, Gate: "structure", Step: t, Realization: m, Slice: place(at, s.H, s.W), Excess: diff.Number(math.Inf(1))}
			what := fmt.Sprintf("state %d of realization %d holds %v at %s", t, m, s.At(m, t)[at], f.Slice)
			if allPoison(s.At(m, t)) {
				what = fmt.Sprintf("state %d of realization %d is NaN throughout", t, m)
			}
			f.Text = what + ", where the claim gives finite numbers"
			if t > 0 {
				b, y, err := e.predict(m, t)
				if err != nil {
					return err
				}
				if firstPoison(b.sample(y.Data, m)) >= 0 {
					e.r.Notes = append(e.r.Notes, what+", as the claimed arithmetic gives: it overflows; such numbers show nothing")
					return nil
				}
			} else {
				f.Text = what
			}
			e.find(f)
			return nil
		}
	}
	return nil
}

func firstPoison(x []float64) int {
	for i, v := range x {
		if !finite(v) {
			return i
		}
	}
	return -1
}

func allPoison(x []float64) bool {
	for _, v := range x {
		if v == v {
			return false
		}
	}
	return true
}

// place names an element of a state.
func place(i, h, w int) string {
	return fmt.Sprintf("[%d,%d,%d]", i/(h*w), i/w%h, i%w)
}

// flat looks for evidence that cannot show a fault: constant fields, numbers
// that a clamp or a zero has replaced, too few numbers.
func (e *structureGate) flat() error {
	if probes, err := readProbes(e.c); err != nil || probes != nil {
		return err // they are what they are on purpose
	}
	s := e.states
	n, zeros, clamped, constant := 0, 0, 0, 0
	for m := range s.M {
		for t := 1; t < s.T; t++ {
			x := s.At(m, t)
			varies := false
			for _, v := range x {
				if v == 0 {
					zeros++
				} else if c := e.c.Rollout.Clamp; c != nil && (v <= fp16.Float32.Round(c[0]) || v >= fp16.Float32.Round(c[1])) {
					clamped++
				}
				varies = varies || v != x[0]
			}
			if !varies {
				constant++
			}
			n += len(x)
		}
	}
	blind := func(text string) {
		e.find(report.Finding{Verdict: report.NoPower, Gate: "structure", Step: -1, Realization: -1, Excess: 1, Text: text})
	}
	live := n - zeros - clamped
	const enough = 1 << 12 // for statistics
	switch {
	case constant == s.M*(s.T-1):
		blind("every state is one constant: nothing of the operator shows in it")
	case n < enough:
		blind(fmt.Sprintf("%d numbers of steps: statistics want %d or more", n, enough))
	case 10*zeros > 3*n && e.c.Rollout.Clamp == nil || live < fewestNumbers || 20*live < n: // what few numbers can show the steps say
		ends := ""
		if e.c.Rollout.Clamp != nil {
			ends = fmt.Sprintf(" and %.0f %% lie at the clamp's ends", 100*float64(clamped)/float64(n))
		}
		blind(fmt.Sprintf("%.0f %% of the states' numbers are zeros%s: such numbers show nothing, and %d are left", 100*float64(zeros)/float64(n), ends, live))
	case 2*live < n:
		e.r.Notes = append(e.r.Notes, fmt.Sprintf("%.0f %% of the states' numbers lie at the clamp's ends or are zero, and show nothing", 100*float64(n-live)/float64(n)))
	}
	return nil
}

func rmsOf(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v * v)
	}
	return math.Sqrt(ratio(sum, float64(len(x))))
}

// rmsDiff returns the root mean square of a-b; infinite if it is not a number.
func rmsDiff(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		d := v - b[i]
		sum += float64(d * d)
	}
	if r := math.Sqrt(ratio(sum, float64(len(a)))); finite(r) {
		return r
	}
	return math.Inf(1)
}
