package steps

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestCompilers: what compilers do to the casts, constants and batch norms of a half mode is
// found, and is no fault.
func TestCompilers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, norm, want string
		change           func(p *emulate.Pattern)
	}{
		{"every cast dropped", "instance", "takes inputs of convolutions unrounded",
			func(p *emulate.Pattern) { p.Points, p.Wide = 0, emulate.WideAll }},
		{"inner casts dropped", "instance", "takes inputs of convolutions unrounded but for the state",
			func(p *emulate.Pattern) { p.Points, p.Wide = p.Points&^emulate.AtAct, emulate.WideInner }},
		{"the first cast dropped", "instance", "takes the state unrounded",
			func(p *emulate.Pattern) { p.Points, p.Wide = p.Points&^emulate.AtAct, emulate.WideState }},
		{"like XLA", "instance", "constants in bfloat16", func(p *emulate.Pattern) {
			p.Points, p.Constants = p.Points&^emulate.AtConv|emulate.AtBias, emulate.AllConstants
		}},
		{"like OpenVINO", "batch", "batch norms in the weights", func(p *emulate.Pattern) {
			p.Points, p.Folded = emulate.AtAct|emulate.AtOut, true
		}},
		{"norms split", "instance", "norms before their scale in bfloat16", func(p *emulate.Pattern) {
			p.Points, p.Split = p.Points&^emulate.AtNorm, true
		}},
		{"like MI200", "instance", "subnormal operands flushed", func(p *emulate.Pattern) { p.Flat = true }},
	} {
		precision := "bfloat16"
		if c.name == "like MI200" {
			precision = "float16"
		}
		b := newStepBench(t, precision, "cpu", c.norm, convex(.3))
		if c.name == "like MI200" { // a norm makes up for small weights
			for i, v := range b.gate.e.Machine.Nodes[0].Weight.Data {
				b.gate.e.Machine.Nodes[0].Weight.Data[i] = v * 0x1p-10
			}
		}
		if c.name == "norms split" { // by 1 and 0 they would be what they were
			scaleNorms(b)
		}
		p := b.gate.claim
		c.change(&p)
		b.device = func(int) *emulate.Device { return b.correct(p, 1) }
		if r := b.check(); len(r.Findings) > 0 || !strings.HasSuffix(r.Contract, c.want) &&
			!strings.HasSuffix(r.Pattern, c.want) {
			t.Errorf("%s: contract %q, pattern %q, findings %v", c.name, r.Contract, r.Pattern, r.Findings)
		}
	}
}

// TestInstead: a compiler that drops every cast is right by another contract than the claimed; that
// it has a constant in half besides is one more pattern, and no fault of the policy.
func TestInstead(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "float16", "cuda", "group", rollout.Config{Policy: rollout.Residual, Dt: .01})
	b.build(operator.Config{NumLayers: 3, BaseChannels: 8, InputChannels: 3, OutputChannels: 3, KernelSize: 3,
		Activation: "relu", Normalization: "group"}, "none")
	g := b.gate
	bare := g.claim
	bare.Points, bare.Wide = 0, emulate.WideAll
	p := bare
	p.Constants = emulate.OfPolicy // there is no noise
	b.device = func(int) *emulate.Device { return b.correct(p, 1) }
	b.run()
	g.e.Report, g.use = &report.Report{FirstStep: -1}, bare
	all, _, err := g.measureAll()
	if err == nil {
		g.e.Found = []report.Finding{{Step: 1}} // as if a fault were found there
		err = g.conclude(all, nil)
	}
	if err != nil || len(g.e.Found) > 0 || g.use != p {
		t.Errorf("error %v, pattern %+v, findings %v: want the pattern %+v", err, g.use, g.e.Found, p)
	}
}

// scaleNorms gives the norms of a bench parameters that are no powers of two.
func scaleNorms(b *stepBench) {
	for _, n := range b.gate.e.Machine.Nodes {
		if n.Op != operator.OpNorm {
			continue
		}
		for c := range n.Weight.Data {
			n.Weight.Data[c], n.Bias.Data[c] = fp16.Float32.Round(.7+.09*float64(c)), fp16.Float32.Round(.1*float64(c%5)-.17)
		}
	}
}

// TestChained: a compiler that stores only what chains of operations on single numbers end with, and
// norms before their scale, as OpenVINO does in bfloat16, is found, and its pattern is told by
// the nodes that differ from others of their kind.
func TestChained(t *testing.T) {
	t.Parallel()
	ro := convex(.3)
	ro.Timesteps = 4
	b := newDeepStepBench(t, "bfloat16", "cpu", "group", 4, ro)
	scaleNorms(b)
	nodes := b.gate.e.Machine.Nodes
	p := b.gate.claim
	p.Odd, p.Split = emulate.Chained(nodes, true), true
	for i := range nodes {
		j := slices.IndexFunc(nodes, func(n operator.Node) bool { return slices.Contains(n.In, i) })
		fused := nodes[i].Op == operator.OpNorm || j >= 0 && nodes[j].Op == operator.OpNoise ||
			j >= 0 && nodes[j].Op == operator.OpAdd && i == slices.Max(nodes[j].In)
		if p.IsOdd(i) != fused {
			t.Errorf("%s is fused: %v, want %v", nodes[i].Name, p.IsOdd(i), fused)
		}
	}
	b.device = func(int) *emulate.Device { return b.correct(p, 1) }
	r := b.check()
	if len(r.Findings) > 0 || !strings.HasSuffix(r.Contract, "norms before their scale in bfloat16") ||
		!strings.HasPrefix(r.Pattern, "stores conv, act, sum, draw, product, noise, out") ||
		!strings.Contains(r.Pattern, "; not conv_blocks.1.blocks.1.block.2, conv_blocks.2.projection") {
		t.Errorf("contract %q, pattern %q, findings %v", r.Contract, r.Pattern, r.Findings)
	}
}

