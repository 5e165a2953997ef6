package tape_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/tape"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

var tapes = flag.Int("tape.right", 120, "right tapes")

// scene is a rollout whose noise is recorded: kind and scale of the noise, and sizes.
type scene struct {
	kind       string
	scale      float64
	correlated bool
	m, t, c, h int // t states
	batch      int // engine batch, 0 for all
	seed       uint64
	draw       func(s *scene, kind noise.Kind, p float64, at where, dst []float64)
	half       fp16.Format // to which draws are rounded
	generator  string
}

// where is what draw i of an engine batch at a step is of.
type where struct{ step, lo, n, i int }

func (s *scene) String() string {
	return fmt.Sprintf("%s %v (correlated %v), %d x %d steps, %d channels, size %d, batch %d, %s %v, seed %d",
		s.kind, s.scale, s.correlated, s.m, s.t-1, s.c, s.h, s.batch, s.generator, s.half, s.seed)
}

// check returns what the gate finds on the tape of the scene, changed by f if not nil.
func (s *scene) check(t *testing.T, f func(at where, kind noise.Kind, v []float64)) *report.Finding {
	t.Helper()
	r := rig.NewRig(t, "float32", s.kind, s.scale)
	config := operator.Config{NumLayers: 0, BaseChannels: s.c, InputChannels: 1, OutputChannels: 1, KernelSize: 1,
		NoiseType: s.kind, NoiseScale: s.scale}
	if s.correlated {
		config = operator.Config{BaseChannels: 4, InputChannels: s.c, OutputChannels: s.c, GridSize: s.h,
			NoiseType: s.kind, NoiseScale: s.scale, UAFNO: &operator.UAFNO{
				EncoderLevels: 1, Modes: 2, AFNOBlocks: 1, BlocksPerLevel: 1, SpatialCorrelation: 0.1,
			}}
	}
	var err error
	if r.Op, err = operator.Init(config, 5); err != nil {
		t.Fatal(err)
	}
	r.Config.Realizations, r.Config.Timesteps, r.Config.EngineBatch = s.m, s.t, s.batch
	e := r.Exam(&rollout.States{M: s.m, T: s.t, C: r.Op.Config.InputChannels, H: s.h, W: s.h}, true)
	e.Stream = rollout.NewStream("tape", func(_, lo, hi, step int) (noise.Draws, error) {
		return &recorded{s, where{step: step, lo: lo, n: hi - lo, i: -1}, f}, nil
	})
	return rig.Do(t, e, tape.Check)
}

type recorded struct {
	s  *scene
	at where
	f  func(at where, kind noise.Kind, v []float64)
}

func (r *recorded) Draw(kind noise.Kind, p float64, shape []int, dst []float64) error {
	r.at.i++
	r.s.draw(r.s, kind, 1-fp16.Float32.Round(r.s.scale), r.at, dst)
	if r.s.half.Half() && kind != noise.Bernoulli {
		r.s.half.RoundSlice(dst, dst)
	}
	if r.f != nil {
		r.f(r.at, kind, dst)
	}
	return nil
}

// counter draws from the project's own stream.
func counter(s *scene, kind noise.Kind, p float64, at where, dst []float64) {
	d, err := noise.Counter{Seed: s.seed}.At(at.step*8+at.i, at.lo, at.lo+at.n)
	if err != nil {
		panic(err)
	}
	if err := d.Draw(kind, p, shape(s, kind, at), dst); err != nil {
		panic(err)
	}
}

func shape(s *scene, kind noise.Kind, at where) []int {
	if kind == noise.Bernoulli {
		return []int{at.n, s.c, 1, 1}
	}
	return []int{at.n, s.c, s.h, s.h}
}

// generators are right ones. Those of PyTorch are seeded as Spinlock does, so that engine batches share
// their seeds.
var generators = map[string]func(s *scene, kind noise.Kind, p float64, at where, dst []float64){
	"counter":        counter,
	"torch-cpu:1.13": seeded(func(*scene) noise.Draws { return torchCPU("torch-cpu:1.13") }),
	"torch-cpu:2.x":  seeded(func(*scene) noise.Draws { return torchCPU("torch-cpu:2.x") }),
	"torch-cpu half": seeded(func(s *scene) noise.Draws {
		g := torchCPU("torch-cpu:2.x")
		g.Half = s.half
		return g
	}),
	"torch-cuda": seeded(func(*scene) noise.Draws {
		g, err := noise.ParseTorchCUDA("torch-cuda:108")
		if err != nil {
			panic(err)
		}
		return g
	}),
	"few bits": fewBits,
}

