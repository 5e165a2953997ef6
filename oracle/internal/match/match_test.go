package match

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// bench is an exam of one step of a small operator, and what a correct device
// makes of it.
type bench struct {
	*Matcher
	x      *tensor.Tensor // states of two realizations
	draws  *emulate.Draws
	device emulate.Device
}

func newBench(t *testing.T, precision string, alpha float64) *bench {
	t.Helper()
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 6, InputChannels: 3, OutputChannels: 3,
		KernelSize: 3, Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.1}, 7)
	if err != nil {
		t.Fatal(err)
	}
	mode, err := graph.ParseMode(precision, "")
	if err != nil {
		t.Fatal(err)
	}
	const m, c, h, w = 2, 3, 16, 18
	s := &rollout.States{M: m, T: 3, C: c, H: h, W: w, Data: make([]float64, m*3*c*h*w)}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range s.Data {
		s.Data[i] = fp16.Float32.Round(rng.Float64() + rng.Float64() + rng.Float64() - 1.5)
	}
	cs := &rollout.Case{Operator: op.Config,
		Rollout: rollout.Config{Policy: rollout.Convex, Alpha: alpha, Timesteps: 3, Realizations: m}}
	stream, err := cs.OpenStream("counter", op, mode)
	if err != nil {
		t.Fatal(err)
	}
	e := &evidence.Evidence{
		Ctx: t.Context(), Case: cs, Op: op, States: s, Stream: stream, Mode: mode, Machine: emulate.New(op, cs.Rollout),
	}
	b := &bench{Matcher: &Matcher{Gate: facts.Begin(e, &facts.Facts{Report: &report.Report{}})}}
	step, err := e.Step(0, 0, m, 2)
	if err != nil {
		t.Fatal(err)
	}
	b.x, b.draws = step.X, step.Draws
	b.device = emulate.Device{Mode: mode, State: fp16.Float32}
	if b.device.Store, err = e.Machine.Formats(mode, fp16.Float32); err != nil {
		t.Fatal(err)
	}
	b.run(t, b.device, b.draws, 0) // so that the draws are drawn
	return b
}

// run is the next states as a device has them: of correct sums, but with
// errors of their own.
func (b *bench) run(t *testing.T, d emulate.Device, draws *emulate.Draws, seed uint64) []float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	d.Perturb = func(_ int, y *tensor.Tensor, _ []*tensor.Tensor) {
		size := 0.0
		for _, v := range y.Data {
			size = max(size, math.Abs(v))
		}
		for i := range y.Data {
			y.Data[i] += size * 0x1p-23 * (rng.Float64() - 0.5)
		}
	}
	y, err := b.Machine.Step(&d, b.x, draws.Rewind())
	if err != nil {
		t.Fatal(err)
	}
	return y.Data
}

