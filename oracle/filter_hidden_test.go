package oracle

import (
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// TestBelowRoundings: faults that are far smaller than the roundings of bfloat16
// are found and named, by what they do to numbers that a right device has to the
// last bit.
func TestBelowRoundings(t *testing.T) {
	channels := func(f func(c int) float64) mischief {
		return redraw(func(v []float64, per int) []float64 {
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
		do              mischief
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
		{"tails", "bfloat16", 0.02, redraw(func(v []float64, _ int) []float64 {
			y := append([]float64(nil), v...)
			for i, x := range y {
				y[i] = max(-2, min(2, x))
			}
			return y
		}), report.FailRNG, "noise cut off at 2 standard deviations"},
		{"factors, beside other sums", "bfloat16", 0.02, func(r *rig, t int, d *emulate.Device, draws *emulate.Draws, before []*tensor.Tensor) {
			channels(func(c int) float64 { return 0.5 + float64(c)/7 })(r, t, d, draws, before)
			d.Perturb = func(_ int, y *tensor.Tensor, _ []*tensor.Tensor) {
				for k := range y.Data {
					y.Data[k] *= 1 + 0x1p-12*math.Sin(float64(k*k))
				}
			}
		}, report.FailRNG, "noise scale differs by channel"},
		{"differences in half", "float16", 0.01, func(r *rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
			m := emulate.New(r.op, r.c)
			d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if !isNorm(&m.Nodes[i]) {
					return nil, nil
				}
				y := in[0].Clone() // gamma is 1 and beta 0
				for k := range y.N() * y.C() {
					p := y.Plane(k/y.C(), k%y.C())
					mean, _ := moments(p)
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
		{"a leak", "bfloat16", 0.01, policyFault(func(_ *rig, _ *emulate.Device, _, right, _ *tensor.Tensor) *tensor.Tensor {
			y := tensor.Of(right.Format, scaled(right.Data, 0.9995), right.N(), right.C(), right.H(), right.W())
			y.Format.RoundSlice(y.Data, y.Data)
			return y
		}), report.FailRollout, "state times 0.9995"},
	} {
		r := newRig(t, c.precision, "gaussian", c.scale)
		r.c.Realizations, r.c.Timesteps = 2, 5
		do := c.do
		if do != nil {
			do = from(3, c.do)
		} else {
			do = func(*rig, int, *emulate.Device, *emulate.Draws, []*tensor.Tensor) {}
		}
		report, err := examine(r.exam(r.run(do), true).evidence, 0, "rig")
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.verdict == "" && !report.Verdict.Passed():
			t.Errorf("%s: %s: want a pass", c.name, report.Reason)
		case c.verdict != "" && (report.Verdict != c.verdict || report.Diagnosis != c.diagnosis || report.FirstStep != 3):
			t.Errorf("%s: %s at step %d, %q: want %s at step 3, %q", c.name, report.Verdict, report.FirstStep, report.Diagnosis, c.verdict, c.diagnosis)
		}
	}
}

// TestBackdate: a fault that was named at one step is that of all steps before
// that have it, up to one that has not.
func TestBackdate(t *testing.T) {
	r := newRig(t, "float16", "gaussian", 0.01)
	h := library()[0]
	s := r.run(from(4, func(r *rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
		m := emulate.New(r.op, r.c)
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if !isAct(&m.Nodes[i]) {
				return nil, nil
			}
			y := tensor.Like(in[0])
			act.Forward(y, in[0], act.GELUTanh)
			return y, nil
		}
	}))
	of := r.exam(s, true)
	g := newStepGate(of.evidence, of.facts)
	e := g.e
	e.pool = newPool(nil)
	if _, _, err := g.measureAll(); err != nil {
		t.Fatal(err)
	}
	e.found = []report.Finding{{Verdict: report.FailPrecision, Gate: "filter", Step: 7}}
	if err := g.backdate(0, &tried{h: h, scope: everywhere, near: true, match: match{c: 1}}); err != nil {
		t.Fatal(err)
	}
	if f := e.found[0]; f.Step != 4 {
		t.Errorf("%s since step %d: want 4", h.name, f.Step)
	}
}

// TestShrunk: an amplitude that roundings have made less of is one around the
// emulation alone, of a fault that explains most.
func TestShrunk(t *testing.T) {
	near, exact := &view{}, &view{}
	f := &filter{near: near, exact: exact}
	for _, c := range []struct {
		v    *view
		m    match
		want bool
	}{
		{near, match{c: 0.8, gain: 0.6, t: 15}, true}, {exact, match{c: 0.8, gain: 0.6, t: 15}, false},
		{near, match{c: 0.8, gain: 0.4, t: 15}, false}, {near, match{c: 0.8, gain: 0.6, t: 7}, false},
		{near, match{c: 0.6, gain: 0.6, t: 15}, false}, {near, match{c: 1.2, gain: 0.6, t: 15}, false},
	} {
		if got := f.shrunk(&tried{h: &hypothesis{}, v: c.v, match: c.m}); got != c.want {
			t.Errorf("%+v: %v, want %v", c.m, got, c.want)
		}
	}
}

// TestMimicked: where some correct device has what a fault would do, it is no fault's
// unless the step is known to be wrong.
func TestMimicked(t *testing.T) {
	b := newBench(t, "bfloat16", 0.5)
	f := &filter{e: b.matcher, s: b.full(t, b.run(t, b.device, b.draws, 1)), node: -1, h0: map[*view][][]float64{}}
	if ok, err := f.open(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	device, err := f.near.perturbed(&hypothesis{}, everywhere, 40)
	if err != nil {
		t.Fatal(err)
	}
	q := f.units(f.near, device.Data, f.near.next.Data)
	mimicked := func(q []float64) bool {
		is, err := f.mimicked(&tried{h: &hypothesis{}, v: f.near, q: q, match: match{qq: dot(q, q)}})
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if !mimicked(q) {
		t.Error("what a correct device does is not seen in it")
	}
	if mimicked(append(slices.Clone(q[7:]), q[:7]...)) {
		t.Error("what no device does is seen in one")
	}
	b.r.Findings = []report.Finding{{Verdict: report.FailLogic, Step: f.s.Step}}
	if mimicked(q) {
		t.Error("a step that is known to be wrong is acquitted")
	}
}

// TestScatter: an amplitude that few correct devices have, and may be a fault's, is
// held against many; so is none that is far from one, nor in a large operator.
func TestScatter(t *testing.T) {
	b := newBench(t, "bfloat16", 0.5)
	f := &filter{e: b.matcher, s: b.full(t, b.run(t, b.device, b.draws, 1)), node: -1, h0: map[*view][][]float64{}}
	if ok, err := f.open(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	q := f.units(f.near, f.near.next.Data, f.exact.next.Data)
	for k := range manyDevices {
		c := 0.1
		if k >= fewDevices {
			c = 0.5
		}
		f.h0[f.near] = append(f.h0[f.near], scaled(q, c))
	}
	many := math.Sqrt((6*0.01 + 58*0.25) / 64)
	for _, c := range []struct{ c, sigma, want float64 }{
		{1, 0.01, many}, // t is 10 by the few
		{0.35, 0.01, 0.1}, {0.35, 0.2, 0.2},
	} {
		x := &tried{h: &hypothesis{}, v: f.near, q: q, k: 1, match: match{n: len(q), c: c.c, sigma: c.sigma, t: c.c / c.sigma, qq: dot(q, q), shown: 1}}
		if err := f.scatter(x); err != nil {
			t.Fatal(err)
		}
		if math.Abs(x.match.sigma-c.want) > 1e-9 {
			t.Errorf("amplitude %v, sigma %v by itself: %v beside correct devices, want %v", c.c, c.sigma, x.match.sigma, c.want)
		}
	}
	if n := f.devices(); n != manyDevices {
		t.Errorf("%d devices of a small operator: want %d", n, manyDevices)
	}
	large := *f.s.batchStep
	large.X = &tensor.Tensor{Shape: []int{1 << 20, 3, 16, 18}}
	f.s.batchStep = &large
	if n := f.devices(); n != fewDevices {
		t.Errorf("%d devices of a large operator: want %d", n, fewDevices)
	}
}

// TestCost: where the work does not reach the whole library, what acts late comes
// first; elsewhere its own order stands.
func TestCost(t *testing.T) {
	b := newBench(t, "float32", 0.5)
	f := &filter{e: b.matcher, s: b.full(t, b.run(t, b.device, b.draws, 1)), node: -1}
	all := library()
	cost := func(name string) int64 {
		return f.cost(all[slices.IndexFunc(all, func(h *hypothesis) bool { return h.name == name })], len(all))
	}
	if c := cost("kernel flipped"); c != 0 {
		t.Errorf("a kernel of a small operator costs %d: want 0", c)
	}
	large := *f.s.batchStep
	large.X = &tensor.Tensor{Shape: []int{1 << 20, 3, 16, 18}}
	f.s.batchStep = &large
	first, last, none := cost("kernel flipped"), cost("bias of the next channel"), cost("noise scale")
	if first != 100 || !(0 < last && last < 20) || none != last {
		t.Errorf("of a large operator all kernels cost %d, its only bias %d, its noise %d: want 100, less than 20 and as much", first, last, none)
	}
}
