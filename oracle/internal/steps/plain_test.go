package steps

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/chain"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/match"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// plainBench is a rollout of an operator whose norm has parameters or not.
func plainBench(t *testing.T, affine bool) *stepBench {
	t.Helper()
	b := newStepBench(t, "bfloat16", "cpu", "instance", convex(.4))
	b.build(operator.Config{InputChannels: 3, Nodes: []operator.NodeConfig{
		{Op: "conv", Name: "0", OutChannels: 8, KernelSize: 3, PaddingMode: "zeros"},
		{Op: "norm", Name: "1", Normalization: "instance", NoAffine: !affine},
		{Op: "act", Name: "2", Activation: "gelu"},
		{Op: "conv", Name: "3", OutChannels: 3, KernelSize: 1, PaddingMode: "zeros"},
	}}, "none")
	return b
}

// build puts another operator, with its noise from a stream, into the bench.
func (b *stepBench) build(config operator.Config, stream string) {
	b.t.Helper()
	op, err := operator.Init(config, 7)
	if err != nil {
		b.t.Fatal(err)
	}
	e := b.gate.e
	c := &rollout.Case{File: "test", Operator: op.Config, Rollout: e.Case.Rollout}
	b.gate.e = &match.Matcher{Gate: facts.Begin(&evidence.Evidence{
		Ctx: context.Background(), Case: c, Op: op, Machine: emulate.New(op, c.Rollout), Mode: e.Mode, States: e.States,
	}, &facts.Facts{})}
	if b.gate.e.Stream, err = c.OpenStream(stream, op, e.Mode); err != nil {
		b.t.Fatal(err)
	}
	b.gate.claim = emulate.Contract(b.gate.e.Machine.Nodes, c.Rollout, e.Mode)
	b.gate.use = b.gate.claim
}

// plainDevice is the claimed device, but for the statistics of the norm: those
// that lie beside a tie within lean of it, relative, are rounded the other way.
func (b *stepBench) plainDevice(lean float64) *emulate.Device {
	d := b.correct(b.gate.claim, 1)
	f := fp16.BFloat16
	d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		if b.gate.e.Machine.Nodes[i].Op != operator.OpNorm {
			return nil, nil
		}
		x, y := in[0], tensor.Like(in[0])
		n := float64(x.H() * x.W())
		for p := range x.N() * x.C() {
			sum, squares := 0.0, 0.0
			from := x.Plane(p/x.C(), p%x.C())
			for _, v := range from {
				sum += v
			}
			for _, v := range from {
				squares += float64((v - sum/n) * (v - sum/n))
			}
			up := 1 + lean*float64(p%3-1)
			m, q := f.Round(sum/n*up), f.Round(squares*up)
			r := f.Round(1 / math.Sqrt(f.Round(q/f.Round(n))+1e-5))
			to := y.Plane(p/x.C(), p%x.C())
			for k, v := range from {
				to[k] = float64(v*r) - float64(m*r)
			}
		}
		return y, nil
	}
	return d
}

// TestPlainNorm: the statistics of an instance norm without parameters may be
// bfloat16 numbers, as they are on PyTorch's CPU, and are named; those of one
// with parameters may not.
func TestPlainNorm(t *testing.T) {
	t.Parallel()
	const how = "instance norm statistics in bfloat16, as PyTorch keeps them without float32 parameters"
	for _, lean := range []float64{0, 0x1p-20} {
		for _, affine := range []bool{false, true} {
			b := plainBench(t, affine)
			b.device = func(int) *emulate.Device { return b.plainDevice(lean) }
			r := b.check()
			if right := len(r.Findings) == 0; right == affine || right && !strings.HasSuffix(r.Contract, " with "+how) {
				t.Errorf("steps, affine %v: contract %q, findings %v", affine, r.Contract, r.Findings)
			}
			e, d := b.gate.e, *b.plainDevice(0) // the inputs of its norm are recorded: no sum is in doubt
			d.Update, d.Perturb, d.Sum = nil, nil, nil
			rows := rig.Record(t, e.Gate, d, 1, 0).Examine(t, chain.Layers, "1")
			if right := len(rows.Findings) == 0; right == affine ||
				right && !strings.Contains(strings.Join(rows.Notes, "; "), "rounded: statistics") {
				t.Errorf("layers, affine %v: notes %v, findings %v", affine, rows.Notes, rows.Findings)
			}
		}
	}
}

