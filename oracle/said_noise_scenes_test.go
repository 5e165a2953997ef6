package oracle

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/chain"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/noisestat"
	"github.com/refrun/refrun/oracle/internal/probe"
	"github.com/refrun/refrun/oracle/internal/replay"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/structure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// unknownScenes are rollouts whose draws the check does not know.
func unknownScenes() []scene {
	var scenes []scene
	with := func(name, kind string, scale float64, edit func(r *rig.Rig), f rig.Mischief) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			r := rig.NewRig(t, "float32", kind, scale)
			r.Config.Timesteps = 11
			if edit != nil {
				edit(r)
			}
			e := r.Exam(r.Run(f), false)
			rig.Do(t, e, noisestat.ReadMasks, structure.Check, noisestat.Check)
			return e.Report
		}})
	}
	one := func(name string, f rig.Mischief) { with(name, "gaussian", 0.05, nil, f) }
	change := func(f func(i int, v []float64, per int) float64) rig.Mischief {
		return rig.Redraw(func(v []float64, per int) []float64 {
			y := make([]float64, len(v))
			for i := range v {
				y[i] = f(i, v, per)
			}
			return y
		})
	}
	all := change(func(i int, v []float64, per int) float64 { return v[i%per] })
	stored := func(f func(x, y *tensor.Tensor)) rig.Mischief {
		return rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, x, right, _ *tensor.Tensor) *tensor.Tensor {
			y := right.Clone()
			f(x, y)
			y.Format.RoundSlice(y.Data, y.Data)
			return y
		})
	}
	one("unknown: right", nil)
	one("unknown: all alike", all)
	one("unknown: alike from 5", rig.From(5, all))
	one("unknown: every step alike",
		func(r *rig.Rig, _ int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) { *d = *r.Draws(1) })
	one("unknown: pairs of steps", func(r *rig.Rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
		*d = *r.Draws(t + t%2)
	})
	one("unknown: overlap", func(r *rig.Rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
		old := r.Draws(max(t-1, 1)).Data[0]
		per := len(old) / r.Config.Realizations
		copy(d.Data[0][per:2*per], old[:per])
	})
	with("unknown: squared", "gaussian", 0.3, nil, rig.Times(0.3))
	with("unknown: root of 2", "multiplicative", 0.1, nil, rig.Times(math.Sqrt2))
	one("unknown: 1.2 times", rig.Times(1.2))
	one("unknown: silent at 6", rig.At(6, rig.Times(0)))
	one("unknown: silent", rig.Times(0))
	one("unknown: one silent", change(func(i int, v []float64, per int) float64 {
		if i/per == 1 {
			return 0
		}
		return v[i]
	}))
	one("unknown: uniform", rig.Redraw(rig.Uniform))
	one("unknown: heavy", change(func(i int, v []float64, _ int) float64 {
		return 0.78 * math.Pow(math.Abs(v[i]), 1.3) * math.Copysign(1, v[i])
	}))
	normalForLaplace := change(func(i int, v []float64, _ int) float64 {
		return math.Sqrt2 * math.Copysign(math.Sqrt(math.Abs(v[i])), v[i])
	})
	with("unknown: normal for Laplace", "laplace", 0.05, nil, normalForLaplace)
	one("unknown: a mean", change(func(i int, v []float64, _ int) float64 { return v[i] + 0.3 }))
	one("unknown: smooth from 5",
		rig.From(5, change(func(i int, v []float64, _ int) float64 { return (v[i] + v[(i+1)%len(v)]) / math.Sqrt2 })))
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
		r := rig.FewChannels(t, "float32", "laplace", 0.05, 2, "gelu")
		r.Config.Timesteps = 21
		e := r.Exam(r.Run(normalForLaplace), false)
		rig.Do(t, e, noisestat.Check)
		return e.Report
	}})
	with("unknown: masks of alike channels", "dropout", 0.3, func(r *rig.Rig) {
		config := r.Op.Config
		config.Normalization, config.KernelSize = "none", 1
		var err error
		if r.Op, err = operator.Init(config, 5); err != nil {
			r.T.Fatal(err)
		}
		r.Start = func(x *tensor.Tensor) {
			for i := range x.N() * x.C() {
				p := x.Plane(i/x.C(), i%x.C())
				for k := range p {
					p[k] = p[0]
				}
			}
		}
	}, nil)
	one("unknown: a stale tile", rig.At(4, stored(func(x, y *tensor.Tensor) {
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
	with("unknown: short", "gaussian", 0.05, func(r *rig.Rig) { r.Config.Timesteps, r.Config.Realizations = 3, 1 }, nil)
	with("unknown: masks", "dropout", 0.3, nil, nil)
	with("unknown: masks alike", "dropout", 0.3, nil, all)
	with("unknown: too many dropped", "dropout", 0.3, nil,
		change(func(i int, v []float64, _ int) float64 { return v[i] * v[(i+3)%len(v)] }))
	with("unknown: p swapped", "dropout", 0.3, nil, change(func(i int, v []float64, _ int) float64 {
		if i%10 < 3 {
			return v[i]
		}
		return 0
	}))
	with("unknown: small masks", "dropout", 0.3, func(r *rig.Rig) { r.Size = 3 }, nil)
	with("unknown: clamped", "gaussian", 0.05, func(r *rig.Rig) { r.Config.Clamp = &[2]float64{0, 1e-4} }, nil)
	with("unknown: shared seeds", "gaussian", 0.05, func(r *rig.Rig) { r.Config.EngineBatch = 1 },
		func(r *rig.Rig, u int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
			per := len(d.Data[0]) / r.Config.Realizations
			for m := range r.Config.Realizations {
				copy(d.Data[0][m*per:(m+1)*per], r.Draws(u + m).Data[0][:per])
			}
		})
	return scenes
}

// otherScenes are of the gates of layers, steps, probes and free rollouts.
func otherScenes() []scene {
	var scenes []scene
	const conv0, act0 = "conv_blocks.1.block.0", "conv_blocks.1.block.2"
	ofLayers := func(name, precision, at string, f func(y *tensor.Tensor), edit func(r *rig.Recording), step string,
		without ...string) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			e, d := rig.LayerExam(t, "convex_layer_tanh_mult", precision)
			d.Perturb = func(i int, y *tensor.Tensor, _ []*tensor.Tensor) {
				if e.Machine.Nodes[i].Name == at {
					f(y)
				}
			}
			r := rig.Record(t, e, d, 2, 0)
			if edit != nil {
				edit(r)
			}
			return r.Examine(t, chain.Layers, step, without...)
		}})
	}
	ofLayers("layers: right", "float32", "", nil, nil, "2")
	ofLayers("layers: one element", "float32", conv0,
		func(y *tensor.Tensor) { y.Plane(1, 3)[7*y.W()+2] += 0.25 }, nil, "2")
	ofLayers("layers: a tile", "float32", "conv_blocks.1.block.1", func(y *tensor.Tensor) {
		for r := range 4 {
			copy(y.Plane(1, 3)[r*y.W():r*y.W()+4], y.Plane(1, 4)[r*y.W():r*y.W()+4])
		}
	}, nil, "2")
	ofLayers("layers: spread", "float32", conv0, rig.Scattered(0x1p-18), nil, "2")
	ofLayers("layers: doubled", "float32", act0,
		func(y *tensor.Tensor) { copy(y.Data, measure.Scaled(y.Data, 1.01)) }, nil, "2")
	ofLayers("layers: another step", "float32", "", nil, nil, "3")
	ofLayers("layers: no input", "float32", "", nil, func(r *rig.Recording) { r.Exam.Stream = nil }, "2")
	ofLayers("layers: another output", "float32", "", nil, func(r *rig.Recording) { // than that of the recorded states
		r.Names, r.Outputs["output"] = append(r.Names, "output"), r.Outputs[r.Names[len(r.Names)-1]]
	}, "2")
	ofLayers("layers: output handed on wrong", "float32", "", nil, func(r *rig.Recording) {
		last := r.Outputs[r.Names[len(r.Names)-1]].Clone()
		last.Data[5] = -last.Data[5]
		r.Names, r.Outputs["output"] = append(r.Names, "output"), last
	}, "2")
	scenes = append(scenes, scene{"layers: TF32", func(t *testing.T) *report.Report {
		e, d := rig.LayerExam(t, "convex_layer_tanh_mult", "float32")
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if e.Machine.Nodes[i].Name != conv0 {
				return nil, nil
			}
			return e.Machine.Plain(&emulate.Device{Mode: graph.Mode{Precision: fp16.TF32}}, i, in, nil)
		}
		return rig.Record(t, e, d, 2, 0).Examine(t, chain.Layers, "2")
	}})
	ofSteps := func(name, precision string, alpha float64, after func(t int, y *tensor.Tensor)) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			r := rig.NewRig(t, precision, "gaussian", 0.05)
			r.Config.Alpha, r.After = alpha, after
			e := r.Exam(r.Run(nil), true)
			rig.Do(t, e, chain.Steps)
			return e.Report
		}})
	}
	nudged := func(size float64) func(int, *tensor.Tensor) {
		return func(u int, y *tensor.Tensor) {
			if u == 3 {
				rig.Scattered(size)(y)
			}
		}
	}
	ofSteps("steps: right", "float32", 0.5, nil)
	ofSteps("steps: hidden by the policy", "float32", 0.99999, nil)
	ofSteps("steps: infinite", "float32", 0.5, func(u int, y *tensor.Tensor) {
		if u == 3 {
			y.Plane(1, 1)[30] = math.Inf(1)
		}
	})
	ofSteps("steps: 2^-12 off", "float32", 0.5, nudged(0x1p-12))
	ofSteps("steps: a leak", "float32", 0.5, func(_ int, y *tensor.Tensor) {
		for i, v := range y.Data {
			y.Data[i] = fp16.Float32.Round(v * (1 - 0x1p-23))
		}
	})
	ofSteps("steps: half, one element off", "float16", 0.5, func(u int, y *tensor.Tensor) {
		if u == 3 {
			y.Plane(1, 1)[30] += 0.1
		}
	})
	poisoned := func(name string, start, next func(x []float64)) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			r := rig.NewRig(t, "float32", "", 0)
			r.Config.Timesteps = 2
			s := r.Run(nil)
			start(s.At(1, 0))
			next(s.At(1, 1))
			e := r.Exam(s, true)
			rig.Do(t, e, rig.Looking(func(g *facts.Gate) error {
				(&probe.Gate{Gate: g}).Poisoned(make([]evidence.Probe, s.M))
				return nil
			}))
			return e.Report
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
			r := rig.NewRig(t, "float32", "gaussian", 0.01)
			s := r.Run(nil)
			edit(s)
			e := r.Exam(s, true)
			e.Report.OneStep.MeanAbs = 1e-6
			if wrong {
				e.Report.Findings = append(e.Report.Findings, report.Finding{Verdict: report.FailLogic, Gate: "test", Step: 1})
			}
			rig.Do(t, e, rig.Looking(func(g *facts.Gate) error { return (&replay.Gate{Gate: g}).Free() }))
			return e.Report
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
			r := rig.NewRig(t, "float32", "gaussian", 0.1)
			s := r.Run(nil)
			other := rig.NewRig(t, "float32", "gaussian", 0.1)
			for i, p := range other.Op.Params() {
				for k := range p.Data {
					if len(p.Shape) == 4 {
						p.Data[k] *= math.Copysign(1, math.Sin(float64(7*k+i)))
					}
				}
			}
			e := other.Exam(s, true)
			rig.Do(t, e, rig.Faulty(1), replay.Check)
			return e.Report
		}},
		scene{"incomplete", func(t *testing.T) *report.Report {
			r := rig.NewRig(t, "float32", "", 0)
			e := r.Exam(r.Run(nil), true)
			e.Case.Incomplete = "half of it is missing"
			return facts.Open(e.Evidence)
		}})
	return scenes
}
