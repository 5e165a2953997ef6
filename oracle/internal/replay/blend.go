package replay

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// advanced is the next state by another policy.
func (w *wrong) advanced(c rollout.Config) []float64 {
	d := w.claimed.D
	out := tensor.Of(d.Store[len(d.Store)-1], w.claimed.Out.Data, w.X.Shape...)
	return c.Advance(w.X, out, d.State, d.Mode).Data
}

// blendSuspects are right applications of the operator that a wrong policy or
// a wrong post-processing makes a state of.
func (e *Gate) blendSuspects(w *wrong) []suspect {
	var all []suspect
	c := e.Case.Rollout
	add := func(name, what string, step func() ([]float64, error)) {
		all = append(all, suspect{name: name, what: what, verdict: report.FailRollout, gate: "rollout", step: step})
	}
	with := func(c rollout.Config) func() ([]float64, error) {
		return func() ([]float64, error) { return w.advanced(c), nil }
	}
	if c.Policy == rollout.Convex {
		o := c
		o.Alpha = 1 - c.Alpha
		add("rollout.alpha-and-1-alpha-swapped", "alpha and 1 - alpha are swapped", with(o))
		o.Alpha = float64(c.Alpha * c.Alpha)
		add("rollout.policy-applied-twice", "the policy is applied twice to one output", with(o))
		o = c
		o.Policy, o.Dt = rollout.Residual, 1-c.Alpha
		add("rollout.another-policy", "the policy is X + (1 - alpha) O", with(o))
	}
	for _, p := range []rollout.Policy{rollout.Autoregressive, rollout.Residual, rollout.Convex} {
		if p != c.Policy {
			o := c
			o.Policy = p
			add("rollout.another-policy", fmt.Sprintf("the policy is %s", p), with(o))
		}
	}
	if c.Clamp != nil {
		o := c
		o.Clamp = nil
		add("rollout.clamp-missing", "it is not clamped", with(o))
	}
	if c.Normalization != "" {
		o := c
		o.Normalization = ""
		add("rollout.normalization-missing", "it is not normalized", with(o))
		o = c
		o.EngineBatch = 0
		if c.EngineBatch == 0 {
			o.EngineBatch = c.Realizations
		}
		add("rollout.normalization-over-other-realizations", map[bool]string{
			true: "it is normalized over the whole batch", false: "each realization is normalized by itself",
		}[c.EngineBatch == 0], with(o))
	}
	for _, n := range []rollout.Normalization{rollout.MinMax, rollout.ZScore} {
		if n != c.Normalization {
			o := c
			o.Normalization = n
			add("rollout.another-normalization", fmt.Sprintf("it is normalized by %s", n), with(o))
		}
	}
	worst := w.worst()
	if c.Normalization == "" {
		if a, b, ok := fit2(c.Clamp, w.Sample(w.Got, worst), w.Sample(w.X.Data, worst),
			w.Sample(w.claimed.Out.Data, worst)); ok {
			name, what, weak := e.blendName(a, b)
			add(name, what, func() ([]float64, error) { return e.blended(w, a, b), nil })
			all[len(all)-1].weak = weak
		}
	} else if a, ok := fit1(w.Sample(w.Got, worst), w.Sample(w.want, worst)); ok {
		add("rollout.state-scaled", fmt.Sprintf("it is multiplied by %.6g", a),
			func() ([]float64, error) { return measure.Scaled(w.want, a), nil })
		all[len(all)-1].weak = true
	}
	add("rollout.mean-removed-from-the-state", "the mean of each channel is taken out of it", func() ([]float64, error) {
		y := w.Tensor(append([]float64(nil), w.want...))
		for i := range y.N() * y.C() {
			plane := y.Plane(i/y.C(), i%y.C())
			mean := 0.0
			for _, v := range plane {
				mean += v / float64(len(plane))
			}
			for j := range plane {
				plane[j] -= mean
			}
		}
		return y.Data, nil
	})
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range w.Got {
		lo, hi = min(lo, v), max(hi, v)
	}
	clamp := "rollout.clamp-that-was-not-asked-for"
	if e.Case.Rollout.Clamp != nil {
		clamp = "rollout.clamp-at-other-ends"
	}
	add(clamp, fmt.Sprintf("it is clamped to [%.4g,%.4g]", lo, hi), func() ([]float64, error) {
		y := append([]float64(nil), w.want...)
		for i, v := range y {
			y[i] = min(max(v, lo), hi)
		}
		return y, nil
	})
	return all
}

