package probe

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/chain"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// writeProbes writes the probes of a case to a folder of the test.
func writeProbes(t *testing.T, name string) string {
	t.Helper()
	dir, c := t.TempDir(), rig.OpenCase(t, name)
	c.Rollout.Precision = "float16" // for which all are written
	files, err := Write(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			t.Error(err)
		}
	}
	return dir
}

// answer lets a device answer the probes in a folder, in a precision, and
// returns the exam of the answer, with so many layers. change makes the device another one; nil
// leaves it.
func answerProbes(t *testing.T, folder, precision string, layers int, change func(e *facts.Gate, d *emulate.Device),
) *facts.Gate {
	t.Helper()
	c, err := rollout.OpenCase(folder)
	if err != nil {
		t.Fatal(err)
	}
	mode, err := graph.ParseMode(precision, "")
	if err != nil {
		t.Fatal(err)
	}
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	x, shape, err := c.ReadStart()
	if err != nil {
		t.Fatal(err)
	}
	m := c.Rollout.Realizations
	in := tensor.Of(fp16.Float32, x, m, shape.C, shape.H, shape.W)
	e := facts.Begin(&evidence.Evidence{
		Ctx: t.Context(), Case: c, Op: op, Machine: emulate.New(op, c.Rollout), Mode: mode,
	}, &facts.Facts{Report: &report.Report{FirstStep: -1}})
	if e.Stream, err = c.OpenStream("", op, mode); err != nil {
		t.Fatal(err)
	}
	d := &emulate.Device{Mode: mode, BiasTogether: true}
	if d.Store, err = e.Machine.Formats(mode, fp16.Float32); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(e, d)
	}
	var dumped []*safetensors.Tensor
	dump := func(name string, y *tensor.Tensor) {
		s, err := safetensors.OfFloat64s(name, safetensors.F32, []int{y.N(), y.C(), y.H(), y.W()}, y.Data)
		if err != nil {
			t.Fatal(err)
		}
		dumped = append(dumped, s)
	}
	dump("input", in)
	d.Seen = func(i int, y *tensor.Tensor) {
		if i < layers {
			dump(e.Machine.Nodes[i].Name, y)
		}
	}
	draws, err := e.Stream.Draws(0, 0, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Machine.Operator(d, in, emulate.Keep(draws).Rewind())
	if err != nil {
		t.Fatal(err)
	}
	var states []float64
	for k := range m {
		states = append(append(states, in.Samples(k, k+1).Data...), out.Samples(k, k+1).Data...)
	}
	s, err := safetensors.OfFloat64s("trajectory", safetensors.F32, []int{m, 2, shape.C, shape.H, shape.W}, states)
	if err != nil {
		t.Fatal(err)
	}
	start, err := safetensors.OfFloat64s("initial_condition", safetensors.F32, []int{m, shape.C, shape.H, shape.W}, x)
	if err != nil {
		t.Fatal(err)
	}
	for name, all := range map[string][]*safetensors.Tensor{
		"trajectory.safetensors": {start, s}, "layers.safetensors": dumped,
	} {
		if err := safetensors.WriteFile(filepath.Join(folder, name), all,
			map[string]string{"step": "1", "realization": "0"}); err != nil {
			t.Fatal(err)
		}
	}
	if e.Case, err = rollout.OpenCase(folder); err != nil {
		t.Fatal(err)
	}
	if e.States, err = e.Case.ReadTrajectory(); err != nil {
		t.Fatal(err)
	}
	if !IsNonfinite(e.Evidence) {
		rig.Do(t, e, chain.Layers)
	}
	rig.Do(t, e, Check)
	return e
}

