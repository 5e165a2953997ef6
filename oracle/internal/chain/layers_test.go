package chain

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestRecordedLayers: every layer that PyTorch recorded is right: no element
// outside of its interval, no statistic over its limit.
func TestRecordedLayers(t *testing.T) {
	check := func(t *testing.T, c *rollout.Case, mode graph.Mode) {
		if c.Layers == nil {
			return
		}
		for _, noise := range []string{"", "unknown"} {
			e := rig.NewExam(t, c, mode, noise)
			rig.Do(t, e, Layers)
			if len(e.Report.Layers) < len(e.Machine.Nodes)-4 { // residual sums are not recorded everywhere
				t.Errorf("%d of %d layers were checked", len(e.Report.Layers), len(e.Machine.Nodes))
			}
			for _, f := range e.Report.Findings {
				t.Errorf("noise %q: %s: %s", noise, f.Verdict, f.Text)
			}
		}
	}
	dirs, err := filepath.Glob(rig.Testdata("rollouts", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			c, err := rollout.OpenCase(dir)
			if err != nil {
				t.Fatal(err)
			}
			mode, err := graph.ParseMode(c.Rollout.Precision, "")
			if err != nil {
				t.Fatal(err)
			}
			check(t, c, mode)
		})
	}
	rig.AutocastCases(t, func(t *testing.T, _ string, c *rollout.Case, m graph.Mode) { check(t, c, m) })
}

// layerModes are claims with the devices that keep them.
var layerModes = []string{"float32", "tf32", "float16", "bfloat16"}

// truncated returns v rounded toward zero to float32.
func truncated(v float64) float64 {
	r := fp16.Float32.Round(v)
	switch {
	case !(math.Abs(r) > math.Abs(v)):
		return r
	case r > 0:
		return fp16.Float32.NextDown(r)
	}
	return fp16.Float32.NextUp(r)
}

// sum32 is a convolution whose float32 sums are formed one term after another,
// from the last to the first if backwards, or in blocks of eight that are
// summed exactly and then cut off.
func sum32(
	m *emulate.Machine, mode graph.Mode, backwards, cut bool,
) func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
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
					sum = fp16.Float32.Round(sum + fp16.Float32.Round(v))
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
				sum = fp16.Float32.Round(sum + b)
			}
			y.Data[k] = sum
		}
		return y, nil
	}
}

// foldedNorms is a device that multiplies the weights of convolutions with the
// factors of the batch norms behind them, in float32, and has no norms.
func foldedNorms(e *facts.Gate, d emulate.Device) emulate.Device {
	nodes := e.Machine.Nodes
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
			a := fp16.Float32.Round(b.Weight.Data[o] / math.Sqrt(b.Variance.Data[o]+b.Eps))
			bias.Data[o] = fp16.Float32.Round(bias.Data[o] - fp16.Float32.Round(b.Mean.Data[o]*a))
			for k := o * len(w) / len(bias.Data); k < (o+1)*len(w)/len(bias.Data); k++ {
				w[k] = fp16.Float32.Round(w[k] * a)
			}
		}
		n.Bias = &bias
		return emulate.Wide(in[0], emulate.NewKernel(d.Mode, &n, w), n.Geometry), nil
	}
	return d
}