// worst returns the realization that is farthest from the claim's step.
func (w *wrong) worst() int {
	worst, at := -1.0, w.Lo
	for m := w.Lo; m < w.Hi; m++ {
		if d := measure.RMSDiff(w.Sample(w.Got, m), w.Sample(w.want, m)); d > worst {
			worst, at = d, m
		}
	}
	return at
}

// blended is a X + b O with the roundings of a policy, clamped.
func (e *Gate) blended(w *wrong, a, b float64) []float64 {
	d := w.claimed.D
	y := measure.Scaled(w.claimed.Out.Data, b)
	d.Store[len(d.Store)-1].RoundSlice(y, y)
	for i, v := range w.X.Data {
		y[i] += float64(a * v)
		if c := e.Case.Rollout.Clamp; c != nil {
			y[i] = min(max(y[i], c[0]), c[1])
		}
	}
	d.State.RoundSlice(y, y)
	return y
}

// blendName names what the policy makes of X and O, as far as it is known; weak says
// that an effect of the operator may look like that, too.
func (e *Gate) blendName(a, b float64) (name, what string, weak bool) {
	keep, share := e.StateShare(), e.OutputShare()
	near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-4*(math.Abs(x)+math.Abs(y)) }
	what = fmt.Sprintf("the policy is %.6g X + %.6g O", a, b)
	switch {
	case e.Case.Rollout.Policy == rollout.Residual && near(a, 1) && near(b, -share):
		return "rollout.residual-subtracted", what, false
	case e.Case.Rollout.Policy == rollout.Residual && near(a, 1):
		return "rollout.dt-wrong", fmt.Sprintf("dt is %.6g", b), true
	case e.Case.Rollout.Policy == rollout.Convex && near(a+b, 1):
		return "rollout.alpha-wrong", fmt.Sprintf("alpha is %.6g", a), false
	case near(a*share, b*keep) && keep != 0:
		return "rollout.state-scaled", fmt.Sprintf("it is multiplied by %.6g", a/keep), true
	}
	return "rollout.weights-of-the-policy-wrong", what, true
}

// fit1 returns the a for which a x is nearest to y.
func fit1(y, x []float64) (a float64, ok bool) {
	var xy, xx float64
	for i, v := range x {
		xy += float64(v * y[i])
		xx += float64(v * v)
	}
	a = xy / xx
	return a, measure.Finite(a)
}

// fit2 returns the a and b for which a x + b o is nearest to y, where y is
// within a clamp (nil for none).
func fit2(clamp *[2]float64, y, x, o []float64) (a, b float64, ok bool) {
	var xx, xo, oo, xy, oy float64
	for i, v := range x {
		if clamp != nil && !(y[i] > fp16.Float32.Round(clamp[0]) && y[i] < fp16.Float32.Round(clamp[1])) {
			continue
		}
		xx += float64(v * v)
		xo += float64(v * o[i])
		oo += float64(o[i] * o[i])
		xy += float64(v * y[i])
		oy += float64(o[i] * y[i])
	}
	det := float64(xx*oo) - float64(xo*xo)
	a, b = (float64(xy*oo)-float64(oy*xo))/det, (float64(oy*xx)-float64(xy*xo))/det
	return a, b, det > 1e-12*float64(xx*oo) && measure.Finite(a) && measure.Finite(b)
}