// full is the step with all that filters wants to know, for a device's states.
func (b *bench) full(t *testing.T, got []float64) *Step {
	t.Helper()
	b.Report, b.Found, b.Pool = &report.Report{}, nil, nil
	near := &b.device
	exact := emulate.Device{Mode: near.Mode, State: fp16.Float64}
	if near.Mode.Precision != fp16.TF32 {
		exact.Wide = emulate.WideAll
	}
	truth, err := b.Machine.Step(&exact, b.x, b.draws.Rewind())
	if err != nil {
		t.Fatal(err)
	}
	emulated, err := b.Machine.Step(near, b.x, b.draws.Rewind())
	if err != nil {
		t.Fatal(err)
	}
	s := &Step{BatchStep: &evidence.BatchStep{Lo: 0, Hi: 2, Step: 2, X: b.x, Got: got, Draws: b.draws}, Device: near,
		Truth: truth.Data, Emulated: emulated.Data}
	s.S = make([]float64, len(got))
	v := trial.View{Evidence: b.Evidence, Machine: b.Machine, Device: &exact, X: b.x, Draws: b.draws}
	if err := v.Compute(); err != nil {
		t.Fatal(err)
	}
	for k := range 8 {
		p, err := v.Perturbed(&trial.Fault{Row: &table.Row{}}, trial.Everywhere, uint64(k))
		if err != nil {
			t.Fatal(err)
		}
		for i, u := range p.Data {
			s.S[i] += (u - s.Truth[i]) * (u - s.Truth[i]) / 8
		}
	}
	mean := 0.0
	for _, v := range s.S {
		mean += v / float64(len(s.S))
	}
	for i, v := range s.S {
		ulp := near.State.Ulp(s.Truth[i])
		s.S[i] = math.Sqrt((v+mean)/2 + ulp*ulp/12)
	}
	ref := s.Emulated
	if near.Mode.Precision == fp16.Float32 { // whose devices are held against exact arithmetic
		ref = s.Truth
	}
	for seed := range uint64(4) {
		other := b.run(t, *near, b.draws, 100+seed)
		r := make([]float64, len(other))
		for i, u := range other {
			r[i] = (u - ref[i]) / s.S[i]
		}
		s.Limit = max(s.Limit, 2*measure.RMS(r))
	}
	return s
}

// nodeOf returns the k-th node of a kind.
func (b *bench) nodeOf(op operator.Op, k int) int {
	for i, n := range b.Machine.Nodes {
		if n.Op == op {
			if k == 0 {
				return i
			}
			k--
		}
	}
	panic("no such node")
}

// A fault of the tests, written without the library.
type testFault struct {
	want    string // part of the diagnosis
	verdict report.Verdict
	layer   func(b *bench) int // of which the finding is, nil for none
	make    func(b *bench, d *emulate.Device, draws *emulate.Draws)
}

func replaced(
	op operator.Op, k int, f func(b *bench, i int, x *tensor.Tensor) *tensor.Tensor,
) func(b *bench, d *emulate.Device, _ *emulate.Draws) {
	return func(b *bench, d *emulate.Device, _ *emulate.Draws) {
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if n := &b.Machine.Nodes[i]; n.Op != op || op == operator.OpAct && n.Act == act.Identity ||
				k >= 0 && i != b.nodeOf(op, k) {
				return nil, nil
			}
			return f(b, i, in[0]), nil
		}
	}
}

func flipped(b *bench, i int, x *tensor.Tensor) *tensor.Tensor {
	n := &b.Machine.Nodes[i]
	w := slices.Clone(n.Weight.Data)
	for k := 0; k < len(w); k += 9 {
		slices.Reverse(w[k : k+9])
	}
	x = emulate.Operand(b.device.Mode, x, b.device.Mode.Precision)
	return emulate.Conv(x, emulate.NewKernel(b.device.Mode, n, w), n.Geometry)
}

