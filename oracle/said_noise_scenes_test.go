package oracle

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// unknownScenes are rollouts whose draws the check does not know.
func unknownScenes() []scene {
	var scenes []scene
	with := func(name, kind string, scale float64, edit func(r *rig), f mischief) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			r := newRig(t, "float32", kind, scale)
			r.c.Timesteps = 11
			if edit != nil {
				edit(r)
			}
			e := r.exam(r.run(f), false)
			do(t, e, readMasks, checkStructure, checkNoise)
			return e.r
		}})
	}
	one := func(name string, f mischief) { with(name, "gaussian", 0.05, nil, f) }
	change := func(f func(i int, v []float64, per int) float64) mischief {
		return redraw(func(v []float64, per int) []float64 {
			y := make([]float64, len(v))
			for i := range v {
				y[i] = f(i, v, per)
			}
			return y
		})
	}
	all := change(func(i int, v []float64, per int) float64 { return v[i%per] })
	stored := func(f func(x, y *tensor.Tensor)) mischief {
		return policyFault(func(_ *rig, _ *emulate.Device, x, right, _ *tensor.Tensor) *tensor.Tensor {
			y := right.Clone()
			f(x, y)
			y.Format.RoundSlice(y.Data, y.Data)
			return y
		})
	}
	one("unknown: right", nil)
	one("unknown: all alike", all)
	one("unknown: alike from 5", from(5, all))
	one("unknown: every step alike", func(r *rig, _ int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) { *d = *r.draws(1) })
	one("unknown: pairs of steps", func(r *rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) { *d = *r.draws(t + t%2) })
	one("unknown: overlap", func(r *rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
		old := r.draws(max(t-1, 1)).Data[0]
		per := len(old) / r.c.Realizations
		copy(d.Data[0][per:2*per], old[:per])
	})
	with("unknown: squared", "gaussian", 0.3, nil, times(0.3))
	with("unknown: root of 2", "multiplicative", 0.1, nil, times(math.Sqrt2))
	one("unknown: 1.2 times", times(1.2))
	one("unknown: silent at 6", at(6, times(0)))
	one("unknown: silent", times(0))
	one("unknown: one silent", change(func(i int, v []float64, per int) float64 {
		if i/per == 1 {
			return 0
		}
		return v[i]
	}))
	one("unknown: uniform", redraw(uniform))
	one("unknown: heavy", change(func(i int, v []float64, _ int) float64 {
		return 0.78 * math.Pow(math.Abs(v[i]), 1.3) * math.Copysign(1, v[i])
	}))
	normalForLaplace := change(func(i int, v []float64, _ int) float64 {
		return math.Sqrt2 * math.Copysign(math.Sqrt(math.Abs(v[i])), v[i])
	})
	with("unknown: normal for Laplace", "laplace", 0.05, nil, normalForLaplace)
	one("unknown: a mean", change(func(i int, v []float64, _ int) float64 { return v[i] + 0.3 }))
	one("unknown: smooth from 5", from(5, change(func(i int, v []float64, _ int) float64 { return (v[i] + v[(i+1)%len(v)]) / math.Sqrt2 })))
	one("unknown: channels alike", change(func(i int, v []float64, per int) float64 { return v[i/per*per+i%256] }))
	one("unknown: alpha", stored(func(x, y *tensor.Tensor) {
		for i, v := range x.Data {
			y.Data[i] += 0.02 * v
		}
	}))
	one("unknown: Laplace", change(func(i int, v []float64, _ int) float64 {
		return math.Copysign(-math.Log(math.Erfc(math.Abs(v[i])/math.Sqrt2))/math.Sqrt2, v[i])
	}))
	scenes = append(scenes, scene{"unknown: few channels, normal", func(t *testing.T) *report.Report {
		r := fewChannels(t, "float32", "laplace", 0.05, 2, "gelu")
		r.c.Timesteps = 21
		e := r.exam(r.run(normalForLaplace), false)
		do(t, e, checkNoise)
		return e.r
	}})
	with("unknown: masks of alike channels", "dropout", 0.3, func(r *rig) {
		config := r.op.Config
		config.Normalization, config.KernelSize = "none", 1
		var err error
		if r.op, err = operator.Init(config, 5); err != nil {
			r.t.Fatal(err)
		}
		r.start = func(x *tensor.Tensor) {
			for i := range x.N() * x.C() {
				p := x.Plane(i/x.C(), i%x.C())
				for k := range p {
					p[k] = p[0]
				}
			}
		}
	}, nil)
	one("unknown: a stale tile", at(4, stored(func(x, y *tensor.Tensor) {
		for h := range 8 {
			copy(y.Plane(1, 2)[h*y.W():h*y.W()+8], x.Plane(1, 2)[h*y.W():])
		}
	})))
	one("unknown: a bias", stored(func(_, y *tensor.Tensor) {
		for n := range y.N() {
			for i := range y.Plane(n, 1) {
				y.Plane(n, 1)[i] += 0.002
			}
		}
	}))
	one("unknown: border silent", change(func(i int, v []float64, _ int) float64 {
		if r, c := i/16%16, i%16; r == 0 || c == 0 || r == 15 || c == 15 {
			return 0
		}
		return v[i]
	}))
	with("unknown: short", "gaussian", 0.05, func(r *rig) { r.c.Timesteps, r.c.Realizations = 3, 1 }, nil)
	with("unknown: masks", "dropout", 0.3, nil, nil)
	with("unknown: masks alike", "dropout", 0.3, nil, all)
	with("unknown: too many dropped", "dropout", 0.3, nil, change(func(i int, v []float64, _ int) float64 { return v[i] * v[(i+3)%len(v)] }))
	with("unknown: p swapped", "dropout", 0.3, nil, change(func(i int, v []float64, _ int) float64 {
		if i%10 < 3 {
			return v[i]
		}
		return 0
	}))
	with("unknown: small masks", "dropout", 0.3, func(r *rig) { r.size = 3 }, nil)
	with("unknown: clamped", "gaussian", 0.05, func(r *rig) { r.c.Clamp = &[2]float64{0, 1e-4} }, nil)
	with("unknown: shared seeds", "gaussian", 0.05, func(r *rig) { r.c.EngineBatch = 1 }, func(r *rig, u int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
		per := len(d.Data[0]) / r.c.Realizations
		for m := range r.c.Realizations {
			copy(d.Data[0][m*per:(m+1)*per], r.draws(u + m).Data[0][:per])
		}
	})
	return scenes
}

