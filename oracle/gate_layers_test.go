package oracle

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// newExam prepares the check of a case, with no gate run.
func newExam(t *testing.T, c *rollout.Case, mode operator.Mode, noise string) *gate {
	t.Helper()
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	states, err := c.ReadTrajectory()
	if err != nil {
		t.Fatal(err)
	}
	e := newGate(&evidence{ctx: context.Background(), c: c, op: op, machine: emulate.New(op, c.Rollout), states: states, mode: mode}, &facts{r: &report.Report{FirstStep: -1}})
	if noise != "unknown" {
		if e.stream, err = c.OpenStream(noise, op, mode); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// TestRecordedLayers: every layer that PyTorch recorded is right: no element
// outside of its interval, no statistic over its limit.
func TestRecordedLayers(t *testing.T) {
	check := func(t *testing.T, c *rollout.Case, mode operator.Mode) {
		if c.Layers == nil {
			return
		}
		for _, noise := range []string{"", "unknown"} {
			e := newExam(t, c, mode, noise)
			do(t, e, checkLayers)
			if len(e.r.Layers) < len(e.machine.Nodes)-4 { // residual sums are not recorded everywhere
				t.Errorf("%d of %d layers were checked", len(e.r.Layers), len(e.machine.Nodes))
			}
			for _, f := range e.r.Findings {
				t.Errorf("noise %q: %s: %s", noise, f.Verdict, f.Text)
			}
		}
	}
	dirs, err := filepath.Glob("../testdata/rollouts/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			c, err := rollout.OpenCase(dir)
			if err != nil {
				t.Fatal(err)
			}
			mode, err := operator.ParseMode(c.Rollout.Precision, "")
			if err != nil {
				t.Fatal(err)
			}
			check(t, c, mode)
		})
	}
	autocastCases(t, func(t *testing.T, _ string, c *rollout.Case, m operator.Mode) { check(t, c, m) })
}

// scattered changes every number by a part of it, up or down by its place.
func scattered(part float64) func(y *tensor.Tensor) {
	return func(y *tensor.Tensor) {
		for k, v := range y.Data {
			if mix64(uint64(k))%2 == 0 {
				v = -v
			}
			y.Data[k] += v * part
		}
	}
}

// recording is one application of an operator by some device, as a layers file
// has it.
type recording struct {
	e     *gate
	from  int // realization
	names []string
	of    map[string]*tensor.Tensor
}

// record runs a device on a state of two realizations of the case, from is the
// first of them.
func record(t *testing.T, e *gate, d emulate.Device, step, from int) *recording {
	t.Helper()
	b, err := e.step(0, from, min(from+2, e.states.M), step)
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{e: e, from: from, of: map[string]*tensor.Tensor{}}
	keep := func(name string, f fp16.Format, x *tensor.Tensor) {
		r.names = append(r.names, name)
		r.of[name] = tensor.Of(f, append([]float64(nil), x.Data...), x.N(), x.C(), x.H(), x.W())
	}
	keep("input", fp16.Float32, b.X)
	d.Seen = func(i int, y *tensor.Tensor) {
		f := d.Store[i]
		if !onFormat(f, y.Data) || f == fp16.Float64 {
			f = fp16.Float32
			f.RoundSlice(y.Data, y.Data)
		}
		keep(e.machine.Nodes[i].Name, f, y)
	}
	if _, err := e.machine.Operator(&d, b.X, b.Draws.Rewind()); err != nil {
		t.Fatal(err)
	}
	return r
}

