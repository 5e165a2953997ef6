package oracle

import (
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/noisestat"
	"github.com/refrun/refrun/oracle/internal/replay"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/structure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// scene is a device, right or wrong in one way, and what gates say of it.
type scene struct {
	name   string
	report func(t *testing.T) *report.Report
}

// structureScenes break the recorded states of a right device.
func structureScenes() []scene {
	states := func(name string, edit func(s *rollout.States)) scene {
		return scene{name, func(t *testing.T) *report.Report {
			r := rig.NewRig(t, "float32", "gaussian", 0.05)
			s := r.Run(nil)
			edit(s)
			e := r.Exam(s, true)
			rig.Do(t, e, noisestat.ReadMasks, structure.Check)
			return e.Report
		}}
	}
	each := func(s *rollout.States, f func(m int)) {
		for m := range s.M {
			f(m)
		}
	}
	made := func(name string, edit func(r *rig.Rig)) scene {
		return scene{name, func(t *testing.T) *report.Report {
			r := rig.NewRig(t, "float32", "", 0)
			edit(r)
			e := r.Exam(r.Run(nil), true)
			rig.Do(t, e, noisestat.ReadMasks, structure.Check)
			return e.Report
		}}
	}
	// start is held against another one than that of the case.
	start := func(name string, edit func(s *rollout.States, x []float64)) scene {
		return scene{name, func(t *testing.T) *report.Report {
			r := rig.NewRig(t, "float32", "gaussian", 0.05)
			r.Config.Normalization = rollout.ZScore
			s := r.Run(nil)
			given := tensor.Of(fp16.Float32, measure.Scaled(s.At(0, 0), 2), 1, s.C, s.H, s.W)
			want := append([]float64(nil), s.At(0, 0)...)
			edit(s, given.Data)
			e := r.Exam(s, true)
			rig.Do(t, e, rig.Looking(func(g *facts.Gate) error { return (&structure.Gate{Gate: g}).StartOf(0, given, want) }))
			return e.Report
		}}
	}
	return []scene{
		states("right", func(*rollout.States) {}),
		states("one NaN", func(s *rollout.States) { s.At(1, 4)[17] = math.NaN() }),
		states("all NaN", func(s *rollout.States) {
			for i := range s.At(1, 4) {
				s.At(1, 4)[i] = math.NaN()
			}
		}),
		states("NaN at the start", func(s *rollout.States) { s.At(1, 0)[17] = math.NaN() }),
		states("one buffer", func(s *rollout.States) {
			each(s, func(m int) {
				for u := 3; u < s.T; u++ {
					copy(s.At(m, u), s.At(m, s.T-1))
				}
			})
		}),
		states("stored again", func(s *rollout.States) { each(s, func(m int) { copy(s.At(m, 5), s.At(m, 4)) }) }),
		states("stored late", func(s *rollout.States) {
			each(s, func(m int) {
				for u := s.T - 1; u >= 3; u-- {
					copy(s.At(m, u), s.At(m, u-1))
				}
			})
		}),
		states("stands still", func(s *rollout.States) { copy(s.At(2, 5), s.At(2, 4)) }),
		states("copied realization", func(s *rollout.States) { copy(s.At(2, 6), s.At(0, 6)) }),
		states("old state", func(s *rollout.States) { copy(s.At(1, 7), s.At(1, 2)) }),
		states("all alike", func(s *rollout.States) {
			each(s, func(m int) {
				for u := range s.T {
					copy(s.At(m, u), s.At(0, u))
				}
			})
		}),
		states("two alike", func(s *rollout.States) {
			for u := range s.T {
				copy(s.At(2, u), s.At(1, u))
			}
		}),
		states("float16", func(s *rollout.States) { fp16.Float16.RoundSlice(s.At(1, 4), s.At(1, 4)) }),
		states("float16 file", func(s *rollout.States) {
			s.Format = fp16.Float16
			s.Format.RoundSlice(s.Data, s.Data)
		}),
		states("8 bits", func(s *rollout.States) {
			for i, v := range s.At(0, 2) {
				s.At(0, 2)[i] = fp16.Float32.Round(math.Round(v*32) / 31)
			}
		}),
		{"overflow", func(t *testing.T) *report.Report {
			r := rig.NewRig(t, "float16", "", 0)
			for i := range r.Op.Params()[0].Data {
				r.Op.Params()[0].Data[i] *= 1e5
			}
			e := r.Exam(r.Run(nil), true)
			rig.Do(t, e, noisestat.ReadMasks, structure.Check)
			return e.Report
		}},
		made("constant", func(r *rig.Rig) {
			for _, p := range r.Op.Params() {
				clear(p.Data)
			}
			r.Config.Alpha = 0
		}),
		made("one step", func(r *rig.Rig) { r.Config.Timesteps = 2 }),
		states("zeros, and no clamp", func(s *rollout.States) {
			each(s, func(m int) {
				for t := range s.T {
					x := s.At(m, t)
					for i := range x {
						if (i+2*t)%5 < 2 { // others than of the step before, so that none stand still
							x[i] = 0
						}
					}
				}
			})
		}),
		made("clamped to bits", func(r *rig.Rig) { r.Config.Clamp = &[2]float64{-0.01, 0.01} }),
		made("clamped in part", func(r *rig.Rig) { r.Config.Clamp = &[2]float64{-0.15, 0.15} }),
		made("clamped, a bit", func(r *rig.Rig) { r.Config.Clamp = &[2]float64{-1, 1} }),
		start("right start", func(*rollout.States, []float64) {}),
		start("another start", func(s *rollout.States, _ []float64) { s.At(0, 0)[5] += 0.01 }),
		start("start in bfloat16", func(s *rollout.States, _ []float64) { fp16.BFloat16.RoundSlice(s.At(0, 0), s.At(0, 0)) }),
		start("start as given", func(s *rollout.States, x []float64) { copy(s.At(0, 0), x) }),
		start("stored early", func(s *rollout.States, _ []float64) { copy(s.At(0, 0), s.At(0, 1)) }),
		{"recorded start", func(t *testing.T) *report.Report {
			e := rig.NewExam(t, rig.OpenCase(t, "seed_small"), graph.Mode{Precision: fp16.Float32}, "")
			rig.Do(t, e, noisestat.ReadMasks, structure.Check)
			return e.Report
		}},
	}
}

// rolloutScenes are wrong rollouts whose noise is known, at step 6 of 8.
func rolloutScenes() []scene {
	scenes := []scene{}
	with := func(name, kind string, scale float64, edit func(r *rig.Rig), f rig.Mischief) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			r := rig.NewRig(t, "float32", kind, scale)
			r.Size = 12
			if edit != nil {
				edit(r)
			}
			if f != nil {
				f = rig.From(6, f)
			}
			e := r.Exam(r.Run(f), true)
			rig.Do(t, e, rig.Faulty(6), replay.Check)
			return e.Report
		}})
	}
	one := func(name string, f rig.Mischief) { with(name, "gaussian", 0.1, nil, f) }
	// dropped multiplies channel c of sample n, of which the mask keeps some or not.
	dropped := func(name string, factor func(c, k int, kept bool) float64) {
		with(name, "dropout", 0.25, nil, func(r *rig.Rig, _ int, d *emulate.Device, dr *emulate.Draws, _ []*tensor.Tensor) {
			m := emulate.New(r.Op, r.Config)
			d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
				if m.Nodes[i].Op == operator.OpNoise {
					hw := y.H() * y.W()
					for k, v := range in[0].Data {
						y.Data[k] = v * factor(k/hw%y.C(), k, dr.Data[0][k/hw] != 0)
					}
				}
			}
		})
	}
	times1 := func(kept bool, v float64) float64 {
		if kept {
			return v
		}
		return 0
	}
	reads := func(source func(r *rig.Rig, x *tensor.Tensor, before []*tensor.Tensor) *tensor.Tensor) rig.Mischief {
		return func(r *rig.Rig, _ int, d *emulate.Device, draws *emulate.Draws, before []*tensor.Tensor) {
			plain, m := *d, emulate.New(r.Op, r.Config)
			d.Update = func(x, _ *tensor.Tensor) *tensor.Tensor {
				out, err := m.Operator(&plain, source(r, x, before), draws.Rewind())
				if err != nil {
					r.T.Fatal(err)
				}
				return m.Advance(&plain, x, out)
			}
		}
	}
	starts := func(back int) rig.Mischief { // a whole step from another state
		return func(r *rig.Rig, t int, d *emulate.Device, dr *emulate.Draws, before []*tensor.Tensor) {
			plain, m := *d, emulate.New(r.Op, r.Config)
			d.Update = func(_, _ *tensor.Tensor) *tensor.Tensor {
				x := before[min(back, len(before)-1)]
				out, err := m.Operator(&plain, x, dr.Rewind())
				if err != nil {
					r.T.Fatal(err)
				}
				return m.Advance(&plain, x, out)
			}
		}
	}
	config := func(change func(c *rollout.Config)) rig.Mischief {
		return rig.PolicyFault(func(r *rig.Rig, d *emulate.Device, x, _, out *tensor.Tensor) *tensor.Tensor {
			c := r.Config
			change(&c)
			return emulate.New(r.Op, c).Advance(d, x, out)
		})
	}
	after := func(f func(x, y *tensor.Tensor)) rig.Mischief { // what is stored is changed
		return rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, x, right, _ *tensor.Tensor) *tensor.Tensor {
			y := right.Clone()
			f(x, y)
			y.Format.RoundSlice(y.Data, y.Data)
			return y
		})
	}
	turn := []int{2, 0, 1}
	draws := func(f func(r *rig.Rig, t int, d *emulate.Draws)) rig.Mischief {
		return func(r *rig.Rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) { f(r, t, d) }
	}
	samples := func(f func(m int) int) rig.Mischief {
		return rig.Redraw(func(v []float64, per int) []float64 {
			y := make([]float64, len(v))
			for m := range len(v) / per {
				copy(y[m*per:(m+1)*per], v[f(m)*per:])
			}
			return y
		})
	}
	elements := func(f func(i int, x float64) float64) func(v []float64, _ int) []float64 {
		return func(v []float64, _ int) []float64 {
			y := make([]float64, len(v))
			for i, x := range v {
				y[i] = f(i, x)
			}
			return y
		}
	}
	shifted := func(per bool) rig.Mischief {
		return rig.Redraw(func(v []float64, n int) []float64 {
			y := make([]float64, len(v))
			if !per {
				n = len(v)
			}
			for m := 0; m < len(v); m += n {
				replay.Roll(y[m:m+n], v[m:m+n], 3)
			}
			return y
		})
	}
	one("right rollout", nil)
	one("not made", after(func(x, y *tensor.Tensor) { copy(y.Data, x.Data) }))
	one("old state read", reads(func(_ *rig.Rig, _ *tensor.Tensor, b []*tensor.Tensor) *tensor.Tensor { return b[1] }))
	one("from an old state", starts(1))
	one("from the start", rig.At(6, starts(99)))
	one("two steps in one", rig.At(6, func(r *rig.Rig, t int, d *emulate.Device, dr *emulate.Draws, _ []*tensor.Tensor) {
		plain, m, next := *d, emulate.New(r.Op, r.Config), r.Draws(t+1)
		d.Update = func(x, out *tensor.Tensor) *tensor.Tensor {
			y := m.Advance(&plain, x, out)
			o, err := m.Operator(&plain, y, next.Rewind())
			if err != nil {
				r.T.Fatal(err)
			}
			return m.Advance(&plain, y, o)
		}
	}))
	one("narrowed", func(r *rig.Rig, _ int, d *emulate.Device, dr *emulate.Draws, _ []*tensor.Tensor) {
		plain, m := *d, emulate.New(r.Op, r.Config)
		d.Update = func(x, _ *tensor.Tensor) *tensor.Tensor {
			y := x.Clone()
			fp16.BFloat16.RoundSlice(y.Data, y.Data)
			o, err := m.Operator(&plain, y, dr.Rewind())
			if err != nil {
				r.T.Fatal(err)
			}
			return m.Advance(&plain, y, o)
		}
	})
	one("another's state read",
		reads(func(_ *rig.Rig, x *tensor.Tensor, _ []*tensor.Tensor) *tensor.Tensor { return replay.Mixed(x, turn) }))
	one("blend with another's",
		rig.PolicyFault(func(r *rig.Rig, d *emulate.Device, x, _, out *tensor.Tensor) *tensor.Tensor {
			return emulate.New(r.Op, r.Config).Advance(d, replay.Mixed(x, turn), out)
		}))
	one("places changed", rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, _, right, _ *tensor.Tensor) *tensor.Tensor {
		return replay.Mixed(right, turn)
	}))
	one("read as bfloat16", reads(func(_ *rig.Rig, x *tensor.Tensor, _ []*tensor.Tensor) *tensor.Tensor {
		y := x.Clone()
		fp16.BFloat16.RoundSlice(y.Data, y.Data)
		return y
	}))
	one("kept in bfloat16", rig.PolicyFault(func(r *rig.Rig, d *emulate.Device, x, _, out *tensor.Tensor) *tensor.Tensor {
		y := x.Clone()
		fp16.BFloat16.RoundSlice(y.Data, y.Data)
		return emulate.New(r.Op, r.Config).Advance(d, y, out)
	}))
	one("alpha swapped", config(func(c *rollout.Config) { c.Alpha = 1 - c.Alpha }))
	one("alpha wrong", config(func(c *rollout.Config) { c.Alpha = 0.35 }))
	one("policy twice", config(func(c *rollout.Config) { c.Alpha *= c.Alpha }))
	one("X + (1-alpha) O", config(func(c *rollout.Config) { c.Policy, c.Dt = rollout.Residual, 0.7 }))
	one("autoregressive", config(func(c *rollout.Config) { c.Policy = rollout.Autoregressive }))
	one("other weights", rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, x, right, out *tensor.Tensor) *tensor.Tensor {
		y := right.Clone()
		for i, v := range x.Data {
			y.Data[i] = fp16.Float32.Round(0.5*v + float64(0.9*out.Data[i]))
		}
		return y
	}))
	one("state scaled", after(func(_, y *tensor.Tensor) { copy(y.Data, measure.Scaled(y.Data, 0.9)) }))
	one("mean removed", after(func(_, y *tensor.Tensor) {
		for i := range y.N() * y.C() {
			p := y.Plane(i/y.C(), i%y.C())
			mean, _ := measure.Moments(p)
			for k := range p {
				p[k] -= mean
			}
		}
	}))
	one("clamped", config(func(c *rollout.Config) { c.Clamp = &[2]float64{-0.5, 0.5} }))
	one("z-score", config(func(c *rollout.Config) { c.Normalization = rollout.ZScore }))
	one("channels reversed",
		rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, _, right, _ *tensor.Tensor) *tensor.Tensor {
			y := right.Clone()
			for n := range y.N() {
				copy(y.Plane(n, 0), right.Plane(n, 2))
				copy(y.Plane(n, 2), right.Plane(n, 0))
			}
			return y
		}))
	part := func(f func(x, y *tensor.Tensor, n, i int) float64) rig.Mischief {
		return after(func(x, y *tensor.Tensor) {
			old := y.Clone()
			for i := range 40 {
				y.Plane(1, 2)[i] = f(x, old, 1, i)
			}
		})
	}
	one("stale part", part(func(x, _ *tensor.Tensor, n, i int) float64 { return x.Plane(n, 2)[i] }))
	one("another's part", part(func(_, y *tensor.Tensor, n, i int) float64 { return y.Plane(n-1, 2)[i] }))
	one("zeros in part", part(func(_, _ *tensor.Tensor, _, _ int) float64 { return 0 }))
	one("a bit",
		after(func(_, y *tensor.Tensor) { y.Data[99] = fp16.Float32.FromBits(fp16.Float32.Bits(y.Data[99]) ^ 1<<22) }))
	halves := func(down bool) rig.Mischief {
		return func(r *rig.Rig, _ int, d *emulate.Device, dr *emulate.Draws, _ []*tensor.Tensor) {
			plain, m := *d, emulate.New(r.Op, r.Config)
			d.Update = func(x, out *tensor.Tensor) *tensor.Tensor {
				right, y := m.Advance(&plain, x, out), x.Clone()
				half := y.H() / 2 * y.W()
				lo, hi := 0, half
				if !down {
					lo, hi = half, 2*half
				}
				for i := range y.N() * y.C() {
					copy(y.Plane(i/y.C(), i%y.C())[lo:hi], right.Plane(i/y.C(), i%y.C())[lo:hi])
				}
				o, err := m.Operator(&plain, y, dr.Rewind())
				if err != nil {
					r.T.Fatal(err)
				}
				z := m.Advance(&plain, x, o)
				for i := range y.N() * y.C() {
					copy(z.Plane(i/y.C(), i%y.C())[lo:hi], right.Plane(i/y.C(), i%y.C())[lo:hi])
				}
				return z
			}
		}
	}
	one("written in place, down", halves(true))
	one("written in place, up", halves(false))

	one("no noise", draws(func(_ *rig.Rig, _ int, d *emulate.Draws) { clear(d.Data[0]) }))
	one("last step's noise", draws(func(r *rig.Rig, t int, d *emulate.Draws) { *d = *r.Draws(t - 1) }))
	one("first step's noise", draws(func(r *rig.Rig, t int, d *emulate.Draws) { *d = *r.Draws(1) }))
	one("turned noise", samples(func(m int) int { return turn[m] }))
	one("one noise for all", samples(func(int) int { return 0 }))
	one("turned noise of the last step", draws(func(r *rig.Rig, t int, d *emulate.Draws) {
		*d = *r.Draws(t - 1)
		samples(func(m int) int { return turn[m] })(r, t, nil, d, nil)
	}))
	one("other sign", rig.Times(-1))
	one("noise transposed", rig.Redraw(func(v []float64, _ int) []float64 {
		y := make([]float64, len(v))
		for i := range v {
			p, k := i/144*144, i%144
			y[i] = v[p+k%12*12+k/12]
		}
		return y
	}))
	one("channels' one noise", rig.Redraw(func(v []float64, per int) []float64 {
		return elements(func(i int, _ float64) float64 { return v[i/per*per+i%144] })(v, per)
	}))
	one("noise shifted", shifted(false))
	one("noise shifted in each", shifted(true))
	one("draws in bfloat16", rig.Redraw(elements(func(_ int, x float64) float64 { return fp16.BFloat16.Round(x) })))
	one("noise 1.3 times", rig.Times(1.3))
	one("noise root 2 times", rig.Times(math.Sqrt2))
	one("noise squared", rig.Times(0.1))
	one("noise multiplied", func(r *rig.Rig, _ int, d *emulate.Device, dr *emulate.Draws, _ []*tensor.Tensor) {
		m := emulate.New(r.Op, r.Config)
		d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
			if m.Nodes[i].Op == operator.OpNoise {
				for k, v := range in[0].Data {
					y.Data[k] = v * (1 + float64(0.1*dr.Data[0][k]))
				}
			}
		}
	})
	one("one channel silent", rig.Redraw(elements(func(i int, x float64) float64 {
		if i/144%8 == 1 {
			return 0
		}
		return x
	})))
	one("channels apart", rig.Redraw(elements(func(i int, x float64) float64 { return x * (0.5 + float64(i/144%8)/7) })))
	one("another stream", draws(func(r *rig.Rig, t int, d *emulate.Draws) { *d = *r.Draws(t + 1000) }))
	one("uniform draws", rig.Redraw(rig.Uniform))
	// the radius of a pair, as of a uniform number of 6 bits
	one("draws of few bits", rig.Redraw(func(v []float64, _ int) []float64 {
		y := slices.Clone(v)
		for i := 0; i+1 < len(v); i += 2 {
			squares := float64(v[i]*v[i]) + float64(v[i+1]*v[i+1])
			by := math.Sqrt(-2 * math.Log((math.Floor(64*math.Exp(-squares/2))+0.5)/64) / squares)
			y[i], y[i+1] = fp16.Float32.Round(by*v[i]), fp16.Float32.Round(by*v[i+1])
		}
		return y
	}))
	// what is left of 2 million uniform numbers
	one("tails of few bits", rig.Redraw(elements(func(_ int, x float64) float64 {
		return fp16.Float32.Round(x * (1 + 0x1p-21*math.Expm1(x*x/2)*math.Sin(1e6*x)/(x*x)))
	})))
	with("batches alike", "gaussian", 0.1, func(r *rig.Rig) { r.Config.EngineBatch, r.Config.Realizations = 2, 4 },
		samples(func(m int) int { return m % 2 }))

	dropped("right dropout", func(_, _ int, kept bool) float64 { return times1(kept, 4./3) })
	dropped("nothing dropped", func(int, int, bool) float64 { return 1 })
	dropped("other masks", func(c, _ int, kept bool) float64 { return times1(kept != (c%3 == 0), 4./3) })
	dropped("not rescaled", func(_, _ int, kept bool) float64 { return times1(kept, 1) })
	dropped("rescaled by p", func(_, _ int, kept bool) float64 { return times1(kept, 4) })
	dropped("odd factors", func(c, _ int, kept bool) float64 { return times1(kept, 0.4+float64(c)/5) })
	dropped("elements dropped", func(_, k int, _ bool) float64 { return times1(measure.Mix64(uint64(k))%4 > 0, 4./3) })

	residual := func(name string, f rig.Mischief) {
		with(name, "gaussian", 0.1, func(r *rig.Rig) { r.Config.Policy, r.Config.Dt = rollout.Residual, 0.1 }, f)
	}
	residual("right residual", nil)
	residual("subtracted", config(func(c *rollout.Config) { c.Dt = -c.Dt }))
	residual("dt wrong", config(func(c *rollout.Config) { c.Dt = 0.15 }))
	normal := func(name string, f rig.Mischief) {
		with(name, "gaussian", 0.1,
			func(r *rig.Rig) { r.Config.Normalization, r.Config.Clamp = rollout.MinMax, &[2]float64{0.2, 0.8} }, f)
	}
	normal("right min-max", nil)
	normal("not normalized", config(func(c *rollout.Config) { c.Normalization = "" }))
	with("clamped elsewhere", "gaussian", 0.1, func(r *rig.Rig) { r.Config.Clamp = &[2]float64{-1, 1} },
		config(func(c *rollout.Config) { c.Clamp = &[2]float64{-.5, .5} }))
	normal("not clamped", config(func(c *rollout.Config) { c.Clamp = nil }))
	with("each by itself", "gaussian", 0.1, func(r *rig.Rig) {
		r.Config.Normalization, r.Config.EngineBatch = rollout.ZScore, 3
	}, config(func(c *rollout.Config) { c.EngineBatch = 0 }))
	with("over the batch", "gaussian", 0.1, func(r *rig.Rig) { r.Config.Normalization = rollout.ZScore },
		config(func(c *rollout.Config) { c.EngineBatch = c.Realizations }))
	with("another normalization", "gaussian", 0.1, func(r *rig.Rig) { r.Config.Normalization = rollout.ZScore },
		config(func(c *rollout.Config) { c.Normalization = rollout.MinMax }))
	with("normalized, scaled", "gaussian", 0.1, func(r *rig.Rig) { r.Config.Normalization = rollout.ZScore },
		after(func(_, y *tensor.Tensor) { copy(y.Data, measure.Scaled(y.Data, 0.9)) }))
	swap := func(name string, edit func(s *rollout.States)) {
		scenes = append(scenes, scene{name, func(t *testing.T) *report.Report {
			r := rig.NewRig(t, "float32", "gaussian", 0.1)
			s := r.Run(nil)
			edit(s)
			e := r.Exam(s, true)
			rig.Do(t, e, rig.Faulty(6), replay.Check)
			return e.Report
		}})
	}
	swap("states changed places", func(s *rollout.States) {
		for m := range s.M {
			x := append([]float64(nil), s.At(m, 6)...)
			copy(s.At(m, 6), s.At(m, 7))
			copy(s.At(m, 7), x)
		}
	})
	swap("last state early", func(s *rollout.States) {
		for m := range s.M {
			copy(s.At(m, 6), s.At(m, s.T-1))
		}
	})
	return scenes
}