// TestSettledNormalized: states that a device normalizes in its half type move by one rounding of the least or the
// greatest number as much as by one of a statistic. No statistic is rounded otherwise for that: at every step the
// emulation of the device's own pattern is the device.
func TestSettledNormalized(t *testing.T) {
	t.Parallel()
	for _, n := range []rollout.Normalization{rollout.MinMax, rollout.ZScore} {
		b := newStepBench(t, "bfloat16", "cpu", "instance", rollout.Config{
			Policy: rollout.Convex, Alpha: .4, Normalization: n, State: "bfloat16", Timesteps: 40, EngineBatch: 2})
		b.build(plainBench(t, false).gate.e.Op.Config, "none")
		g, f := b.gate, fp16.BFloat16
		b.start = func(x []float64) { f.RoundSlice(x, x) }
		b.device = func(int) *emulate.Device {
			p := g.claim
			p.Plain = true
			d := g.device(p, 1, nil)
			d.Update = func(x, o *tensor.Tensor) *tensor.Tensor {
				y := g.sum(x, o, p, nil)
				each(g.e.Case.Rollout, y, func(lo, hi int) {
					s := scalings(n, y.Data[lo:hi], f)
					for k := lo; k < hi; k++ {
						y.Data[k] = f.Round(s[len(s)-1].of(y.Data[k], f)) // statistics are an ulp larger
					}
				})
				return y
			}
			return d
		}
		b.run()
		g.use.Plain = true
		for step := 1; step < g.e.States.T; step++ {
			if q := meanOf(b.measured(step).r); q > .01 {
				t.Errorf("%s, step %d: %.3g of the expected square error from the device's own arithmetic: want none",
					n, step, q)
			}
		}
	}
}

// TestOtherwise: a device whose norm has such statistics is found even where the claim fits;
// one that is as claimed is none, and a norm with parameters is not asked.
func TestOtherwise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ affine, plain, want bool }{
		{false, true, true}, {false, false, false}, {true, true, false},
	} {
		b := plainBench(t, c.affine)
		b.device = func(int) *emulate.Device {
			if c.plain {
				return b.plainDevice(0)
			}
			return b.correct(b.gate.claim, 1)
		}
		b.run()
		found, err := b.gate.otherwise()
		if err != nil {
			t.Fatal(err)
		}
		if found != c.want || b.gate.use.Plain != c.want {
			t.Errorf("affine %v, plain %v: found %v, want %v", c.affine, c.plain, found, c.want)
		}
	}
}

// TestKeeping: a tie that a device rounds the other way is so in the emulation that
// hypotheses are held against, too, as long as it is one.
func TestKeeping(t *testing.T) {
	t.Parallel()
	g := plainBench(t, false).gate
	x := tensor.New(fp16.Float64, 1, 1, 16, 16)
	for k := range x.Data {
		x.Data[k] = 1 + 0x1p-8 + float64(k%2)*2 - 1 // see TestNarrowStatistics
	}
	replace := func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		return g.plainNorm(i, fp16.BFloat16, in[0]), nil
	}
	g.rounded = map[tie]bool{{node: 1}: true}
	for _, c := range []struct {
		off    float64
		differ bool
	}{{0, true}, {.25, false}} {
		x.Data[0] += c.off
		usual, _ := replace(1, []*tensor.Tensor{x})
		other, _ := g.keeping(replace)(1, []*tensor.Tensor{x})
		if differ := usual.Data[1] != other.Data[1]; differ != c.differ {
			t.Errorf("%v off the tie: rounded the other way %v, want %v", c.off, differ, c.differ)
		}
	}
}

// TestNarrowStatistics: a statistic beside a tie has two roundings, another one.
func TestNarrowStatistics(t *testing.T) {
	t.Parallel()
	plane := make([]float64, 256)
	for k := range plane {
		plane[k] = 1 + 0x1p-8 + float64(k%2)*2 - 1 // the mean is midway between two numbers of bfloat16
	}
	s := emulate.Narrowly(fp16.BFloat16, plane, 0, 0)
	if b := s.Beside(); b[0] >= 1 || b[1] < 1 {
		t.Errorf("how near to ties: %v: want the mean within 1", b)
	}
	a, r := s.Round([2]bool{})
	b, _ := s.Round([2]bool{true})
	if a != 1 || b != 1+0x1p-7 || r != 1 {
		t.Errorf("mean %v or %v, inverse deviation %v: want 1, 1.0078125, 1", a, b, r)
	}
	plane[0] += .25
	if b := emulate.Narrowly(fp16.BFloat16, plane, 0, 0).Beside(); b[0] < 1 || b[1] < 1 {
		t.Errorf("how near to ties: %v off them: want none within 1", b)
	}
}