// TestRightLayers: devices that add in other orders, store fewer layers, or
// leave layers out of the file, are right.
func TestRightLayers(t *testing.T) {
	for n, name := range []string{"convex_layer_tanh_mult", "no_norm_no_noise", "autoregressive_batch_relu"} {
		for k, precision := range layerModes {
			if !share.All() && n > 0 && (n+k)%2 == 1 {
				continue
			}
			t.Run(name+"/"+precision, func(t *testing.T) {
				e, d := rig.LayerExam(t, name, precision)
				right := func(what string, d emulate.Device, without ...string) {
					t.Helper()
					r := rig.Record(t, e, d, 2, min(3, e.States.M-1)).Examine(t, Layers, "2", without...)
					if len(r.Layers) == 0 {
						t.Errorf("%s: no layer was checked", what)
					}
					for _, f := range r.Findings {
						t.Errorf("%s: %s: %s", what, f.Verdict, f.Text)
					}
				}
				turn := n + k
				half := func(what string, d emulate.Device, without ...string) { // in every second mode of a network
					t.Helper()
					if turn++; turn%2 == 0 {
						right(what, d, without...)
					}
				}
				o := d
				o.BiasTogether = true
				o.Replace = sum32(e.Machine, d.Mode, false, false)
				half("sums of float32", o)
				half("sums of float32, norms not in the file", o, "block.1")
				o.Replace = sum32(e.Machine, d.Mode, true, true)
				right("backward sums in blocks that are cut off", o)
				o = d
				half("without convolutions and activations", o, "block.0", "block.2")
				o.Store = append([]fp16.Format(nil), d.Store...)
				for i := range e.Machine.Nodes {
					if e.Machine.Nodes[i].Op == operator.OpConv {
						o.Store[i] = fp16.Float64
					}
				}
				half("convolutions that are not rounded, and not in the file", o, "block.0", "output_layer.conv")
				half("convolutions that are not rounded", o)
				if d.Mode.Precision == fp16.Float16 || d.Mode.Precision == fp16.BFloat16 {
					o.Wide, o.BiasTogether = emulate.WideAll, true
					for i, f := range o.Store {
						if f == d.Mode.Precision && i < len(o.Store)-1 {
							o.Store[i] = fp16.Float32
						}
					}
					right("convolutions that round neither their inputs nor themselves, and are not in the file", o,
						"block.0", "output_layer.conv")
				}
				if e.Op.Config.Normalization == "batch" && d.Mode.Precision == fp16.Float32 {
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
	at := func(e *facts.Gate, name string) int {
		for i := range e.Machine.Nodes {
			if e.Machine.Nodes[i].Name == name {
				return i
			}
		}
		t.Fatalf("no layer %s", name)
		return 0
	}
	// perturb changes the output of one node before it is rounded.
	perturb := func(node string, f func(y *tensor.Tensor)) func(*facts.Gate, *emulate.Device) {
		return func(e *facts.Gate, d *emulate.Device) {
			k := at(e, node)
			d.Perturb = func(i int, y *tensor.Tensor, _ []*tensor.Tensor) {
				if i == k {
					f(y)
				}
			}
		}
	}
	for i, c := range []struct {
		what      string
		modes     []string
		fault     func(e *facts.Gate, d *emulate.Device)
		layer     string
		verdict   report.Verdict
		slice     string // a part of it
		diagnosis string // a part of it
		gate      string
	}{
		{"TF32 operands", []string{"float32"}, func(e *facts.Gate, d *emulate.Device) {
			k, tf32 := at(e, layer), graph.Mode{Precision: fp16.TF32}
			d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if i != k {
					return nil, nil
				}
				return e.Machine.Plain(&emulate.Device{Mode: tf32}, i, in, nil)
			}
		}, layer, report.FailPrecision, "", "TF32", ""},
		{"numbers cut off when stored", []string{"float16", "bfloat16"}, func(e *facts.Gate, d *emulate.Device) {
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
		}, layer, report.FailPrecision, "", "cut off", ""},
		{"a row of another row", layerModes, perturb(layer, func(y *tensor.Tensor) {
			for k := range y.N() * y.C() {
				copy(y.Plane(k/y.C(), k%y.C())[5*y.W():6*y.W()], y.Plane(k/y.C(), k%y.C())[4*y.W():5*y.W()])
			}
		}), layer, report.FailLogic, "image row 5", "", ""},
		{"one wrong element", layerModes, perturb(norm, func(y *tensor.Tensor) { y.Plane(1, 3)[7*y.W()+2] += 0.25 }),
			norm, report.FailLogic, "", "", ""},
		{"a tile of 4x4 of another channel", layerModes, perturb(norm, func(y *tensor.Tensor) {
			for r := range 4 {
				copy(y.Plane(1, 3)[r*y.W():r*y.W()+4], y.Plane(1, 4)[r*y.W():r*y.W()+4])
			}
		}), norm, report.FailLogic, "realization 1, channel 3, a tile of 4x4 at (0,0)", "", ""},
		{"one sum a little off", []string{"float32", "tf32"}, perturb(
			layer, func(y *tensor.Tensor) { y.Plane(1, 3)[7*y.W()+2] += 0x1p-10 },
		), layer, report.FailPrecision, "", "", "bound"},
		{"sums with errors 25 times those of float32", []string{"float32", "tf32"},
			perturb(layer, rig.Scattered(0x1p-18)), layer, report.FailPrecision, "", "", "statistics"},
		{"sums whose errors turn roundings", []string{"float16"}, perturb(layer, rig.Scattered(0x1p-14)), layer,
			report.FailPrecision, "", "", ""},
		{"another activation", layerModes, func(e *facts.Gate, d *emulate.Device) {
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
		{"all of the block times 0.925", []string{"float32", "float16"}, perturb("stochastic_block", func(y *tensor.Tensor) {
			for k := range y.Data {
				y.Data[k] *= .925
			}
		}), "stochastic_block", report.FailRNG, "", "times 0.925", ""},
		{"noise a thousandth too large", []string{"float32", "tf32"}, func(e *facts.Gate, d *emulate.Device) {
			d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
				if e.Machine.Nodes[i].Op == operator.OpNoise {
					for k, v := range in[0].Data {
						y.Data[k] = v + (y.Data[k]-v)*1.001
					}
				}
			}
		}, "stochastic_block", report.FailRNG, "", "", ""},
	} {
		for k, precision := range c.modes {
			if !share.All() && k != i%len(c.modes) {
				continue
			}
			e, d := rig.LayerExam(t, "convex_layer_tanh_mult", precision)
			c.fault(e, &d)
			r := rig.Record(t, e, d, 2, 0).Examine(t, Layers, "2")
			if len(r.Findings) == 0 {
				t.Errorf("%s, %s: not found", c.what, precision)
				continue
			}
			f := r.Findings[0]
			if f.Layer != c.layer || f.Verdict != c.verdict || f.Step != 2 || !strings.Contains(f.Slice, c.slice) ||
				!strings.Contains(f.Diagnosis, c.diagnosis) || !(f.Excess > 1) || c.gate != "" && f.Gate != c.gate {
				t.Errorf("%s, %s: gate %s: %s at step %d in %s, slice %q, diagnosis %q: want %s in %s, %q, %q: %s",
					c.what, precision, f.Gate, f.Verdict, f.Step, f.Layer, f.Slice, f.Diagnosis, c.verdict, c.layer,
					c.slice, c.diagnosis, f.Text)
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
	e, d := rig.LayerExam(t, "convex_layer_tanh_mult", "float32")
	r := rig.Record(t, e, d, 3, 0).Examine(t, Layers, "2")
	if len(r.Findings) == 0 || r.Findings[0].Verdict != report.FailRollout ||
		!strings.Contains(r.Findings[0].Text, "the one at 2") {
		t.Errorf("findings %+v: want the first of the rollout, and that it names state 2", r.Findings)
	}
}

// TestRecordedDraws: noise that was recorded with its draws is judged by them, and is wrong where its scale is.
func TestRecordedDraws(t *testing.T) {
	for _, scale := range []float64{1, 1.125} {
		e, d := rig.LayerExam(t, "convex_layer_tanh_mult", "float16")
		d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
			if e.Machine.Nodes[i].Op == operator.OpNoise {
				for k, v := range in[0].Data {
					y.Data[k] = v + (y.Data[k]-v)*scale
				}
			}
		}
		r := rig.Record(t, e, d, 2, 0)
		b, err := e.Step(0, 0, 2, 2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Machine.Operator(&d, b.X, b.Draws.Rewind()); err != nil { // it draws
			t.Fatal(err)
		}
		const name = "stochastic_block.draw0.normal"
		r.Names = append(r.Names, name)
		r.Outputs[name] = tensor.Of(fp16.Float32, b.Draws.Data[0], r.Outputs["stochastic_block"].Shape...)
		r.Exam.Stream = nil
		found := r.Examine(t, Layers, "2").Findings
		if right := len(found) == 0; right != (scale == 1) || !right && found[0].Verdict != report.FailRNG {
			t.Errorf("scale times %v: findings %v", scale, found)
		}
	}
}