var filterFaults = []testFault{
	{"tanh GELU", report.FailPrecision, nil,
		replaced(operator.OpAct, -1, func(_ *bench, _ int, x *tensor.Tensor) *tensor.Tensor {
			y := tensor.Like(x)
			act.Forward(y, x, act.GELUTanh)
			return y
		})},
	{"kernel flipped", report.FailLogic, func(b *bench) int { return b.nodeOf(operator.OpConv, 1) },
		replaced(operator.OpConv, 1, flipped)},
	{"circular padding", report.FailLogic, nil, func(b *bench, d *emulate.Device, _ *emulate.Draws) {
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			n := &b.Machine.Nodes[i]
			if n.Op != operator.OpConv || n.Geometry.Pad[0] == 0 {
				return nil, nil
			}
			g := n.Geometry
			g.Padding = conv.Circular
			x := emulate.Operand(b.device.Mode, in[0], b.device.Mode.Precision)
			return emulate.Conv(x, emulate.NewKernel(b.device.Mode, n, n.Weight.Data), g), nil
		}
	}},
	{"unbiased variance", report.FailPrecision, nil,
		replaced(operator.OpNorm, -1, func(b *bench, i int, x *tensor.Tensor) *tensor.Tensor {
			y, eps := x.Clone(), b.Machine.Nodes[i].Eps
			for k := range y.N() * y.C() { // gamma is 1 and beta 0
				p := y.Plane(k/y.C(), k%y.C())
				var sum, squares float64
				for _, v := range p {
					sum += v
				}
				mean := sum / float64(len(p))
				for _, v := range p {
					squares += (v - mean) * (v - mean)
				}
				for j, v := range p {
					p[j] = (v - mean) / math.Sqrt(squares/float64(len(p)-1)+eps)
				}
			}
			return y
		})},
	{"noise scale times sqrt 2", report.FailRNG, func(b *bench) int { return b.nodeOf(operator.OpNoise, 0) },
		func(_ *bench, _ *emulate.Device, draws *emulate.Draws) {
			for i := range draws.Data[0] {
				draws.Data[0][i] *= math.Sqrt2
			}
		}},
	{"noise of the sample before", report.FailRNG, func(b *bench) int { return b.nodeOf(operator.OpNoise, 0) },
		func(_ *bench, _ *emulate.Device, draws *emulate.Draws) {
			d := draws.Data[0]
			slices.Reverse(d)
			slices.Reverse(d[:len(d)/2])
			slices.Reverse(d[len(d)/2:])
		}},
	{"alpha and 1-alpha swapped", report.FailRollout, nil, func(b *bench, d *emulate.Device, _ *emulate.Draws) {
		d.Update = func(x, out *tensor.Tensor) *tensor.Tensor {
			y := tensor.Like(x)
			for i, v := range x.Data {
				y.Data[i] = fp16.Float32.Round((1-b.Case.Rollout.Alpha)*v + b.Case.Rollout.Alpha*out.Data[i])
			}
			return y
		}
	}},
}

// faultCalled returns the row of filterFaults with a name.
func faultCalled(want string) testFault {
	for _, f := range filterFaults {
		if f.want == want {
			return f
		}
	}
	panic("filterFaults has no " + want)
}