// sequentialStatistics lets the norms of a device add up in float32, one number
// after another: on images with a pattern these sums lose most.
func sequentialStatistics(e *facts.Gate, d *emulate.Device) {
	d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		n := &e.Machine.Nodes[i]
		if n.Op != operator.OpNorm || n.Norm == "batch" {
			return nil, nil
		}
		y, x := tensor.Like(in[0]), in[0]
		size, hw := len(x.Data)/x.N()/n.Groups, x.H()*x.W()
		for at := 0; at < len(x.Data); at += size {
			sum := 0.0
			for _, v := range x.Data[at : at+size] {
				sum = fp16.Float32.Round(sum + v)
			}
			mean, squares := fp16.Float32.Round(sum/float64(size)), 0.0
			for _, v := range x.Data[at : at+size] {
				squares = fp16.Float32.Round(squares + fp16.Float32.Round(fp16.Float32.Round(v-mean)*fp16.Float32.Round(v-mean)))
			}
			root := fp16.Float32.Round(1 / math.Sqrt(fp16.Float32.Round(fp16.Float32.Round(squares/float64(size))+n.Eps)))
			for k := at; k < at+size; k++ {
				c := k / hw % x.C()
				y.Data[k] = fp16.Float32.Round(fp16.Float32.Round(
					fp16.Float32.Round(fp16.Float32.Round(x.Data[k]-mean)*root)*n.Weight.Data[c],
				) + n.Bias.Data[c])
			}
		}
		return y, nil
	}
}

// TestProbesOfRightDevices: the folders are cases, with the probes that are
// promised, and a correct device answers them without a finding.
func TestProbesOfRightDevices(t *testing.T) {
	for i, of := range []struct {
		name string
		want []string
	}{
		{"convex_layer_tanh_mult", []string{"variance-ladder", "mean-ladder", "amplitude-ladder", "subnormal-ladder",
			"impulse", "constant-channel", "integer-fill", "accumulator", "nonfinite"}},
		{"no_norm_no_noise", []string{"variance-ladder", "amplitude-ladder", "subnormal-ladder", "impulse",
			"constant-channel", "integer-fill"}},
	} {
		name := of.name
		dir := writeProbes(t, name)
		var names []string
		for j, sub := range []string{"ladders", "integers", "nonfinite"} {
			folder := filepath.Join(dir, sub)
			if _, err := os.Stat(folder); err != nil {
				continue
			}
			for k, precision := range []string{"float32", "float16", "bfloat16"} {
				if (i+j+k)%3 != 0 && !share.All() { // another folder in this precision
					continue
				}
				e := answerProbes(t, folder, precision, math.MaxInt, sequentialStatistics)
				for _, f := range e.Report.Findings {
					t.Errorf("%s, %s, %s: %s", name, sub, precision, f.Text)
				}
				all, err := evidence.ReadProbes(e.Case)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range all {
					names = append(names, p.Name)
				}
			}
		}
		for _, w := range of.want {
			if !slices.Contains(names, w) {
				t.Errorf("%s: no probe %s", name, w)
			}
		}
		if name == "no_norm_no_noise" && slices.Contains(names, "nonfinite") {
			t.Errorf("%s: a NaN is probed where it does not spread", name)
		}
	}
}