// otherScenes are of the gates of layers, steps, probes and free rollouts.
func otherScenes() []scene {
	var scenes []scene
	const conv0, act0 = "conv_blocks.1.block.0", "conv_blocks.1.block.2"
	layers := func(name, precision, at string, f func(y *tensor.Tensor), edit func(r *recording), step string, without ...string) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			e, d := layerExam(t, "convex_layer_tanh_mult", precision)
			d.Perturb = func(i int, y *tensor.Tensor, _ []*tensor.Tensor) {
				if e.machine.Nodes[i].Name == at {
					f(y)
				}
			}
			r := record(t, e, d, 2, 0)
			if edit != nil {
				edit(r)
			}
			return r.examine(t, step, without...)
		}})
	}
	layers("layers: right", "float32", "", nil, nil, "2")
	layers("layers: one element", "float32", conv0, func(y *tensor.Tensor) { y.Plane(1, 3)[7*y.W()+2] += 0.25 }, nil, "2")
	layers("layers: a tile", "float32", "conv_blocks.1.block.1", func(y *tensor.Tensor) {
		for r := range 4 {
			copy(y.Plane(1, 3)[r*y.W():r*y.W()+4], y.Plane(1, 4)[r*y.W():r*y.W()+4])
		}
	}, nil, "2")
	layers("layers: spread", "float32", conv0, scattered(0x1p-18), nil, "2")
	layers("layers: doubled", "float32", act0, func(y *tensor.Tensor) { copy(y.Data, scaled(y.Data, 1.01)) }, nil, "2")
	layers("layers: another step", "float32", "", nil, nil, "3")
	layers("layers: no input", "float32", "", nil, func(r *recording) { r.e.stream = nil }, "2")
	layers("layers: another output", "float32", "", nil, func(r *recording) { // than that of the recorded states
		r.names, r.of["output"] = append(r.names, "output"), r.of[r.names[len(r.names)-1]]
	}, "2")
	layers("layers: output handed on wrong", "float32", "", nil, func(r *recording) {
		last := r.of[r.names[len(r.names)-1]].Clone()
		last.Data[5] = -last.Data[5]
		r.names, r.of["output"] = append(r.names, "output"), last
	}, "2")
	scenes = append(scenes, scene{"layers: TF32", func(t *testing.T) *report.Report {
		e, d := layerExam(t, "convex_layer_tanh_mult", "float32")
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if e.machine.Nodes[i].Name != conv0 {
				return nil, nil
			}
			return e.machine.Plain(&emulate.Device{Mode: operator.Mode{Precision: fp16.TF32}}, i, in, nil)
		}
		return record(t, e, d, 2, 0).examine(t, "2")
	}})
	steps := func(name, precision string, alpha float64, after func(t int, y *tensor.Tensor)) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			autocast := ""
			if precision == "float16" {
				autocast = "cuda"
			}
			b := newStepBench(t, precision, autocast, "instance", convex(alpha))
			b.after = after
			return b.check()
		}})
	}
	nudged := func(size float64) func(int, *tensor.Tensor) {
		return func(u int, y *tensor.Tensor) {
			if u == 3 {
				scattered(size)(y)
			}
		}
	}
	steps("steps: right", "float32", 0.5, nil)
	steps("steps: hidden by the policy", "float32", 0.99999, nil)
	steps("steps: infinite", "float32", 0.5, func(u int, y *tensor.Tensor) {
		if u == 3 {
			y.Plane(1, 1)[30] = math.Inf(1)
		}
	})
	steps("steps: 2^-12 off", "float32", 0.5, nudged(0x1p-12))
	steps("steps: half, one element off", "float16", 0.5, func(u int, y *tensor.Tensor) {
		if u == 3 {
			y.Plane(1, 1)[30] += 0.1
		}
	})
	poisoned := func(name string, start, next func(x []float64)) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			r := newRig(t, "float32", "", 0)
			r.c.Timesteps = 2
			s := r.run(nil)
			start(s.At(1, 0))
			next(s.At(1, 1))
			e := r.exam(s, true)
			do(t, e, looking(func(g *gate) error { (&probeGate{g}).poisoned(make([]probe, s.M)); return nil }))
			return e.r
		}})
	}
	clean := func([]float64) {}
	bad := func(x []float64) {
		for i := range x {
			x[i] = math.NaN()
		}
	}
	poisoned("poison: spread", bad, bad)
	poisoned("poison: swallowed", bad, clean)
	poisoned("poison: from another", clean, bad)
	free := func(name string, wrong bool, edit func(s *rollout.States)) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			r := newRig(t, "float32", "gaussian", 0.01)
			s := r.run(nil)
			edit(s)
			e := r.exam(s, true)
			e.r.OneStep.MeanAbs = 1e-6
			if wrong {
				e.r.Findings = append(e.r.Findings, report.Finding{Verdict: report.FailLogic, Gate: "test", Step: 1})
			}
			do(t, e, looking(func(g *gate) error { return (&rolloutGate{g}).free() }))
			return e.r
		}})
	}
	far := func(s *rollout.States) {
		for m := range s.M {
			for i, v := range s.At(m, 1) {
				s.At(m, 1)[i] = fp16.Float32.Round(v + 0.03)
			}
		}
	}
	free("free: right", false, func(*rollout.States) {})
	free("free: far", false, far)
	free("free: far, and a step is wrong", true, far)
	scenes = append(scenes,
		scene{"another operator", func(t *testing.T) *report.Report {
			r := newRig(t, "float32", "gaussian", 0.1)
			s := r.run(nil)
			other := newRig(t, "float32", "gaussian", 0.1)
			for i, p := range other.op.Params() {
				for k := range p.Data {
					if len(p.Shape) == 4 {
						p.Data[k] *= math.Copysign(1, math.Sin(float64(7*k+i)))
					}
				}
			}
			e := other.exam(s, true)
			suspected(t, e, 1)
			return e.r
		}},
		scene{"incomplete", func(t *testing.T) *report.Report {
			r := newRig(t, "float32", "", 0)
			e := r.exam(r.run(nil), true)
			e.c.Incomplete = "half of it is missing"
			return open(e.evidence)
		}})
	return scenes
}