// examine runs the gate on what is left of the recording without some modules.
func (r *recording) examine(t *testing.T, step string, without ...string) *report.Report {
	t.Helper()
	var all []*safetensors.Tensor
	for _, name := range r.names {
		drop := false
		for _, w := range without {
			drop = drop || strings.HasSuffix(name, w)
		}
		if drop {
			continue
		}
		x := r.of[name]
		s, err := safetensors.OfFloat64s(name, safetensors.DTypeOf(x.Format), []int{x.N(), x.C(), x.H(), x.W()}, x.Data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	var b bytes.Buffer
	_, lo, hi := batchOf(r.e.c.Rollout, r.from)
	if err := safetensors.Write(&b, all, map[string]string{"step": step, "realization": fmt.Sprint(r.from), "batch": fmt.Sprint(hi - lo)}); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Parse("layers", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	e := &layersGate{newGate(r.e.evidence, &facts{r: &report.Report{FirstStep: -1}})}
	l, err := openLayers(f, e.machine, e.op.Config.InputChannels, e.c.Rollout)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.layerFile(l); err != nil {
		t.Fatal(err)
	}
	e.r.Findings = e.found
	return e.r
}

// layerModes are claims with the devices that keep them.
var layerModes = []string{"float32", "tf32", "float16", "bfloat16"}

func layerExam(t *testing.T, name, precision string) (*gate, emulate.Device) {
	t.Helper()
	mode, err := operator.ParseMode(precision, "")
	if err != nil {
		t.Fatal(err)
	}
	e := newExam(t, openCase(t, name), mode, "counter")
	d := emulate.Device{Mode: mode}
	if d.Store, err = e.machine.Formats(mode, fp16.Float32); err != nil {
		t.Fatal(err)
	}
	return e, d
}

// sum32 is a convolution whose float32 sums are formed one term after another,
// from the last to the first if backwards, or in blocks of eight that are
// summed exactly and then cut off.
func sum32(m *emulate.Machine, mode operator.Mode, backwards, cut bool) func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
	return func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		n := &m.Nodes[i]
		if n.Op != operator.OpConv {
			return nil, nil
		}
		f, _, _ := n.Formats(mode, fp16.Float32)
		s, x := n.Weight.Shape, emulate.Operand(mode, in[0], f)
		w := emulate.Operand(mode, tensor.Of(fp16.Float64, n.Weight.Data, s[0], s[1], s[2], s[3]), f)
		y := tensor.New(fp16.Float64, x.N(), s[0], x.H(), x.W())
		var terms []float64
		for k := range y.Data {
			row, col, o, at := k/y.W()%y.H(), k%y.W(), k/(y.W()*y.H())%y.C(), k/(y.W()*y.H()*y.C())
			terms = terms[:0]
			for c := range x.C() {
				for a := range s[2] {
					for b := range s[3] {
						if p, q := row+a-n.Geometry.Pad[0], col+b-n.Geometry.Pad[0]; 0 <= p && p < x.H() && 0 <= q && q < x.W() {
							terms = append(terms, x.Plane(at, c)[p*x.W()+q]*w.Plane(o, c)[a*s[3]+b])
						}
					}
				}
			}
			sum := 0.0
			for j := range terms {
				v := terms[j]
				if backwards {
					v = terms[len(terms)-1-j]
				}
				switch {
				case !cut:
					sum = single(sum + single(v))
				default:
					sum += v
					if j%8 == 7 || j == len(terms)-1 {
						sum = truncated(sum)
					}
				}
			}
			if n.Bias != nil {
				b := n.Bias.Data[o]
				if f == fp16.Float16 || f == fp16.BFloat16 {
					b = f.Round(b)
				}
				sum = single(sum + b)
			}
			y.Data[k] = sum
		}
		return y, nil
	}
}

// foldedNorms is a device that multiplies the weights of convolutions with the
// factors of the batch norms behind them, in float32, and has no norms.
func foldedNorms(e *gate, d emulate.Device) emulate.Device {
	nodes := e.machine.Nodes
	d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		if nodes[i].Op == operator.OpNorm {
			return in[0].Clone(), nil
		}
		if nodes[i].Op != operator.OpConv || i+1 == len(nodes) || nodes[i+1].Op != operator.OpNorm {
			return nil, nil
		}
		n, b := nodes[i], &nodes[i+1]
		w := append([]float64(nil), n.Weight.Data...)
		bias := *b.Bias
		bias.Data = append([]float64(nil), b.Bias.Data...)
		for o := range bias.Data {
			a := single(b.Weight.Data[o] / math.Sqrt(b.Variance.Data[o]+b.Eps))
			bias.Data[o] = single(bias.Data[o] - single(b.Mean.Data[o]*a))
			for k := o * len(w) / len(bias.Data); k < (o+1)*len(w)/len(bias.Data); k++ {
				w[k] = single(w[k] * a)
			}
		}
		n.Bias = &bias
		return emulate.Conv(in[0], emulate.NewKernel(d.Mode, &n, w), n.Geometry), nil
	}
	return d
}

