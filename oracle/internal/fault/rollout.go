package fault

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// blended returns a x + b out, rounded as the view's device rounds a policy, and
// post-processed as c says.
func blended(v *trial.View, c rollout.Config, a, b float64, x, out *tensor.Tensor) *tensor.Tensor {
	of, _ := v.Formats()
	return v.Machine.Blended(v.Device, c, a, b, x, out, of)
}

// weightsOf returns what the policy multiplies state and output with.
func weightsOf(v *trial.View) (a, b float64) {
	c, m := v.Machine.Config, v.Device.Mode
	switch c.Policy {
	case rollout.Convex:
		return m.Scalar(c.Alpha, fp16.Float32), m.Scalar(1-c.Alpha, fp16.Float32)
	case rollout.Residual:
		return 1, m.Scalar(c.Dt, fp16.Float32)
	}
	return 0, 1
}

// rolloutFaults are those of what follows the operator. The order is that of the library.
func rolloutFaults() []*trial.Fault {
	return slices.Concat(shareFaults(), policyFaults(), postFaults())
}

// advance makes the next states from the operator's output, where a policy multiplies the
// state with a and the output with b.
type advance func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor

// adding returns what adds a fault of one policy, or of any if only is "", to a list.
func adding(l *[]*trial.Fault) func(row *table.Row, only rollout.Policy, f advance) *trial.Fault {
	return func(row *table.Row, only rollout.Policy, f advance) *trial.Fault {
		h := &trial.Fault{Row: row, Advance: func(v *trial.View, out *tensor.Tensor) *tensor.Tensor {
			if only != "" && v.Machine.Config.Policy != only {
				return nil
			}
			a, b := weightsOf(v)
			return f(v, v.Machine.Config, a, b, out)
		}}
		*l = append(*l, h)
		return h
	}
}

// shareFaults are those of any amplitude: other weights of the policy.
func shareFaults() (l []*trial.Fault) {
	policy := adding(&l)
	h := policy(Named("rollout.alpha-wrong"), rollout.Convex,
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			return blended(v, c, a+float64(0.125*v.Scale()), b-float64(0.125*v.Scale()), v.X, out)
		})
	h.Called = func(v *trial.View, k float64) string {
		a, _ := weightsOf(v)
		switch to := a + k/8; {
		case math.Abs(to-(1-a)) < 0.01 && a != 0.5:
			return "alpha and 1-alpha swapped"
		case math.Abs(to) < 0.002:
			return "autoregressive policy in place of convex"
		case math.Abs(to-1) < 0.002:
			return "step not made"
		default:
			return fmt.Sprintf("alpha %.4g in place of %.4g", to, a)
		}
	}
	h = policy(Named("rollout.dt-wrong"), rollout.Residual,
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			return blended(v, c, a, b*(1+v.Scale()), v.X, out)
		})
	h.Called = func(v *trial.View, k float64) string {
		_, b := weightsOf(v)
		switch {
		case math.Abs(k+1) < 0.002:
			return "step not made"
		case math.Abs(k+2) < 0.01:
			return "residual subtracted"
		}
		return fmt.Sprintf("dt %.4g in place of %.4g", b*(1+k), b)
	}
	return append(l, oneShareFaults()...)
}