// TestFold: a convolution with a batch norm in its weights is the two of them.
func TestFold(t *testing.T) {
	t.Parallel()
	b := newStepBench(t, "float32", "", "batch", convex(.3))
	nodes, m := b.gate.e.Machine.Nodes, b.gate.e.Machine
	x := tensor.New(fp16.Float64, 2, 3, 20, 24)
	for k := range x.Data {
		x.Data[k] = float64(k%17)/8 - 1
	}
	folds := 0
	for i, j := range emulate.Folds(nodes) {
		if j == 0 || nodes[i].In[0] != operator.Input {
			continue
		}
		folds++
		d := &emulate.Device{Mode: graph.Mode{Precision: fp16.Float64}}
		n := emulate.Fold(&nodes[i], &nodes[j])
		got, err := d.Convolve(&n, x)
		if err != nil {
			t.Fatal(err)
		}
		y, err := m.Node(d, i, []*tensor.Tensor{x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := m.Node(d, j, []*tensor.Tensor{y}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range want.Data {
			if e := got.Data[k] - v; e > 1e-5 || e < -1e-5 {
				t.Fatalf("%s: element %d is %v, want %v", nodes[i].Name, k, got.Data[k], v)
			}
		}
	}
	if folds != 1 {
		t.Errorf("%d convolutions of the input are folded: want 1", folds)
	}
}

// TestNearer: a device that rounds to another, finer type than the claimed one keeps no
// contract that is known, and is right by its errors alone. One that is as fine but for a
// tile, or for a row, is not, and neither is one that is hardly coarser everywhere.
func TestNearer(t *testing.T) {
	t.Parallel()
	// to rounds to multiples of 1/steps of a number's power of two: bfloat16 has 256.
	to := func(y []float64, steps float64) {
		for k, v := range y {
			m, e := math.Frexp(v)
			y[k] = math.Ldexp(math.RoundToEven(steps*m)/steps, e)
		}
	}
	for _, c := range []struct {
		name  string
		steps float64
		wrong func(plane []float64, w int)
		right bool
	}{
		{"finer", 512, func([]float64, int) {}, true},
		{"finer but for a tile", 512, func(plane []float64, w int) {
			for k := range 16 {
				plane[k/4*w+k%4] *= 1.1
			}
		}, false},
		{"finer but for a row", 512, func(plane []float64, w int) { to(plane[3*w:4*w], 16) }, false},
		{"coarser", 200, func([]float64, int) {}, false},
	} {
		if c.name == "finer but for a row" && !share.All() { // as the tile
			continue
		}
		b := newStepBench(t, "bfloat16", "cpu", "instance", convex(.3))
		b.device = func(int) *emulate.Device {
			d := b.gate.device(b.gate.claim, 1, nil)
			d.Mode, d.Replace, d.Update = graph.Mode{Precision: fp16.TF32}, nil, nil
			d.Round = func(_ int, y []float64, _ fp16.Format) { to(y, c.steps) }
			d.Perturb = func(i int, y *tensor.Tensor, _ []*tensor.Tensor) {
				if i == len(b.gate.e.Machine.Nodes)-1 {
					for n := range y.N() * y.C() {
						c.wrong(y.Plane(n/y.C(), n%y.C()), y.W())
					}
				}
			}
			return d
		}
		b.unnamed = !c.right
		r := b.check()
		if c.right != (len(r.Findings) == 0) {
			t.Errorf("%s: contract %q, findings %v", c.name, r.Contract, r.Findings)
		}
		if c.right && r.Contract != "" {
			t.Errorf("contract %q: want none, this device keeps no known one", r.Contract)
		}
	}
}

// TestNearerByChance: of a device that is clearly nearer a plane of one step may be a little farther, and neither much,
// nor in all steps; of one that is hardly nearer none may.
func TestNearerByChance(t *testing.T) {
	t.Parallel()
	const rest = -1
	for _, c := range []struct {
		name  string
		size  float64 // of the device's errors, in those of the claim
		at    int     // a step, or rest for all
		plane float64 // the same, of a channel there
		want  bool
	}{
		{"nearer", .8, rest, .8, true},
		{"a plane farther by chance", .8, 3, 1.05, true},
		{"a plane much farther", .8, 3, 1.4, false},
		{"a channel farther", .8, rest, 1.05, false},
		{"hardly nearer", .97, 3, 1.05, false},
	} {
		b := newStepBench(t, "bfloat16", "cpu", "instance", convex(.3))
		g := b.gate
		b.device = func(int) *emulate.Device { return g.device(g.claim, 1, nil) }
		b.after = func(step int, y *tensor.Tensor) {
			s, err := g.step(step)
			if err != nil {
				t.Fatal(err)
			}
			mode := graph.Mode{Precision: fp16.Float64}
			o, err := g.e.Machine.Operator(&emulate.Device{Mode: mode}, s.X, s.Draws.Rewind())
			if err != nil {
				t.Fatal(err)
			}
			truth, hw := g.advance(s.X, o, emulate.Pattern{Mode: mode}, nil), y.H()*y.W()
			for i, v := range truth.Data {
				size := c.size
				if i/hw%y.C() == 1 && (c.at == rest || c.at == step) {
					size = c.plane
				}
				y.Data[i] = v + size*(y.Data[i]-v)
			}
		}
		b.run()
		if got, err := newStepGate(g.e.Evidence, g.e.Facts).nearer(); got != c.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}