func torchCPU(name string) *noise.TorchCPU {
	g, err := noise.ParseTorchCPU(name, "")
	if err != nil {
		panic(err)
	}
	return g
}

// seeded draws as Spinlock's engine does: all draws of a step follow each other.
func seeded(open func(s *scene) noise.Draws) func(s *scene, kind noise.Kind, p float64, at where, dst []float64) {
	return func(s *scene, kind noise.Kind, p float64, at where, dst []float64) {
		g := open(s)
		g.(interface{ Seed(uint64) }).Seed(s.seed + uint64(at.lo+at.step))
		if at.i > 0 { // Laplace noise has its exponentials first
			if err := g.Draw(noise.Exponential, 0, shape(s, kind, at), make([]float64, len(dst))); err != nil {
				panic(err)
			}
		}
		if err := g.Draw(kind, p, shape(s, kind, at), dst); err != nil {
			panic(err)
		}
	}
}

// fewBits draws as JAX does in each type: by the inverse distribution, of uniform numbers of one
// bit less than the significand has, of which the least is nearest to the end.
func fewBits(s *scene, kind noise.Kind, p float64, at where, dst []float64) {
	f := s.half
	if !f.Half() {
		f = fp16.Float32
	}
	r := rand.New(rand.NewPCG(s.seed, uint64(at.step<<16+at.lo<<8+at.i)))
	levels := 1 / f.Ulp(1)
	for i := range dst {
		u := math.Floor(r.Float64()*levels) / levels
		switch kind {
		case noise.Bernoulli:
			dst[i] = 0
			if r.Float64() < p {
				dst[i] = 1
			}
		case noise.Exponential:
			dst[i] = f.Round(-elem.Log1p(-u))
		default:
			dst[i] = f.Round(math.Sqrt2 * math.Erfinv(max(2*u-1, f.Ulp(0.5)-1)))
			if kind == noise.ComplexNormal {
				dst[i] = f.Round(dst[i] / math.Sqrt2)
			}
		}
	}
}

// some returns a scene of any kind and size.
func some(r *rand.Rand) *scene {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	s := &scene{kind: []string{
		"gaussian", "laplace", "dropout", "multiplicative",
	}[r.IntN(4)], scale: []float64{1e-3, 0.05, 0.2, 0.5, 0.9, 0.999}[r.IntN(6)], m: pick(1, 1, 2, 3, 5),
		t: pick(2, 3, 5, 9, 20), c: pick(1, 2, 3, 8, 33), h: pick(1, 2, 3, 8, 16, 24), seed: r.Uint64() >> 1}
	if s.m > 2 {
		s.batch = pick(0, 2)
	}
	if s.kind != "dropout" && r.IntN(5) == 0 {
		s.correlated, s.h, s.c = true, pick(8, 16), pick(1, 3)
	}
	s.half = []fp16.Format{fp16.Float32, fp16.Float32, fp16.Float16, fp16.BFloat16}[r.IntN(4)]
	names := []string{"counter", "torch-cpu:1.13", "torch-cpu:2.x", "torch-cuda", "few bits"}
	if s.half.Half() {
		names = append(names, "torch-cpu half")
	}
	s.generator = names[r.IntN(len(names))]
	s.draw = generators[s.generator]
	return s
}

// TestRightTapes: no tape of a right generator is called wrong, whatever its kind and size.
func TestRightTapes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range *tapes {
		s := some(r)
		if f := s.check(t, nil); f != nil {
			t.Errorf("%v: %s: %s", s, f.ID, f.Text)
		}
	}
}

// TestTypesOfSteps: a tape whose first step has draws of float32, as its state has, and the others of bfloat16, is
// right.
func TestTypesOfSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		s := some(r)
		s.kind, s.m, s.t, s.c, s.h, s.correlated, s.half = "gaussian", 2, 4, 3, 16, false, fp16.Float32
		narrow := *s
		narrow.half = fp16.BFloat16
		s.draw = func(s *scene, kind noise.Kind, p float64, at where, dst []float64) {
			if at.step > 1 {
				s = &narrow
			}
			generators["few bits"](s, kind, p, at, dst)
		}
		if f := s.check(t, nil); f != nil {
			t.Errorf("%v: %s: %s", s, f.ID, f.Text)
		}
	}
}

// fault is a generator or a recorder that is not right.
type fault struct {
	name   string
	id     string // what it is called in noise of normal numbers
	step   int    // and where it begins; -1 if nowhere
	mask   string // the name in a dropout; "" where it cannot be
	change func(s *scene, at where, kind noise.Kind, v []float64)
}

