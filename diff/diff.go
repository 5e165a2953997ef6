package diff

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// Diff says how far an array of numbers (got) lies from a reference of the
// same shape (want), with d = got - want element by element.
//
// Special values follow one rule: a NaN equals any NaN and an infinity equals
// itself; such pairs are counted (NonFiniteEqual) and otherwise left out. Any
// other pair with a NaN or an infinity is counted (NonFiniteDiffer) and differs
// by infinity, in every figure. +0 and -0 are equal.
//
// Std is the population standard deviation of the reference, so that figures
// over it compare with the size of what the reference itself does. A ratio to
// zero is 0 if the difference is 0 too, and otherwise infinite.
//
// The figures are sums in float64 in the order of the elements: they do not
// depend on threads or on how the arrays were cut into pieces. Squares and sums
// beyond float64 do no harm; only what is itself beyond it is infinite, such as the
// difference of 1e308 and -1e308.
type Diff struct {
	Count           int `json:"count"`            // elements compared
	NonFiniteEqual  int `json:"nonfinite_equal"`  // pairs of NaNs, pairs of one infinity
	NonFiniteDiffer int `json:"nonfinite_differ"` // pairs of which one is a NaN or infinity the other is not

	MaxAbs  Number `json:"max_abs"`  // greatest |d|
	At      int    `json:"at"`       // index of the first element with MaxAbs, -1 if nothing differs
	MeanAbs Number `json:"mean_abs"` // mean of |d|
	RMS     Number `json:"rms"`      // root of the mean of d^2

	Std        Number `json:"std"`
	MaxOverStd Number `json:"max_over_std"` // MaxAbs/Std
	RMSOverStd Number `json:"rms_over_std"` // RMS/Std

	// The relative error of an element is |d|/max(|want|, RelFloor) with
	// RelFloor = Std/1000: without a floor, one number beside zero would
	// decide the mean.
	RelFloor Number `json:"rel_floor"`
	MaxRel   Number `json:"max_rel"`
	MeanRel  Number `json:"mean_rel"`
	RMSRel   Number `json:"rms_rel"` // RMS over the root mean square of the reference

	// Steps from want to got on the grid of Format, after rounding both to it.
	Format string    `json:"format"`
	MaxUlp Number    `json:"max_ulp"`
	Ulps   Histogram `json:"ulps"`
}

// Compare returns the difference of got from want, with distances in ulps of
// f. It panics if the lengths differ.
func Compare(got, want []float64, f fp16.Format) Diff {
	a := NewAccumulator(f, Std(want))
	a.Add(got, want)
	return a.Diff()
}

// PerStep compares trajectories of shape [M,T,C,H,W] (m realizations, t steps,
// chw = C*H*W numbers each) step by step: element s of the result is over all
// realizations at step s, with Std of that step, and its At counts through
// [M,C,H,W]. It panics if a length is not m*t*chw.
func PerStep(got, want []float64, m, t, chw int, f fp16.Format) []Diff {
	if len(got) != m*t*chw || len(want) != m*t*chw {
		panic("diff: trajectory length does not match its shape")
	}
	steps := make([]Diff, t)
	for s := range steps {
		state := func(x []float64, i int) []float64 { return x[(i*t+s)*chw : (i*t+s+1)*chw] }
		parts := make([][]float64, m)
		for i := range parts {
			parts[i] = state(want, i)
		}
		a := NewAccumulator(f, Std(parts...))
		for i, part := range parts {
			a.Add(state(got, i), part)
		}
		steps[s] = a.Diff()
	}
	return steps
}

// Accumulator forms one [Diff] over arrays that come in pieces, such as the
// states of a rollout.
type Accumulator struct {
	d       Diff
	ulps    UlpScale
	abs     total   // of |d|
	rel     float64 // sum of relative errors
	sq, ref squares // of d, of want
	place   int     // At, as AddAt counts
	placed  bool
}

// NewAccumulator returns an empty accumulator, with distances in ulps of f.
// std is the standard deviation of the whole reference ([Std]), which the
// relative errors need from the start.
func NewAccumulator(f fp16.Format, std float64) *Accumulator {
	return &Accumulator{
		d:    Diff{At: -1, Std: Number(std), RelFloor: Number(std / 1000), Format: f.String()},
		ulps: NewUlpScale(f),
	}
}

// Add compares the next piece. It panics if the lengths differ.
func (a *Accumulator) Add(got, want []float64) {
	if len(got) != len(want) {
		panic("diff: got and want differ in length")
	}
	d := &a.d
	for i, w := range want {
		g := got[i]
		abs, rel, steps := 0.0, 0.0, 0.0
		switch {
		case !finite(g) || !finite(w):
			if g == w || g != g && w != w {
				d.NonFiniteEqual++
				continue
			}
			d.NonFiniteDiffer++
			abs, rel, steps = math.Inf(1), math.Inf(1), math.Inf(1)
		case g != w:
			abs = math.Abs(g - w)
			rel = ratio(abs, max(math.Abs(w), float64(d.RelFloor)))
			steps = a.ulps.Steps(g, w)
		}
		if abs > float64(d.MaxAbs) {
			d.MaxAbs, d.At = Number(abs), d.Count+i
		}
		a.abs.add(abs)
		a.sq.add(abs)
		a.rel += rel
		if finite(w) {
			a.ref.add(w)
		}
		d.MaxRel = max(d.MaxRel, Number(rel))
		d.MaxUlp = max(d.MaxUlp, Number(steps))
		d.Ulps.Add(steps)
	}
	d.Count += len(want)
}

// AddAt is Add for a piece that begins at index at of a larger array: if it
// holds the greatest difference so far, At becomes the place there.
func (a *Accumulator) AddAt(at int, got, want []float64) {
	place, before := a.place, a.d.Count
	a.Add(got, want)
	if a.d.At >= before {
		place = at + a.d.At - before
	}
	a.place, a.placed = place, true
}

// Diff returns the figures over what was added so far.
func (a *Accumulator) Diff() Diff {
	d := a.d
	if a.placed && d.At >= 0 {
		d.At = a.place
	}
	n := float64(d.Count - d.NonFiniteEqual)
	if n == 0 {
		return d
	}
	// A mean is no greater than the greatest, but for its rounding.
	rms := min(a.sq.rms(n), float64(d.MaxAbs))
	d.MeanAbs, d.MeanRel, d.RMS = min(Number(a.abs.mean(n)), d.MaxAbs), Number(a.rel/n), Number(rms)
	d.MaxOverStd = Number(ratio(float64(d.MaxAbs), float64(d.Std)))
	d.RMSOverStd = Number(ratio(rms, float64(d.Std)))
	d.RMSRel = Number(ratio(rms, a.ref.rms(n)))
	return d
}