// oneShareFaults are those of one share alone.
func oneShareFaults() (l []*trial.Fault) {
	policy := adding(&l)
	h := policy(Named("rollout.operator-share-wrong"), rollout.Convex,
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			return blended(v, c, a, b+float64(0.125*v.Scale()), v.X, out)
		})
	h.Called = func(v *trial.View, k float64) string {
		a, b := weightsOf(v)
		if math.Abs(b+k/8-1) < 0.002 {
			return "operator's output added whole"
		}
		return fmt.Sprintf("weights %.4g and %.4g, which do not add up to 1", a, b+k/8)
	}
	h = policy(Named("rollout.state-share-wrong"), "",
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			return blended(v, c, a+float64(0.125*v.Scale()), b, v.X, out)
		})
	h.Called = func(v *trial.View, k float64) string {
		a, b := weightsOf(v)
		if v.Machine.Config.Policy == rollout.Convex && math.Abs(a+k/8-1) < 0.002 {
			return "residual policy in place of convex"
		}
		return fmt.Sprintf("weights %.4g and %.4g of state and output", a+k/8, b)
	}
	h = policy(Named("rollout.state-leaks"), "",
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			y := v.Machine.Advance(v.Device, v.X, out)
			for i := range y.Data {
				y.Data[i] *= 1 + float64(0.125*v.Scale())
			}
			return y
		})
	h.Called = func(_ *trial.View, k float64) string { return fmt.Sprintf("state times %.5g", 1+k/8) }
	return l
}

// policyFaults are another policy, or one with other states or in another format.
func policyFaults() (l []*trial.Fault) {
	policy := adding(&l)
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		h := policy(Named("rollout.alpha-or-dt-in", f), "",
			func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
				return blended(v, c, f.Round(a), f.Round(b), v.X, out)
			})
		// A constant may have the type of the half numbers beside it.
		h.Instead = &trial.Fault{Row: h.Row, Advance: func(v *trial.View, out *tensor.Tensor) *tensor.Tensor {
			e := v.Evidence
			if e.Mode.Precision != f || e.Op.Output(e.Mode) != f {
				return nil
			}
			a, b := weightsOf(v)
			return blended(v, v.Machine.Config, a, f.Round(b), v.X, out)
		}}
		policy(Named("rollout.alpha-in-and-1-alpha-of-it", f), rollout.Convex,
			func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
				return blended(v, c, f.Round(a), 1-f.Round(a), v.X, out)
			})
		policy(Named("rollout.state-in", f), "",
			func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
				y := v.Machine.Advance(v.Device, v.X, out)
				f.RoundSlice(y.Data, y.Data)
				return y
			})
		l = append(l, &trial.Fault{Row: Named("rollout.state-read-in", f), Input: func(v *trial.View) *tensor.Tensor {
			y := v.X.Clone()
			f.RoundSlice(y.Data, y.Data)
			return y
		}})
	}
	policy(Named("rollout.alpha-in-place-of-1-alpha"), rollout.Convex,
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			return blended(v, c, a, a, v.X, out)
		})
	policy(Named("rollout.policy-applied-twice"), "",
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			y := blended(v, rollout.Config{}, a, b, v.X, out)
			return blended(v, c, a, b, y, out)
		})
	policy(Named("rollout.convex-policy-in-place-of-residual"), rollout.Residual,
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			return blended(v, c, 1-b, b, v.X, out)
		})
	policy(Named("rollout.state-of-another-realization"), "",
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			return blended(v, c, a, b, rotated(v.X), out)
		})
	policy(Named("rollout.realization-stands-still"), "",
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			y := v.Next.Clone()
			k := v.Worst
			copy(y.Samples(k, k+1).Data, v.X.Samples(k, k+1).Data)
			return y
		})
	policy(Named("rollout.realizations-change-places"), "",
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			return rotated(v.Next)
		})
	policy(Named("rollout.state-before-the-last-in-the-policy"), "",
		func(v *trial.View, c rollout.Config, a, b float64, out *tensor.Tensor) *tensor.Tensor {
			if v.Before == nil || a == 0 {
				return nil
			}
			return blended(v, c, a, b, v.Before, out)
		})
	l = append(l, &trial.Fault{Row: Named("rollout.operator-reads-the-state-before-the-last"),
		Input: func(v *trial.View) *tensor.Tensor { return v.Before }})
	return l
}

// rotated returns x with its samples moved by one.
func rotated(x *tensor.Tensor) *tensor.Tensor {
	return samplesFrom(x, func(n int) int { return (n + x.N() - 1) % x.N() })
}