// again draws the numbers of another step.
func again(step func(t int) int) func(s *scene, at where, kind noise.Kind, v []float64) {
	return func(s *scene, at where, kind noise.Kind, v []float64) {
		at.step = step(at.step)
		s.draw(s, kind, 1-fp16.Float32.Round(s.scale), at, v)
	}
}

// each changes every number.
func each(f func(at where, i int, v float64) float64) func(s *scene, at where, kind noise.Kind, v []float64) {
	return func(_ *scene, at where, _ noise.Kind, v []float64) {
		for i := range v {
			v[i] = f(at, i, v[i])
		}
	}
}

// plane is how many numbers a channel of a realization has.
func plane(s *scene, at where, v []float64) int { return len(v) / at.n / s.c }

// normalFrom makes standard normal numbers of uniform ones.
func normalFrom(u float64) float64 { return math.Sqrt2 * math.Erfinv(2*u-1) }

func uniformOf(v float64) float64 { return math.Erfc(-v/math.Sqrt2) / 2 }

const (
	everyStep = "noise.the-same-noise-at-every-step"
	steps     = "noise.steps-share-their-noise"
	everyone  = "noise.the-same-noise-for-all-realizations"
	another   = "noise.noise-of-another-distribution"
	rate      = "noise.dropout-rate-wrong"
)

var faults = []fault{
	{"one seed for all steps", everyStep, 2, everyStep, again(func(int) int { return 1 })},
	{"one seed from step 5 on", steps, 6, steps, again(func(t int) int { return min(t, 5) })},
	{"a step's draws at the next one, too", steps, 6, "", again(func(t int) int {
		if t == 6 {
			return 5
		}
		return t
	})},
	{"two seeds by turns", steps, 3, steps, again(func(t int) int { return t % 2 })},
	{"all realizations alike", everyone, 1, everyone, func(_ *scene, at where, _ noise.Kind, v []float64) {
		for m := 1; m < at.n; m++ {
			copy(v[m*len(v)/at.n:], v[:len(v)/at.n])
		}
	}},
	{"realizations alike at a step", "noise.realizations-share-their-noise", 7, "",
		func(_ *scene, at where, _ noise.Kind, v []float64) {
			if at.step == 7 {
				copy(v[len(v)/at.n:], v[:len(v)/at.n])
			}
		}},
	{"the first step's draws once more, 5 numbers on", steps, 6, "",
		func(s *scene, at where, kind noise.Kind, v []float64) {
			if at.step == 6 {
				again(func(int) int { return 1 })(s, at, kind, v)
				copy(v[5:], slices.Clone(v))
			}
		}},
	{"realizations seeded by their sum with the step", "noise.seeds-overlap", 2, "noise.seeds-overlap",
		func(s *scene, at where, kind noise.Kind, v []float64) {
			for m := range at.n {
				one := where{step: at.step - m + 100, n: 1, i: at.i}
				s.draw(s, kind, 1-fp16.Float32.Round(s.scale), one, v[m*len(v)/at.n:(m+1)*len(v)/at.n])
			}
		}},
	{"the other sign at every other step", steps, 2, "", func(s *scene, at where, kind noise.Kind, v []float64) {
		if at.step%2 == 0 {
			again(func(t int) int { return t - 1 })(s, at, kind, v)
			each(func(_ where, _ int, v float64) float64 { return -v })(s, at, kind, v)
		}
	}},
	{"zeros", "noise.no-noise", 1, rate, each(func(where, int, float64) float64 { return 0 })},
	{"ones", "noise.constant-draws", 1, "noise.dropout-is-off", each(func(where, int, float64) float64 { return 1 })},
	{"zeros at a step", "noise.no-noise", 4, rate, each(func(at where, _ int, v float64) float64 {
		if at.step == 4 {
			return 0
		}
		return v
	})},
	{"a channel of zeros at a step", "noise.no-noise", 4, "", func(s *scene, at where, _ noise.Kind, v []float64) {
		if n := plane(s, at, v); at.step == 4 {
			clear(v[n : 2*n])
		}
	}},
	{"all channels alike", "noise.all-channels-share-their-noise", 1, rate,
		func(s *scene, at where, _ noise.Kind, v []float64) {
			n := plane(s, at, v)
			for i := range v {
				v[i] = v[i/(n*s.c)*n*s.c+i%n]
			}
		}},
	{"scaled already", "noise.noise-scale-wrong", 1, "",
		each(func(_ where, _ int, v float64) float64 { return v * 0.05 })},
	{"1.1 times", "noise.noise-scale-wrong", -1, "",
		each(func(_ where, _ int, v float64) float64 { return float64(float32(v * 1.1)) })},
	{"a mean", "noise.noise-has-a-mean", -1, "", each(func(_ where, _ int, v float64) float64 { return v + 0.1 })},
	{"uniform numbers", "noise.uniform-noise", -1, "",
		each(func(_ where, _ int, v float64) float64 { return (uniformOf(v) - 0.5) * math.Sqrt(12) })},
	{"numbers from 0 to 1", "noise.uniform-noise", 1, "",
		each(func(_ where, _ int, v float64) float64 { return uniformOf(v) })},
	{"signs alone", another, 1, "", each(func(_ where, _ int, v float64) float64 { return math.Copysign(1, v) })},
	{"no tails", another, 1, "", each(func(_ where, _ int, v float64) float64 { return max(-1.5, min(1.5, v)) })},
	{"one large number", another, 3, "", each(func(at where, i int, v float64) float64 {
		if at.step == 3 && i == 17 {
			return 1000
		}
		return v
	})},
	{"uniform numbers of 12 bits", "noise.draws-of-few-values", -1, "", each(func(_ where, _ int, v float64) float64 {
		return normalFrom((min(4095, math.Floor(uniformOf(v)*4096)) + 0.5) / 4096)
	})},
	{"multiples of 1/256", "noise.draws-of-few-values", -1, "",
		each(func(_ where, _ int, v float64) float64 { return math.Round(v*256)/256 + 1e-3 })},
	{"half of the step before", "noise.the-same-noise-at-every-step", 2, "",
		func(s *scene, at where, kind noise.Kind, v []float64) {
			old := make([]float64, len(v))
			again(func(t int) int { return t - 1 })(s, at, kind, old)
			for i := range v {
				v[i] = float64(float32((v[i] + old[i]) / math.Sqrt2))
			}
		}},
	{"half of the pixel beside", "noise.noise-correlated-in-space", 1, "",
		func(_ *scene, _ where, _ noise.Kind, v []float64) {
			for i := range v[1:] {
				v[i] = float64(float32((v[i] + v[i+1]) / math.Sqrt2))
			}
		}},
	{"other probability", "", -1, rate, func(s *scene, at where, kind noise.Kind, v []float64) {
		s.draw(s, kind, 0.9, at, v)
	}},
}