// TestFilters: each fault has its name in float32 and float16, two of them in every mode, and a
// fault that has none gets none.
func TestFilters(t *testing.T) {
	for _, precision := range []string{"float32", "tf32", "float16", "bfloat16"} {
		b := newBench(t, precision, 0.3)
		faults := filterFaults
		if precision == "tf32" || precision == "bfloat16" {
			faults = []testFault{faultCalled("tanh GELU"), faultCalled("kernel flipped")}
		}
		if precision == "float32" {
			faults = append(slices.Clone(faults), testFault{"operands in tf32", report.FailPrecision, nil,
				func(_ *bench, d *emulate.Device, _ *emulate.Draws) {
					d.Mode = graph.Mode{Precision: fp16.TF32}
				}}, testFault{"activation from a table in steps of 1/32", report.FailPrecision, nil,
				replaced(operator.OpAct, -1, func(_ *bench, _ int, x *tensor.Tensor) *tensor.Tensor {
					y, z := x.Clone(), tensor.Like(x)
					for i, v := range y.Data {
						y.Data[i] = math.RoundToEven(32*v) / 32
					}
					act.Forward(z, y, act.GELU)
					return z
				})}, testFault{"noise in float16", report.FailRNG, func(b *bench) int {
				return b.nodeOf(operator.OpNoise, 0)
			}, func(_ *bench, _ *emulate.Device, draws *emulate.Draws) {
				fp16.Float16.RoundSlice(draws.Data[0], draws.Data[0])
			}})
		}
		if precision == "float16" {
			faults = append(slices.Clone(faults), testFault{
				"operands in FP8 (E4M3)", report.FailPrecision, nil, replaced(operator.OpConv, -1, inFP8),
			}, testFault{"mean and 1/sqrt(var+eps) in float16", report.FailPrecision, nil,
				replaced(operator.OpNorm, -1, narrowStatistics)})
		}
		for _, f := range faults {
			d, draws := b.device, b.draws.Clone()
			for k, data := range draws.Data {
				draws.Data[k] = slices.Clone(data)
			}
			f.make(b, &d, draws)
			s := b.full(t, b.run(t, d, draws, 9))
			if err := b.Filters(s); err != nil {
				t.Fatal(err)
			}
			if len(b.Found) != 1 {
				t.Errorf("%s, %s: %d findings, want 1: %v",
					precision, f.want, len(b.Found), b.Report.Filters[:min(3, len(b.Report.Filters))])
				continue
			}
			g, layer := b.Found[0], ""
			if f.layer != nil {
				layer = b.Machine.Nodes[f.layer(b)].Name
			}
			if !strings.HasPrefix(g.Diagnosis, f.want) || g.Verdict != f.verdict || g.Layer != layer ||
				g.Step != 2 || g.Excess < 1 {
				t.Errorf("%s, %s at %q: found %+v", precision, f.want, layer, g)
			}
			if !b.Report.Filters[0].Found {
				t.Errorf("%s, %s: the first row is %+v", precision, f.want, b.Report.Filters[0])
			}
		}
		d := b.device
		replaced(operator.OpAct, -1, strange)(b, &d, nil)
		if err := b.Filters(b.full(t, b.run(t, d, b.draws, 9))); err != nil {
			t.Fatal(err)
		}
		if len(b.Found) != 0 || len(b.Report.Filters) == 0 {
			t.Errorf("%s: an unknown fault is called %v", precision, b.Found)
		}
		if precision != "float32" {
			continue
		}
		// A known fault that explains six sevenths of what is wrong is no explanation.
		d = b.device
		faultCalled("alpha and 1-alpha swapped").make(b, &d, nil)
		got, right := b.run(t, d, b.draws, 9), b.run(t, b.device, b.draws, 9)
		size := measure.RootMeanSquareDiff(got, right)
		rng := rand.New(rand.NewPCG(8, 8))
		for i := range got {
			got[i] += 0.4 * size * math.Sqrt(12) * (rng.Float64() - 0.5)
		}
		if err := b.Filters(b.full(t, got)); err != nil {
			t.Fatal(err)
		}
		if row := b.Report.Filters[0]; len(b.Found) != 0 || row.Gain < 0.8 {
			t.Errorf("a fault that leaves a seventh of the residual: %v, %+v", b.Found, row)
		}
		// The amplitude of a family, where the states are no linear function of it.
		b.Case.Rollout.Clamp = &[2]float64{-0.4, 0.4}
		b.Machine.Config.Clamp = b.Case.Rollout.Clamp
		d = b.device
		d.Update = func(x, out *tensor.Tensor) *tensor.Tensor {
			y := tensor.Like(x)
			for i, v := range x.Data {
				y.Data[i] = fp16.Float32.Round(max(-0.4, min(0.4, fp16.Float32.Round(0.6*v+0.4*out.Data[i]))))
			}
			return y
		}
		if err := b.Filters(b.full(t, b.run(t, d, b.draws, 9))); err != nil {
			t.Fatal(err)
		}
		if len(b.Found) != 1 || !strings.HasPrefix(b.Found[0].Diagnosis, "alpha 0.6 in place of 0.3") {
			t.Errorf("alpha 0.6, clamped: found %v, %+v", b.Found, b.Report.Filters[0])
		}
	}
}