// TestProbesOfSmallFaults: what a run cannot show is a fault that the probe
// named beside it shows: it moves the answer to that probe as far as to the
// others, about, and ten times as far as the errors of a correct device do that adds
// statistics up in blocks.
func TestProbesOfSmallFaults(t *testing.T) {
	dir := writeProbes(t, "convex_layer_tanh_mult")
	e := answerProbes(t, filepath.Join(dir, "ladders"), "float32", 0, nil) // without layers, which nobody asks
	all, err := evidence.ReadProbes(e.Case)
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Step(0, 0, len(all), 1)
	if err != nil {
		t.Fatal(err)
	}
	exact, err := e.Machine.Step(&emulate.Device{Mode: e.Mode, State: fp16.Float64}, b.X, b.Draws.Rewind())
	if err != nil {
		t.Fatal(err)
	}
	changes := func(y, was *tensor.Tensor) map[string]float64 { // the largest, by kind
		of := map[string]float64{}
		for k, p := range all {
			if d := rootMeanSquareDiff(y.Samples(k, k+1).Data, was.Samples(k, k+1).Data); measure.Finite(d) {
				of[p.Name] = max(of[p.Name], d)
			}
		}
		return of
	}
	other, err := e.Machine.Step(&emulate.Device{Mode: e.Mode, State: fp16.Float64, Perturb: (&emulate.Legal{
		Machine: e.Machine, U: emulate.Accumulator(e.Mode), Lambda: emulate.CoarseLambda, Member: 1<<30 + 1,
	}).Disturb}, b.X, b.Draws.Rewind())
	if err != nil {
		t.Fatal(err)
	}
	right := changes(other, exact)
	g := e.Op.GraphOf(false, b.X.H(), b.X.W())
	inferred, err := g.Infer(e.Mode, graph.Type{Shape: b.X.Shape, Format: fp16.Float32})
	if err != nil {
		t.Fatal(err)
	}
	of := trial.NewGraph(g, e.Mode, func(v int) graph.Type { return inferred.Type(v) })
	evaluate := func(g *graph.Graph) *tensor.Tensor {
		y, err := lower.Exact(g, []*tensor.Tensor{b.X}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return tensor.Of(fp16.Float64, y, b.X.Shape...)
	}
	was, shown := evaluate(g), 0
	for _, h := range fault.Library() {
		if !h.Small {
			continue
		}
		scopes := []trial.Scope(nil)
		if h.On() {
			scopes = of.Scopes(h, false)
		}
		if len(scopes) == 0 {
			continue // none of this operator
		}
		of, most, shows := changes(evaluate(of.With(h, scopes[0])), was), 0.0, false
		for name, d := range of {
			most, shows = max(most, d), shows || d > 10*right[name]
		}
		if h.Probe == "" && !shows || most < 1e-10 { // none of this operator
			continue
		}
		if !(of[h.Probe] > most/3 && of[h.Probe] > 10*right[h.Probe]) {
			t.Errorf("%s: %s changes by %v, right devices by %v: not what shows it of %v; right %v",
				h.Name, h.Probe, of[h.Probe], right[h.Probe], of, right)
		}
		shown++
	}
	if shown < 8 {
		t.Errorf("%d faults: want those of an operator with norms and activations", shown)
	}
}

func rootMeanSquareDiff(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += (v - b[i]) * (v - b[i])
	}
	return math.Sqrt(sum / float64(len(a)))
}

