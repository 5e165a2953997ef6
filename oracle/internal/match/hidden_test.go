package match

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// TestShrunk: an amplitude that roundings have made less of is one around the
// emulation alone, of a fault that explains most.
func TestShrunk(t *testing.T) {
	near, exact := &trial.View{}, &trial.View{}
	f := &filter{near: near, exact: exact}
	for _, c := range []struct {
		v    *trial.View
		m    measure.Match
		want bool
	}{
		{near, measure.Match{C: 0.8, Gain: 0.6, T: 15}, true}, {exact, measure.Match{C: 0.8, Gain: 0.6, T: 15}, false},
		{near, measure.Match{C: 0.8, Gain: 0.4, T: 15}, false}, {near, measure.Match{C: 0.8, Gain: 0.6, T: 7}, false},
		{near, measure.Match{C: 0.6, Gain: 0.6, T: 15}, false}, {near, measure.Match{C: 1.2, Gain: 0.6, T: 15}, false},
	} {
		if got := f.shrunk(&Tried{H: &trial.Fault{Row: &table.Row{}}, v: c.v, Match: c.m}); got != c.want {
			t.Errorf("%+v: %v, want %v", c.m, got, c.want)
		}
	}
	f.near = nil // of a claim whose roundings are too fine to be followed
	for _, rounding := range []bool{false, true} {
		h := &trial.Fault{Row: &table.Row{Rounding: rounding}}
		if got := f.shrunk(&Tried{H: h, v: exact, Match: measure.Match{C: 0.8, Gain: 0.6, T: 15}}); got != rounding {
			t.Errorf("in exact arithmetic, a fault of rounding %v: %v", rounding, got)
		}
	}
}