// TestRightLayers: devices that add in other orders, store fewer layers, or
// leave layers out of the file, are right.
func TestRightLayers(t *testing.T) {
	for _, name := range []string{"convex_layer_tanh_mult", "no_norm_no_noise", "autoregressive_batch_relu"} {
		for _, precision := range layerModes {
			t.Run(name+"/"+precision, func(t *testing.T) {
				e, d := layerExam(t, name, precision)
				right := func(what string, d emulate.Device, without ...string) {
					t.Helper()
					r := record(t, e, d, 2, min(3, e.states.M-1)).examine(t, "2", without...)
					if len(r.Layers) == 0 {
						t.Errorf("%s: no layer was checked", what)
					}
					for _, f := range r.Findings {
						t.Errorf("%s: %s: %s", what, f.Verdict, f.Text)
					}
				}
				o := d
				o.BiasTogether = true
				o.Replace = sum32(e.machine, d.Mode, false, false)
				right("sums of float32", o)
				right("sums of float32, norms not in the file", o, "block.1")
				o.Replace = sum32(e.machine, d.Mode, true, true)
				right("backward sums in blocks that are cut off", o)
				o = d
				right("without convolutions and activations", o, "block.0", "block.2")
				o.Store = append([]fp16.Format(nil), d.Store...)
				for i := range e.machine.Nodes {
					if e.machine.Nodes[i].Op == operator.OpConv {
						o.Store[i] = fp16.Float64
					}
				}
				right("convolutions that are not rounded, and not in the file", o, "block.0", "output_layer.conv")
				right("convolutions that are not rounded", o)
				if e.op.Config.Normalization == "batch" && d.Mode.Precision == fp16.Float32 {
					right("batch norms folded into the convolutions", foldedNorms(e, d), "block.1")
				}
			})
		}
	}
}

