package steps

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/chain"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/tensor"
)

// addedNoise is x + x (n s) with each operation rounded to f, of draws n.
func addedNoise(f fp16.Format, x *tensor.Tensor, n []float64, scale float64) *tensor.Tensor {
	y := tensor.Like(x)
	for k, v := range x.Data {
		y.Data[k] = f.Round(v + f.Round(float64(v*f.Round(float64(f.Round(n[k])*scale)))))
	}
	return y
}

// multiplicativeBench is a rollout with multiplicative noise.
func multiplicativeBench(t *testing.T, precision string) *stepBench {
	t.Helper()
	b := newStepBench(t, precision, "cpu", "instance", convex(.3))
	config := b.gate.e.Op.Config
	config.NoiseType, config.NoiseScale = "multiplicative", .1
	b.build(config, "counter")
	return b
}

// TestAddedNoise: multiplicative noise may be written as x + x (n s) in a half type, in
// whole steps and layer by layer; with another scale it may not.
func TestAddedNoise(t *testing.T) {
	t.Parallel()
	for _, precision := range []string{"float16", "bfloat16"} {
		bench := multiplicativeBench(t, precision)
		e, p := bench.gate.e, bench.gate.claim
		p.Added = true
		bench.device = func(int) *emulate.Device { return bench.correct(p, 1) }
		r := bench.check()
		if len(r.Findings) > 0 || !strings.Contains(r.Contract, emulate.AddedHow) {
			t.Errorf("%s, steps: contract %q, findings %v: want the noise %s",
				precision, r.Contract, r.Findings, emulate.AddedHow)
		}
		bench.gate.use = bench.gate.claim
		if found, err := bench.gate.otherwise(); err != nil || !found || !bench.gate.use.Added {
			t.Errorf("%s: without asking for a fault the noise is not found: %v, %v", precision, found, err)
		}

		for _, scale := range []float64{1, 1.125} {
			b, err := e.Step(0, 0, 2, 1)
			if err != nil {
				t.Fatal(err)
			}
			d := *bench.gate.device(bench.gate.claim, 1, nil)
			d.Update = nil
			if _, err := e.Machine.Operator(&d, b.X, b.Draws.Rewind()); err != nil { // it draws
				t.Fatal(err)
			}
			d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if n := &e.Machine.Nodes[i]; n.Op == operator.OpNoise {
					return addedNoise(d.Mode.Precision, in[0], b.Draws.Data[0], scale*n.Noise.Scale), nil
				}
				return nil, nil
			}
			r := rig.Record(t, e.Gate, d, 1, 0).Examine(t, chain.Layers, "1")
			if right := len(r.Findings) == 0; right != (scale == 1) {
				t.Errorf("%s, layers, scale times %v: findings %v", precision, scale, r.Findings)
			}
			if how := strings.Join(r.Notes, "; "); scale == 1 && !strings.Contains(how, emulate.AddedHow) {
				t.Errorf("%s, layers: notes %q do not tell", precision, how)
			}
		}
	}
}

// TestOnceNoise: a factor of multiplicative noise that is rounded as a whole, and one of a dropout
// that is not rounded, are found in steps and are right layer by layer; with another scale the
// layer is not.
func TestOnceNoise(t *testing.T) {
	t.Parallel()
	of := func(kind string, scale float64) *stepBench { // the larger it is, the more n s loses
		bench := newStepBench(t, "bfloat16", "cpu", "instance", convex(.3))
		config := bench.gate.e.Op.Config
		config.NoiseType, config.NoiseScale = kind, scale
		bench.build(config, "counter")
		return bench
	}
	for _, bench := range []*stepBench{of("multiplicative", .7), of("dropout", .1)} {
		kind := bench.gate.e.Op.Config.NoiseType
		p := bench.gate.claim
		p.Once = true
		p.Points &^= emulate.AtDraw | emulate.AtNorm | emulate.AtAct
		bench.device = func(int) *emulate.Device { return bench.correct(p, 1) }
		if r := bench.check(); len(r.Findings) > 0 || !strings.Contains(r.Contract, emulate.OnceHow) {
			t.Errorf("%s, steps: contract %q, findings %v: want the noise %s", kind, r.Contract, r.Findings, emulate.OnceHow)
		}
	}

	bench := of("multiplicative", .7)
	bench.check() // it makes the states
	e, f := bench.gate.e, fp16.BFloat16
	for _, scale := range []float64{1, 1.125} {
		b, err := e.Step(0, 0, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		d := *bench.gate.device(bench.gate.claim, 1, nil)
		d.Update = nil
		if _, err := e.Machine.Operator(&d, b.X, b.Draws.Rewind()); err != nil { // it draws
			t.Fatal(err)
		}
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			n := &e.Machine.Nodes[i]
			if n.Op != operator.OpNoise {
				return nil, nil
			}
			y := tensor.Like(in[0])
			for k, v := range in[0].Data {
				y.Data[k] = f.Round(v * f.Round(1+float64(f.Round(b.Draws.Data[0][k])*scale*n.Noise.Scale)))
			}
			return y, nil
		}
		r := rig.Record(t, e.Gate, d, 1, 0).Examine(t, chain.Layers, "1")
		if right := len(r.Findings) == 0; right != (scale == 1) {
			t.Errorf("layers, scale times %v: findings %v", scale, r.Findings)
		}
		if how := strings.Join(r.Notes, "; "); scale == 1 &&
			!strings.Contains(how, "without the roundings of stochastic_block.scaled") {
			t.Errorf("layers: notes %q do not tell", how)
		}
	}
}