// TestProbesOfWrongDevices: faults that a rollout's own states hardly show.
func TestProbesOfWrongDevices(t *testing.T) {
	dir := writeProbes(t, "convex_layer_tanh_mult")
	replace := func(
		op operator.Op, f func(e *facts.Gate, d *emulate.Device, i int, in []*tensor.Tensor) *tensor.Tensor,
	) func(*facts.Gate, *emulate.Device) {
		return func(e *facts.Gate, d *emulate.Device) {
			d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if e.Machine.Nodes[i].Op != op {
					return nil, nil
				}
				return f(e, d, i, in), nil
			}
		}
	}
	for _, c := range []struct {
		what, folder, precision string
		change                  func(*facts.Gate, *emulate.Device)
		probe                   string
	}{
		{"eps is missing", "ladders", "bfloat16",
			replace(operator.OpNorm, func(e *facts.Gate, d *emulate.Device, i int, in []*tensor.Tensor) *tensor.Tensor {
				m := emulate.New(e.Op, e.Case.Rollout)
				m.Nodes[i].Eps = 1e-30
				y, err := m.Plain(d, i, in, nil)
				if err != nil {
					t.Fatal(err)
				}
				return y
			}), "variance-ladder 0."},
		{"squares overflow", "ladders", "float16",
			replace(operator.OpNorm, func(e *facts.Gate, d *emulate.Device, i int, in []*tensor.Tensor) *tensor.Tensor {
				y, err := e.Machine.Plain(d, i, in, nil)
				if err != nil {
					t.Fatal(err)
				}
				for n := range y.N() { // a layer norm: one group a sample
					for _, v := range in[0].Samples(n, n+1).Data {
						if v*v > 65504 {
							clear(y.Samples(n, n+1).Data)
						}
					}
				}
				return y
			}), "amplitude-ladder"},
		{"subnormal numbers are flushed", "ladders", "float16", func(e *facts.Gate, d *emulate.Device) {
			d.Round = func(i int, y []float64, f fp16.Format) {
				f.RoundSlice(y, y)
				for k, v := range y {
					if v < 0x1p-14 && v > -0x1p-14 {
						y[k] = 0
					}
				}
			}
		}, "ladder"},
		{"taps are swapped", "integers", "bfloat16",
			replace(operator.OpConv, func(e *facts.Gate, d *emulate.Device, i int, in []*tensor.Tensor) *tensor.Tensor {
				n := e.Machine.Nodes[i]
				w := slices.Clone(n.Weight.Data)
				w[0], w[len(w)-1] = w[len(w)-1], w[0]
				return emulate.Wide(emulate.Operand(d.Mode, in[0], fp16.BFloat16), emulate.NewKernel(d.Mode, &n, w), n.Geometry)
			}), "integer-fill"},
		{"an accumulator in bfloat16", "integers", "bfloat16",
			replace(operator.OpConv, func(e *facts.Gate, d *emulate.Device, i int, in []*tensor.Tensor) *tensor.Tensor {
				if i != 0 {
					return nil
				}
				n := e.Machine.Nodes[i]
				y := (*tensor.Tensor)(nil)
				for c := range in[0].C() { // channel after channel
					w := slices.Clone(n.Weight.Data)
					for k := range w {
						if k/(n.Weight.Shape[2]*n.Weight.Shape[3])%in[0].C() != c {
							w[k] = 0
						}
					}
					part := emulate.Wide(in[0], emulate.NewKernel(d.Mode, &n, w), n.Geometry)
					if y == nil {
						y = tensor.Like(part)
					}
					for k, v := range part.Data {
						y.Data[k] = fp16.BFloat16.Round(y.Data[k] + v)
					}
				}
				return y
			}), "integer-fill"},
		{"a NaN is swallowed", "nonfinite", "float32",
			replace(operator.OpAct, func(e *facts.Gate, d *emulate.Device, i int, in []*tensor.Tensor) *tensor.Tensor {
				y := tensor.Like(in[0])
				act.Forward(y, in[0], e.Machine.Nodes[i].Act)
				for k, v := range y.Data {
					if v != v {
						y.Data[k] = 0
					}
				}
				return y
			}), "nonfinite"},
		{"a NaN reaches the next sample", "nonfinite", "float32", replace(operator.OpNoise,
			func(e *facts.Gate, d *emulate.Device, i int, in []*tensor.Tensor) *tensor.Tensor {
				y := in[0].Clone()
				y.Plane(3, 0)[0] = y.Plane(2, 0)[0]
				return y
			}), "nonfinite"},
	} {
		// The fault is in every block: the layers of the first one are enough.
		e := answerProbes(t, filepath.Join(dir, c.folder), c.precision, 3, c.change)
		found := slices.ContainsFunc(e.Report.Findings, func(f report.Finding) bool {
			return f.Gate == "probe" && strings.Contains(f.Text, "the probe "+c.probe) ||
				f.Gate == "probe" && strings.Contains(f.Text, c.probe)
		})
		if !found {
			t.Errorf("%s: the probe %s does not show it: %d findings", c.what, c.probe, len(e.Report.Findings))
			for _, f := range e.Report.Findings {
				t.Logf("%+v", f)
			}
		}
	}
}

// TestProbeList: a folder whose list does not fit its case is refused.
func TestProbeList(t *testing.T) {
	dir := writeProbes(t, "no_norm_no_noise")
	folder := filepath.Join(dir, "integers")
	if err := os.WriteFile(filepath.Join(folder, evidence.ProbesFile), []byte(`{"probes": [{"name": "impulse"}]}`),
		0o666); err != nil {
		t.Fatal(err)
	}
	c, err := rollout.OpenCase(folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evidence.ReadProbes(c); err == nil || !strings.Contains(err.Error(), "1 probes: want ") {
		t.Errorf("error %v: want one that says how many probes belong there", err)
	}
}