// TestMimicked: where some correct device has what a fault would do, it is no fault's
// unless the step is known to be wrong.
func TestMimicked(t *testing.T) {
	b := newBench(t, "bfloat16", 0.5)
	f := newFilter(b.Matcher, b.full(t, b.run(t, b.device, b.draws, 1)))
	if ok, err := f.open(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	device, err := f.near.Perturbed(&trial.Fault{Row: &table.Row{}}, trial.Everywhere, 40)
	if err != nil {
		t.Fatal(err)
	}
	q := f.units(f.near, device.Data, f.near.Next.Data)
	mimicked := func(q []float64) bool {
		is, err := f.mimicked(&Tried{
			H: &trial.Fault{Row: &table.Row{}}, v: f.near, q: q, Match: measure.Match{QQ: measure.Dot(q, q)},
		})
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
	b.Report.Findings = []report.Finding{{Verdict: report.FailLogic, Step: f.s.Step}}
	if mimicked(q) {
		t.Error("a step that is known to be wrong is acquitted")
	}
}

// TestScatter: an amplitude that few correct devices have, and may be a fault's, is
// held against many; so is none that is far from one, nor in a large operator.
func TestScatter(t *testing.T) {
	b := newBench(t, "bfloat16", 0.5)
	f := newFilter(b.Matcher, b.full(t, b.run(t, b.device, b.draws, 1)))
	if ok, err := f.open(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	q := f.units(f.near, f.near.Next.Data, f.exact.Next.Data)
	for k := range manyDevices {
		c := 0.1
		if k >= fewDevices {
			c = 0.5
		}
		f.h0[f.near] = append(f.h0[f.near], measure.Scaled(q, c))
	}
	some, many := math.Sqrt((6*0.01+10*0.25)/16), math.Sqrt((6*0.01+58*0.25)/64)
	for _, c := range []struct{ c, sigma, want float64 }{
		{1, 0.01, some}, // t is 10 by the few
		{2, 0.01, many}, // and 5 by some
		{0.35, 0.01, 0.1}, {0.35, 0.2, 0.2},
	} {
		x := &Tried{H: &trial.Fault{Row: &table.Row{}}, v: f.near, q: q, k: 1,
			Match: measure.Match{N: len(q), C: c.c, Sigma: c.sigma, T: c.c / c.sigma, QQ: measure.Dot(q, q), Shown: 1}}
		if err := f.scatter(x); err != nil {
			t.Fatal(err)
		}
		if math.Abs(x.Match.Sigma-c.want) > 1e-9 {
			t.Errorf("amplitude %v, sigma %v by itself: %v beside correct devices, want %v", c.c, c.sigma, x.Match.Sigma, c.want)
		}
	}
	if n := f.devices(); n != manyDevices {
		t.Errorf("%d devices of a small operator: want %d", n, manyDevices)
	}
	f.forward <<= 20
	if n := f.devices(); n != fewDevices {
		t.Errorf("%d devices of a large operator: want %d", n, fewDevices)
	}
}

// TestCost: where the work does not reach the whole library, what acts late comes
// first; elsewhere its own order stands.
func TestCost(t *testing.T) {
	b := newBench(t, "float32", 0.5)
	f := newFilter(b.Matcher, b.full(t, b.run(t, b.device, b.draws, 1)))
	all := fault.Library()
	cost := func(name string) int64 {
		return f.cost(all[slices.IndexFunc(all, func(h *trial.Fault) bool { return h.Name == name })], len(all))
	}
	if c := cost("kernel flipped"); c != 0 {
		t.Errorf("a kernel of a small operator costs %d: want 0", c)
	}
	f.forward <<= 20
	first, last, none := cost("kernel flipped"), cost("bias of the next channel"), cost("noise scale")
	if first != 100 || !(0 < last && last < 20) || none != last {
		t.Errorf("of a large operator all kernels cost %d, its only bias %d, its noise %d: want 100, "+
			"less than 20 and as much", first, last, none)
	}
}

// TestAccidents: what lies in one place, or is refuted by the emulation, is no
// diagnosis.
func TestAccidents(t *testing.T) {
	f := &filter{}
	f.divide(2, 3, 16, 16)
	v := &trial.View{X: tensor.New(fp16.Float64, 2, 3, 16, 16)}
	flip, wide := make([]float64, len(f.cluster)), make([]float64, len(f.cluster))
	for i := range wide {
		wide[i] = 1
		if y, x := i/16%16, i%16; y < 5 && x < 5 && i < 3*256 { // one rounding and two convolutions
			flip[i] = 1
		}
	}
	if !f.sparse(&Tried{v: v, q: flip}) || f.sparse(&Tried{v: v, q: wide}) {
		t.Error("sparse: want one place to be, and the whole image not to be")
	}
	for _, k := range []struct {
		m    measure.Match
		want bool
	}{
		{measure.Match{}, false},
		{measure.Match{QQ: 1}, true},
		{measure.Match{QQ: 1, C: 1, Sigma: .01}, false},
		{measure.Match{QQ: 1, C: .1, Sigma: .23}, false},
		{measure.Match{QQ: 1, C: .1, Sigma: .2}, true},
	} {
		if got := k.m.Refutes(); got != k.want {
			t.Errorf("%+v refutes: %v, want %v", k.m, got, k.want)
		}
	}
}

// TestRefuted: between two steps at which all faults are looked for, those are not that the one before has
// refuted; the next one looks for them again, and finds one that has begun.
func TestRefuted(t *testing.T) {
	b := newBench(t, "float16", 0.3)
	right := b.full(t, b.run(t, b.device, b.draws, 9))
	d, draws := b.device, b.draws.Clone()
	filterFaults[0].make(b, &d, draws)
	wrong := b.full(t, b.run(t, d, draws, 9))
	b.Pool = NewPool(nil)
	tried := func(s *Step, between bool) int {
		one := *s
		one.SkipRefuted = between
		before := maps.Clone(b.Pool.refuted)
		f := newFilter(b.Matcher, &one)
		if ok, err := f.open(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := f.certify(); err != nil {
			t.Fatal(err)
		}
		for _, h := range f.tried {
			if between && before[h.H.Prior] && !f.asksForPower(h.H) {
				t.Errorf("between: %s is tried", h.H.ID)
			}
		}
		return len(f.tried)
	}
	all := tried(right, false)
	if len(b.Pool.refuted) == 0 {
		t.Fatal("a right step refutes nothing")
	}
	if n := tried(right, true); n >= all {
		t.Errorf("between: %d faults of %d are tried, where %d are refuted", n, all, len(b.Pool.refuted))
	}
	before := len(b.Pool.refuted)
	tried(wrong, true)
	tried(wrong, false)
	if len(b.Pool.refuted) >= before {
		t.Errorf("a wrong step refutes as many as a right one: %d", before)
	}
}

// TestRefutes: what amplitudes are proof of.
func TestRefutes(t *testing.T) {
	for _, c := range []struct {
		h        *trial.Fault
		c, sigma float64
		want     bool
	}{
		{&trial.Fault{Row: &table.Row{}}, 0.2, 1. / 33, true}, {&trial.Fault{Row: &table.Row{}}, -0.2, 1. / 33, true},
		{&trial.Fault{Row: &table.Row{}}, 0.3, 1. / 33, false}, {&trial.Fault{Row: &table.Row{}}, 0.2, 1. / 31, false},
		{&trial.Fault{Row: &table.Row{Family: true}}, leastFamily / 2, leastFamily / 40, true},
		{&trial.Fault{Row: &table.Row{Family: true}}, leastFamily / 2, leastFamily / 20, false},
		{&trial.Fault{Row: &table.Row{Family: true, Least: 1}}, 0.5, 1. / 40, true},
	} {
		if got := refutes(&Tried{H: c.h, Match: measure.Match{C: c.c, Sigma: c.sigma}}); got != c.want {
			t.Errorf("family %v, amplitude %v, deviation %v: %v, want %v", c.h.Family, c.c, c.sigma, got, c.want)
		}
	}
	h := &trial.Fault{Row: &table.Row{}, Prior: 3}
	p := NewPool(nil)
	p.At(h, true).add(1, &measure.Match{QQ: 1, RQ: 1, Sigma: 1})
	if p.refute(h); p.At(h, true).From(0).QQ != 0 || !p.refuted[3] {
		t.Error("what a step before said is still of those after one that refutes it")
	}
}

// TestMayBe: a constant in the type of the half numbers beside it is no fault, though one that is it in part looks
// like it; where the other constant is rounded too, it is.
func TestMayBe(t *testing.T) {
	for _, fault := range []bool{false, true} {
		b := newBench(t, "float16", 0.3)
		a, c := fp16.Float32.Round(0.3), fp16.Float16.Round(fp16.Float32.Round(0.7))
		if fault {
			a = fp16.Float16.Round(a)
		}
		d := b.device
		d.Update = func(x, out *tensor.Tensor) *tensor.Tensor {
			y := tensor.Like(x)
			for i, v := range x.Data {
				y.Data[i] = fp16.Float32.Round(fp16.Float32.Round(a*v) + fp16.Float16.Round(c*out.Data[i]))
			}
			return y
		}
		if err := b.Filters(b.full(t, b.run(t, d, b.draws, 9))); err != nil {
			t.Fatal(err)
		}
		row := slices.IndexFunc(b.Report.Filters,
			func(r report.FilterRow) bool { return r.ID == "rollout.alpha-or-dt-in:float16" })
		if row < 0 || math.Abs(float64(b.Report.Filters[row].T)) < measure.LeastT {
			t.Fatalf("fault %v: nothing looks like it: %+v", fault, b.Report.Filters)
		}
		if got := len(b.Found) > 0; got != fault {
			t.Errorf("fault %v: found %v, %+v", fault, b.Found, b.Report.Filters[row])
		}
	}
}

// TestRests: where whether a fault would show is all that is asked, it is asked until it would; another rests between
// steps alone, if it is refuted.
func TestRests(t *testing.T) {
	operands, other := &trial.Fault{Row: &table.Row{Rounding: true}, Prior: 3}, &trial.Fault{Row: &table.Row{}, Prior: 4}
	for _, c := range []struct {
		h       *trial.Fault
		least   float64
		refuted bool
		between bool
		want    bool
	}{
		{operands, 0, false, true, false}, {operands, 2, true, true, false}, {operands, 0.5, false, false, true},
		{other, 0.5, false, true, false}, {other, 2, true, true, true}, {other, 2, true, false, false},
	} {
		p := NewPool(nil)
		if p.refuted[c.h.Prior] = c.refuted; c.least > 0 {
			p.At(c.h, true).information = measure.LeastT * measure.LeastT / (c.least * c.least)
		}
		f := &filter{e: &Matcher{Pool: p}, s: &Step{SkipRefuted: c.between},
			near: &trial.View{Device: &emulate.Device{Mode: graph.Mode{Precision: fp16.Float16}}}}
		if got := f.rests(c.h); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestSlowOnes: slow hypotheses are asked of a step that a gate found wrong, and not of one that is far off alone.
func TestSlowOnes(t *testing.T) {
	for _, known := range []bool{false, true} {
		b := newBench(t, "float16", 0.3)
		s := b.full(t, b.run(t, b.device, b.draws, 9))
		s.Limit /= 8
		if known {
			b.Found = []report.Finding{{Verdict: report.FailLogic, Step: s.Step}}
		}
		b.Pool = NewPool(nil)
		f := newFilter(b.Matcher, s)
		if ok, err := f.open(); !ok || err != nil || !f.wrong() {
			t.Fatal(ok, err, f.wrong())
		}
		if err := f.search(); err != nil {
			t.Fatal(err)
		}
		if slow := slices.ContainsFunc(f.tried, func(t Tried) bool { return t.H.Slow }); slow != known {
			t.Errorf("known to be wrong %v: slow ones were tried %v, of %d", known, slow, len(f.tried))
		}
	}
}

// TestAtOne: a small fault of one norm of several, in a step that the limits of float32 let pass, is named with its
// layer; and a correct device has none.
func TestAtOne(t *testing.T) {
	for _, wrong := range []int{-1, 0, 1} {
		b := newBench(t, "float32", 0.3)
		d, name := b.device, ""
		if wrong >= 0 {
			i := b.nodeOf(operator.OpNorm, wrong)
			name = b.Machine.Nodes[i].Name
			d.Replace = func(k int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if k != i {
					return nil, nil
				}
				y := in[0].Clone()
				for p := range y.N() * y.C() {
					plane := y.Plane(p/y.C(), p%y.C())
					m, v := measure.Moments(plane)
					for j, x := range plane {
						plane[j] = (x - m) / (math.Sqrt(v) + b.Machine.Nodes[i].Eps)
					}
				}
				return y, nil
			}
		}
		s := b.full(t, b.run(t, d, b.draws, 3))
		s.Limit = max(s.Limit, 1.1*s.Distance())
		if err := b.Filters(s); err != nil {
			t.Fatal(err)
		}
		if wrong < 0 != (len(b.Found) == 0) ||
			wrong >= 0 && (b.Found[0].Layer != name || b.Found[0].Diagnosis != "eps outside the square root") {
			t.Errorf("eps outside the root of norm %d: %+v, %+v", wrong, b.Found, b.Report.Filters)
		}
	}
}

// TestMayBeAsWell: what a right device may do in place of a fault is taken for it, unless the residual tells the two
// apart.
func TestMayBeAsWell(t *testing.T) {
	b := newBench(t, "float16", 0.5)
	for _, c := range []struct {
		other float64 // how much of the fault right devices do not do
		has   bool    // the device has the fault
		want  bool
	}{{.004, false, true}, {.004, true, true}, {.4, true, false}, {.4, false, true}} {
		s := b.full(t, b.run(t, b.device, b.draws, 1))
		r := rand.New(rand.NewPCG(4, 2))
		shared, own := make([]float64, len(s.Got)), make([]float64, len(s.Got))
		for i, e := range s.Emulated {
			shared[i], own[i] = .4*math.Sqrt(1-c.other)*s.S[i]*r.NormFloat64(), .4*math.Sqrt(c.other)*s.S[i]*r.NormFloat64()
			s.Got[i] = e + shared[i] + s.S[i]*r.NormFloat64()
			if c.has {
				s.Got[i] += own[i]
			}
		}
		f := newFilter(b.Matcher, s)
		if ok, err := f.open(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		add := func(parts ...[]float64) *trial.Fault {
			return &trial.Fault{Row: &table.Row{}, Advance: func(v *trial.View, _ *tensor.Tensor) *tensor.Tensor {
				y := v.Next.Clone()
				for _, p := range parts {
					for i, d := range p {
						y.Data[i] += d
					}
				}
				return y
			}}
		}
		h := add(shared, own)
		h.Instead = add(shared)
		tried, err := f.try(h, trial.Everywhere, f.near, math.Inf(1))
		if err != nil || !(math.Abs(tried.Match.T) > measure.LeastT) {
			t.Fatal(err, tried.Match)
		}
		if got, err := f.mayBe(tried); got != c.want || err != nil {
			t.Errorf("%v of it, the device has it %v: %v, %v; t %.3g", c.other, c.has, got, err, tried.Match.T)
		}
	}
}

// TestCorrectRounds: correct devices in exact arithmetic round what the policy does, too: where the state takes next to
// nothing from the operator, that is all their error.
func TestCorrectRounds(t *testing.T) {
	b := newBench(t, "float32", 0.99999)
	f := newFilter(b.Matcher, b.full(t, b.run(t, b.device, b.draws, 1)))
	if ok, err := f.open(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	y, err := f.exact.Perturbed(&trial.Fault{Row: &table.Row{}}, trial.Everywhere, 1)
	if err != nil {
		t.Fatal(err)
	}
	if off := measure.RootMeanSquareDiff(y.Data, f.exact.Next.Data) / measure.RMS(y.Data); off < 0x1p-26 || off > 0x1p-23 {
		t.Errorf("%.3g of a state: want about a rounding", off)
	}
}