// advanced is the next state by a policy that f has changed, or nil where f cannot.
func advanced(v *trial.View, out *tensor.Tensor, f func(c *rollout.Config) bool) *tensor.Tensor {
	c := v.Machine.Config
	if !f(&c) {
		return nil
	}
	a, b := weightsOf(v)
	return blended(v, c, a, b, v.X, out)
}

// centre takes the mean of numbers from them.
func centre(p []float64) {
	m, _ := measure.Moments(p)
	for i := range p {
		p[i] -= m
	}
}

// postFaults are those of the post-processing.
func postFaults() []*trial.Fault {
	var l []*trial.Fault
	// with takes other post-processing than the claimed one.
	with := func(row *table.Row, f func(c *rollout.Config) bool) {
		l = append(l, &trial.Fault{
			Row: row, Advance: func(v *trial.View, out *tensor.Tensor) *tensor.Tensor { return advanced(v, out, f) },
		})
	}
	with(Named("rollout.normalization-missing"), func(c *rollout.Config) bool {
		ok := c.Normalization != rollout.NoNormalization
		c.Normalization = rollout.NoNormalization
		return ok
	})
	with(Named("rollout.min-max-in-place-of-z-score"), func(c *rollout.Config) bool {
		ok := c.Normalization == rollout.ZScore
		c.Normalization = rollout.MinMax
		return ok
	})
	with(Named("rollout.z-score-in-place-of-min-max"), func(c *rollout.Config) bool {
		ok := c.Normalization == rollout.MinMax
		c.Normalization = rollout.ZScore
		return ok
	})
	with(Named("rollout.normalization-of-each-realization-in-place-of-the-batch"), func(c *rollout.Config) bool {
		ok := c.Normalization != rollout.NoNormalization && c.EngineBatch > 0
		c.EngineBatch = 0
		return ok
	})
	with(Named("rollout.normalization-of-the-batch-in-place-of-each-realization"), func(c *rollout.Config) bool {
		ok := c.Normalization != rollout.NoNormalization && c.EngineBatch == 0
		c.EngineBatch = 1
		return ok
	})
	with(Named("rollout.clamp-missing"), func(c *rollout.Config) bool { ok := c.Clamp != nil; c.Clamp = nil; return ok })
	for _, to := range [][2]float64{{-1, 1}, {0, 1}} {
		with(Named("rollout.clamp-to", to[0], to[1]), func(c *rollout.Config) bool { c.Clamp = &to; return true })
	}
	after := func(row *table.Row, f func(x *tensor.Tensor)) {
		l = append(l, &trial.Fault{Row: row, Advance: func(v *trial.View, out *tensor.Tensor) *tensor.Tensor {
			y := v.Machine.Advance(v.Device, v.X, out)
			f(y)
			return y
		}})
	}
	after(Named("rollout.mean-of-each-channel-removed-from-the-state"), func(x *tensor.Tensor) {
		for k := range x.N() * x.C() {
			centre(x.Plane(k/x.C(), k%x.C()))
		}
	})
	after(Named("rollout.mean-removed-from-the-state"), func(x *tensor.Tensor) {
		for k := range x.N() {
			centre(x.Samples(k, k+1).Data)
		}
	})
	after(Named("rollout.state-channels-in-reverse-order"), func(x *tensor.Tensor) {
		y := x.Clone()
		for k := range x.N() * x.C() {
			copy(x.Plane(k/x.C(), k%x.C()), y.Plane(k/x.C(), x.C()-1-k%x.C()))
		}
	})
	after(Named("rollout.state-h-and-w-swapped"), func(x *tensor.Tensor) { copy(x.Data, transposed(x).Data) })
	after(Named("rollout.state-in-steps-of-a-127th-of-its-largest-number"), func(x *tensor.Tensor) {
		top := 0.0
		for _, v := range x.Data {
			top = max(top, math.Abs(v))
		}
		s := top / 127
		for i, v := range x.Data {
			x.Data[i] = math.RoundToEven(v/s) * s
		}
	})
	return l
}