// inFP8 is a convolution of operands that were scaled to a largest number of 448, rounded to
// 4 significant bits, of which none is below 2^-9, and scaled back.
func inFP8(b *bench, i int, x *tensor.Tensor) *tensor.Tensor {
	n, f := b.Machine.Nodes[i], b.device.Mode.Precision
	narrow := func(v []float64) (y []float64, s float64) {
		y = slices.Clone(v)
		f.RoundSlice(y, y)
		for _, u := range y {
			s = max(s, math.Abs(u)/448)
		}
		s = fp16.Float32.Round(s)
		for k, u := range y {
			m, e := math.Frexp(fp16.Float32.Round(u / s))
			bits := min(4, e+9)
			y[k] = math.Ldexp(math.RoundToEven(math.Ldexp(m, bits)), e-bits)
		}
		return y, s
	}
	q, s := narrow(x.Data)
	w, by := narrow(n.Weight.Data)
	bias := n.Bias
	n.Bias = nil
	y := emulate.Conv(tensor.Of(fp16.Float64, q, x.Shape...), emulate.NewKernel(b.device.Mode, &n, w), n.Geometry)
	for k := range y.Data {
		y.Data[k] *= s * by
	}
	if bias != nil {
		apart := b.device.Apart(i, f)
		for k := range y.N() * y.C() {
			for j, p := 0, y.Plane(k/y.C(), k%y.C()); j < len(p); j++ {
				if apart {
					p[j] = f.Round(p[j])
				}
				p[j] += f.Round(bias.Data[k%y.C()])
			}
		}
	}
	return y
}

// narrowStatistics is a norm, of gamma 1 and beta 0, whose mean and inverse deviation are half
// numbers.
func narrowStatistics(b *bench, i int, x *tensor.Tensor) *tensor.Tensor {
	y := x.Clone()
	for k := range y.N() * y.C() {
		p := y.Plane(k/y.C(), k%y.C())
		m, v := measure.Moments(p)
		inverse := fp16.Float16.Round(1 / math.Sqrt(v+b.Machine.Nodes[i].Eps))
		for j, u := range p {
			p[j] = (u - fp16.Float16.Round(m)) * inverse
		}
	}
	return y
}

// strange is an activation that nobody would think of.
func strange(_ *bench, _ int, x *tensor.Tensor) *tensor.Tensor {
	y := tensor.Like(x)
	for i, v := range x.Data {
		y.Data[i] = math.Abs(v) * v / (2 + math.Abs(v))
	}
	return y
}

// TestFiltersOfCorrectDevices: nothing is found, and what could not have been
// found is listed: in float32 every fault that is looked for is seen, unless the
// policy hides the operator.
func TestFiltersOfCorrectDevices(t *testing.T) {
	for _, precision := range []string{"float32", "tf32", "float16", "bfloat16"} {
		for _, alpha := range []float64{0.3, 0.9999} {
			b := newBench(t, precision, alpha)
			for seed := range uint64(3) {
				if err := b.Filters(b.full(t, b.run(t, b.device, b.draws, seed))); err != nil {
					t.Fatal(err)
				}
				if len(b.Found) != 0 {
					t.Errorf("%s, alpha %v: a correct device: %v", precision, alpha, b.Found)
				}
				for _, row := range b.Report.Filters {
					if row.Found {
						t.Errorf("%s, alpha %v: found %+v", precision, alpha, row)
					}
				}
			}
			for _, l := range b.Report.Blind {
				if !(l.Least > 1) {
					t.Errorf("%s, alpha %v: blind from amplitude %v on", precision, alpha, l.Least)
				}
			}
			blind := slices.ContainsFunc(b.Report.Blind,
				func(l report.Blind) bool { return l.Name == "eps outside the square root" })
			lost := slices.ContainsFunc(b.Report.Blind, func(l report.Blind) bool {
				return l.Name == "convolution inputs truncated to 20 bits" && l.Needs == "the layers recorded"
			})
			if lost != (precision == "float32") { // operands of TF32 have fewer
				t.Errorf("%s, alpha %v: inputs of 20 bits listed %v", precision, alpha, lost)
			}
			if precision == "float32" && (alpha == 0.3 && len(b.Report.Blind) > 1 || alpha != 0.3 && !blind) {
				t.Errorf("%s, alpha %v: blind spots %v", precision, alpha, b.Report.Blind)
			}
		}
	}
}