// TestWrongLayers: each fault is found in its layer, as the kind of thing it is.
func TestWrongLayers(t *testing.T) {
	const norm, activation = "conv_blocks.1.block.1", "conv_blocks.1.block.2"
	const layer = "conv_blocks.1.block.0"
	at := func(e *gate, name string) int {
		for i := range e.machine.Nodes {
			if e.machine.Nodes[i].Name == name {
				return i
			}
		}
		t.Fatalf("no layer %s", name)
		return 0
	}
	// perturb changes the output of one node before it is rounded.
	perturb := func(node string, f func(y *tensor.Tensor)) func(*gate, *emulate.Device) {
		return func(e *gate, d *emulate.Device) {
			k := at(e, node)
			d.Perturb = func(i int, y *tensor.Tensor, _ []*tensor.Tensor) {
				if i == k {
					f(y)
				}
			}
		}
	}
	for _, c := range []struct {
		what      string
		modes     []string
		fault     func(e *gate, d *emulate.Device)
		layer     string
		verdict   report.Verdict
		slice     string // a part of it
		diagnosis string // a part of it
		gate      string
	}{
		{"TF32 operands", []string{"float32"}, func(e *gate, d *emulate.Device) {
			k, tf32 := at(e, layer), operator.Mode{Precision: fp16.TF32}
			d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if i != k {
					return nil, nil
				}
				return e.machine.Plain(&emulate.Device{Mode: tf32}, i, in, nil)
			}
		}, layer, report.FailPrecision, "", "tf32", ""},
		{"numbers cut off when stored", []string{"float16", "bfloat16"}, func(e *gate, d *emulate.Device) {
			k := at(e, layer)
			d.Round = func(i int, y []float64, f fp16.Format) {
				for j, v := range y {
					r := f.Round(v)
					if i == k && (r > v && v > 0 || r < v && v < 0) {
						if r = f.NextDown(r); v < 0 {
							r = f.NextUp(f.NextUp(r))
						}
					}
					y[j] = r
				}
			}
		}, layer, report.FailPrecision, "", "truncated", ""},
		{"a row of another row", layerModes, perturb(layer, func(y *tensor.Tensor) {
			for k := range y.N() * y.C() {
				copy(y.Plane(k/y.C(), k%y.C())[5*y.W():6*y.W()], y.Plane(k/y.C(), k%y.C())[4*y.W():5*y.W()])
			}
		}), layer, report.FailLogic, "row 5", "", ""},
		{"one wrong element", layerModes, perturb(norm, func(y *tensor.Tensor) { y.Plane(1, 3)[7*y.W()+2] += 0.25 }), norm, report.FailLogic, "", "", ""},
		{"a tile of 4x4 of another channel", layerModes, perturb(norm, func(y *tensor.Tensor) {
			for r := range 4 {
				copy(y.Plane(1, 3)[r*y.W():r*y.W()+4], y.Plane(1, 4)[r*y.W():r*y.W()+4])
			}
		}), norm, report.FailLogic, "sample 1, channel 3, a tile of 4x4 at (0,0)", "", ""},
		{"one sum a little off", []string{"float32", "tf32"}, perturb(layer, func(y *tensor.Tensor) { y.Plane(1, 3)[7*y.W()+2] += 0x1p-8 }), layer, report.FailPrecision, "", "", "bound"},
		{"sums with errors 25 times those of float32", []string{"float32", "tf32"}, perturb(layer, scattered(0x1p-18)), layer, report.FailPrecision, "", "", "statistics"},
		{"sums whose errors turn roundings", []string{"float16"}, perturb(layer, scattered(0x1p-15)), layer, report.FailPrecision, "", "", "statistics"},
		{"another activation", layerModes, func(e *gate, d *emulate.Device) {
			k := at(e, activation)
			d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if i != k {
					return nil, nil
				}
				y := tensor.Like(in[0])
				act.Forward(y, in[0], act.SiLU)
				return y, nil
			}
		}, activation, report.FailLogic, "", "silu", ""},
		{"noise a thousandth too large", []string{"float32", "tf32"}, func(e *gate, d *emulate.Device) {
			d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
				if e.machine.Nodes[i].Op == operator.OpNoise {
					for k, v := range in[0].Data {
						y.Data[k] = v + (y.Data[k]-v)*1.001
					}
				}
			}
		}, "stochastic_block", report.FailRNG, "", "", ""},
	} {
		for _, precision := range c.modes {
			e, d := layerExam(t, "convex_layer_tanh_mult", precision)
			c.fault(e, &d)
			r := record(t, e, d, 2, 0).examine(t, "2")
			if len(r.Findings) == 0 {
				t.Errorf("%s, %s: not found", c.what, precision)
				continue
			}
			f := r.Findings[0]
			if f.Layer != c.layer || f.Verdict != c.verdict || f.Step != 2 || !strings.Contains(f.Slice, c.slice) || !strings.Contains(f.Diagnosis, c.diagnosis) || !(f.Excess > 1) || c.gate != "" && f.Gate != c.gate {
				t.Errorf("%s, %s: gate %s: %s at step %d in %s, slice %q, diagnosis %q: want %s in %s, %q, %q: %s",
					c.what, precision, f.Gate, f.Verdict, f.Step, f.Layer, f.Slice, f.Diagnosis, c.verdict, c.layer, c.slice, c.diagnosis, f.Text)
			}
			if len(r.Findings) > 1 {
				t.Errorf("%s, %s: a second layer is found wrong: %s", c.what, precision, r.Findings[1].Text)
			}
			if c.what == "one wrong element" {
				if w := r.Worst[0]; w.Layer != norm || w.Realization != 1 || w.C != 3 || w.H != 7 || w.W != 2 || !(w.Error > 1) {
					t.Errorf("%s: the worst element is %+v: want [1,3,7,2]", precision, w)
				}
			}
		}
	}
}

// TestWrongInput: an operator that read another state than the one before.
func TestWrongInput(t *testing.T) {
	e, d := layerExam(t, "convex_layer_tanh_mult", "float32")
	r := record(t, e, d, 3, 0).examine(t, "2")
	if len(r.Findings) == 0 || r.Findings[0].Verdict != report.FailRollout || !strings.Contains(r.Findings[0].Text, "the one at 2") {
		t.Errorf("findings %+v: want the first of the rollout, and that it names state 2", r.Findings)
	}
}
