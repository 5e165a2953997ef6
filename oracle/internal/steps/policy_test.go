package steps

import (
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

func f32(v float64) float64 { return fp16.Float32.Round(v) }

// TestPolicyRoundings: where a state takes little from the operator, a float32 device is right however it forms y = a x
// + b o, whatever its sums, also from states just above a power of two; and it is not where a last bit is cut, or where
// the operator is far from exact in one step.
func TestPolicyRoundings(t *testing.T) {
	t.Parallel()
	const alpha, dt = .99, .01
	a, b := f32(alpha), f32(1-alpha)
	ways := map[string]func(x, o float64) float64{
		"products rounded":      func(x, o float64) float64 { return f32(f32(a*x) + f32(b*o)) },
		"fused":                 func(x, o float64) float64 { return f32(a*x + f32(b*o)) },
		"once":                  func(x, o float64) float64 { return f32(a*x + b*o) },
		"1 - a from a":          func(x, o float64) float64 { return f32(f32(a*x) + f32(f32(1-a)*o)) },
		"a from 1 - a":          func(x, o float64) float64 { return f32(f32(f32(1-b)*x) + f32(b*o)) },
		"a difference of two":   func(x, o float64) float64 { return f32(o + f32(a*f32(x-o))) },
		"torch.lerp":            func(x, o float64) float64 { return f32(x + f32(b*f32(o-x))) },
		"double precision":      func(x, o float64) float64 { return f32(alpha*x + (1-alpha)*o) },
		"products cut":          func(x, o float64) float64 { return cut(cut(a*x) + cut(b*o)) },
		"half products":         func(x, o float64) float64 { return f32(f32(a*x) + fp16.Float16.Round(b*o)) },
		"share of 11 bits less": func(x, o float64) float64 { return f32(f32(a*x) + f32(b*o*(1+0x1p-11))) },
	}
	wrong := map[string]bool{"products cut": true, "half products": true, "share of 11 bits less": true}
	for name, way := range ways {
		for _, start := range []string{"around 0", "near 1", "near 100"} {
			s, ones := newStepBench(t, "float32", "", "group", convex(alpha)), start == "near 1"
			s.start = func(x []float64) {
				for k := range x {
					switch start {
					case "near 1":
						x[k] = f32(1 + math.Abs(x[k])/64)
					case "near 100": // where a constant that is not rounded is off by a third of a last place
						x[k] = f32(100 + x[k])
					}
				}
			}
			s.device = func(int) *emulate.Device {
				d := s.correct(s.gate.claim, emulate.CoarseLambda)
				d.Update = func(x, o *tensor.Tensor) *tensor.Tensor {
					y := tensor.Like(o)
					for k := range y.Data {
						y.Data[k] = way(x.Data[k], o.Data[k])
					}
					return y
				}
				return d
			}
			if start != "around 0" && (name == "products rounded" || name == "once" || name == "a from 1 - a") {
				continue // others are nearer to their limits there
			}
			if ones && name == "products cut" || start == "near 100" && wrong[name] {
				continue // the roundings of such numbers are as large
			}
			s.unnamed = wrong[name]
			r := s.check()
			r.Findings = slices.DeleteFunc(r.Findings, func(f report.Finding) bool { return f.Verdict == report.NoPower })
			if wrong[name] != (len(r.Findings) > 0) {
				t.Errorf("%s, numbers %s: %v", name, start, r.Findings)
			}
		}
	}
	for _, inexact := range []bool{false, true} {
		s := newStepBench(t, "float32", "", "group", rollout.Config{Policy: rollout.Residual, Dt: dt})
		s.device = func(step int) *emulate.Device {
			lambda := float64(emulate.CoarseLambda)
			if inexact && step == 2 {
				lambda *= 16
			}
			d := s.correct(s.gate.claim, lambda)
			d.Update = func(x, o *tensor.Tensor) *tensor.Tensor {
				y := tensor.Like(o)
				for k := range y.Data {
					y.Data[k] = f32(x.Data[k] + f32(f32(dt)*o.Data[k]))
				}
				return y
			}
			return d
		}
		s.unnamed = inexact
		r := s.check()
		if inexact != (len(r.Findings) > 0 && r.Findings[0].Step == 2 && r.Findings[0].Verdict != report.NoPower) {
			t.Errorf("sums 16 times as inexact as any at step 2 %v: %+v, %+v", inexact, r.Findings, r.Steps)
		}
	}
}

// cut returns v cut to a float32 number.
func cut(v float64) float64 {
	w := f32(v)
	if math.Abs(w) > math.Abs(v) {
		w = float64(math.Nextafter32(float32(w), 0))
	}
	return w
}
