package oracle

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// TestBelowRoundings: faults that are far smaller than the roundings of bfloat16
// are found and named, by what they do to numbers that a right device has to the
// last bit.
func TestBelowRoundings(t *testing.T) {
	t.Parallel()
	channels := func(f func(c int) float64) rig.Mischief {
		return rig.Redraw(func(v []float64, per int) []float64 {
			y := append([]float64(nil), v...)
			hw := 16 * 16
			for i := range y {
				y[i] *= f(i % per / hw)
			}
			return y
		})
	}
	for _, c := range []struct {
		name, precision string
		scale           float64
		do              rig.Mischief
		verdict         report.Verdict
		diagnosis       string
	}{
		{"nothing", "bfloat16", 0.01, nil, "", ""},
		{"a channel", "bfloat16", 0.01, channels(func(c int) float64 {
			if c == 3 {
				return 0
			}
			return 1
		}), report.FailRNG, "channel 3 without noise"},
		{"tails", "bfloat16", 0.02, rig.Redraw(func(v []float64, _ int) []float64 {
			y := append([]float64(nil), v...)
			for i, x := range y {
				y[i] = max(-2, min(2, x))
			}
			return y
		}), report.FailRNG, "noise cut off at 2 standard deviations"},
		{"factors, beside other sums", "bfloat16", 0.02,
			func(r *rig.Rig, t int, d *emulate.Device, draws *emulate.Draws, before []*tensor.Tensor) {
				channels(func(c int) float64 { return 0.5 + float64(c)/7 })(r, t, d, draws, before)
				d.Perturb = func(_ int, y *tensor.Tensor, _ []*tensor.Tensor) {
					for k := range y.Data {
						y.Data[k] *= 1 + 0x1p-12*math.Sin(float64(k*k))
					}
				}
			}, report.FailRNG, "noise scale differs by channel"},
		{"differences in half", "float16", 0.01,
			func(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
				m := emulate.New(r.Op, r.Config)
				d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
					if !emulate.IsNorm(&m.Nodes[i]) {
						return nil, nil
					}
					y := in[0].Clone() // gamma is 1 and beta 0
					for k := range y.N() * y.C() {
						p := y.Plane(k/y.C(), k%y.C())
						mean, _ := measure.Moments(p)
						squares := 0.0
						for _, v := range p {
							squares += math.Pow(fp16.Float16.Round(v-mean), 2) / float64(len(p))
						}
						for j, v := range p {
							p[j] = (v - mean) / math.Sqrt(squares+m.Nodes[i].Eps)
						}
					}
					return y, nil
				}
			}, report.FailPrecision, "variance of differences in float16"},
		{"a leak", "bfloat16", 0.01,
			rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, _, right, _ *tensor.Tensor) *tensor.Tensor {
				y := tensor.Of(right.Format, measure.Scaled(right.Data, 0.9995), right.N(), right.C(), right.H(), right.W())
				y.Format.RoundSlice(y.Data, y.Data)
				return y
			}), report.FailRollout, "state times 0.9995"},
	} {
		r := rig.NewRig(t, c.precision, "gaussian", c.scale)
		r.Config.Realizations, r.Config.Timesteps = 2, 5
		do := c.do
		if do != nil {
			do = rig.From(3, c.do)
		} else {
			do = func(*rig.Rig, int, *emulate.Device, *emulate.Draws, []*tensor.Tensor) {}
		}
		report, err := examine(r.Exam(r.Run(do), true).Evidence, 0, "rig")
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.verdict == "" && !report.Verdict.Passed():
			t.Errorf("%s: %s: want a pass", c.name, report.Reason)
		case c.verdict != "" && (report.Verdict != c.verdict || report.Diagnosis != c.diagnosis || report.FirstStep != 3):
			t.Errorf("%s: %s at step %d, %q: want %s at step 3, %q",
				c.name, report.Verdict, report.FirstStep, report.Diagnosis, c.verdict, c.diagnosis)
		}
	}
}