// TestWrongTapes: what is wrong with a tape is named, with its place.
func TestWrongTapes(t *testing.T) {
	for _, kind := range []string{"gaussian", "multiplicative", "laplace", "dropout", "correlated"} {
		for _, f := range faults {
			s := &scene{kind: kind, scale: 0.3, m: 2, t: 17, c: 16, h: 8, seed: 9, draw: counter}
			id, step := f.id, f.step
			switch kind {
			case "dropout":
				id, s.c = f.mask, 64
			case "correlated":
				s.kind, s.correlated, s.c = "gaussian", true, 3
			}
			if id == "" {
				continue
			}
			got := s.check(t, func(at where, kind noise.Kind, v []float64) {
				if at.i == 0 {
					f.change(s, at, kind, v)
				}
			})
			switch {
			case got == nil:
				t.Errorf("%s, %s: passes", kind, f.name)
			case got.Verdict != report.FailRNG:
				t.Errorf("%s, %s: %s: want FAIL-RNG", kind, f.name, got.Verdict)
			case s.kind == "laplace" || s.correlated:
			case got.ID != id || s.kind != "dropout" && got.Step != step:
				t.Errorf("%s, %s: %s at step %d (%s): want %s at step %d", kind, f.name, got.ID, got.Step, got.Text, id, step)
			}
		}
	}
}

// TestMirroredDraws: draws that are those of another realization, each row from its other end, are few different
// numbers, also where only some of all are looked at.
func TestMirroredDraws(t *testing.T) {
	s := &scene{kind: "gaussian", scale: 0.3, m: 2, t: 17, c: 16, h: 16, seed: 9, draw: counter}
	got := s.check(t, func(at where, _ noise.Kind, v []float64) {
		copy(v[len(v)/at.n:], v[:len(v)/at.n])
		for i := len(v) / at.n; i < len(v); i += s.h {
			slices.Reverse(v[i : i+s.h])
		}
	})
	if got == nil || got.Verdict != report.FailRNG {
		t.Errorf("%+v: want FAIL-RNG", got)
	}
}
