package noisestat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/structure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestUnknownNoise holds right devices whose noise the check cannot repeat.
func TestUnknownNoise(t *testing.T) {
	for _, precision := range []string{"float32", "tf32", "float16", "bfloat16"} {
		for kind, scale := range map[string]float64{
			"gaussian": 0.05, "laplace": 0.03, "multiplicative": 0.1, "dropout": 0.2,
		} {
			r := rig.NewRig(t, precision, kind, scale)
			e := r.Exam(r.Run(nil), false)
			name := precision + ", " + kind
			rig.Want(t, name, rig.Do(t, e, ReadMasks, structure.Check, Check), "", "", 0)
			if kind == "dropout" {
				for m := range r.Config.Realizations {
					for u := 1; u < r.Config.Timesteps; u++ {
						d := r.Draws(u).Data[0]
						n := len(d) / r.Config.Realizations
						if !slices.Equal(e.Masks.Of[m*(r.Config.Timesteps-1)+u-1], d[m*n:(m+1)*n]) {
							t.Errorf("%s: step %d, realization %d: other masks than the device's", name, u, m)
						}
					}
				}
			}
			if len(e.Report.Noise.Tests) < 2 {
				t.Errorf("%s: %d tests: want some", name, len(e.Report.Noise.Tests))
			}
			for _, n := range e.Report.Noise.Tests {
				if !n.OK {
					t.Errorf("%s: %s: %v (z %v): want it right", name, n.Name, n.Value, n.Z)
				}
			}
		}
	}
}

// TestUnknownMasksOfAlikeChannels: where all pixels are the same, eight channels give
// three numbers, and no masks can be read off them.
func TestUnknownMasksOfAlikeChannels(t *testing.T) {
	for _, precision := range []string{"float32", "tf32", "float16", "bfloat16"} {
		r := rig.NewRig(t, precision, "dropout", 0.3)
		config := r.Op.Config
		config.Normalization, config.KernelSize = "none", 1
		var err error
		if r.Op, err = operator.Init(config, 5); err != nil {
			t.Fatal(err)
		}
		r.Start = func(x *tensor.Tensor) {
			for n := range x.N() {
				for c := range x.C() {
					p := x.Plane(n, c)
					for i := range p {
						p[i] = p[0]
					}
				}
			}
		}
		e := r.Exam(r.Run(nil), false)
		rig.Want(t, precision, rig.Do(t, e, ReadMasks, structure.Check, Check), "", "", 0)
		if e.Masks != nil || len(e.Report.Notes) == 0 {
			t.Errorf("%s: masks %v, notes %q: want a note, and none", precision, e.Masks, e.Report.Notes)
		}
	}
}

// TestNoiseTimesZero: noise that multiplies leaves zeros as they are, and realizations
// that start alike have the same states, whatever their draws.
func TestNoiseTimesZero(t *testing.T) {
	for _, kind := range []string{"multiplicative", "gaussian"} {
		r := rig.NewRig(t, "float32", kind, 0.1)
		r.Start = func(x *tensor.Tensor) { clear(x.Data) }
		r.Config.Policy, r.Config.Timesteps = rollout.Autoregressive, 2
		s := r.Run(func(_ *rig.Rig, _ int, _ *emulate.Device, draws *emulate.Draws, _ []*tensor.Tensor) {
			v := draws.Data[0]
			for i := range v {
				v[i] = v[i%(len(v)/3)] // one for all, so that gaussian states are alike, too
			}
		})
		verdict, diagnosis, step := report.FailRNG, "the same noise for all realizations", 1
		if kind == "multiplicative" {
			verdict, diagnosis, step = "", "", 0
		}
		e := r.Exam(s, false)
		rig.Want(t, kind, rig.Do(t, e, ReadMasks, structure.Check), verdict, diagnosis, step)
	}
}

// TestUnknownNoiseNearRoundings holds devices whose factors 1+n are a few numbers of
// the half type around 1, and whose states get smaller: roundings have another share
// of the noise at each step, and a mean.
func TestUnknownNoiseNearRoundings(t *testing.T) {
	for _, scale := range []float64{0.005, 0.01} {
		r := rig.NewRig(t, "bfloat16", "multiplicative", scale)
		config := r.Op.Config
		config.Normalization = "none"
		var err error
		if r.Op, err = operator.Init(config, 5); err != nil {
			t.Fatal(err)
		}
		e := r.Exam(r.Run(nil), false)
		rig.Want(t, "near roundings", rig.Do(t, e, Check), "", "", 0)
	}
}

// TestUnknownNoiseOfFewChannels holds right devices whose noise multiplies what a
// ReLU has left: at some pixels there are fewer channels than outputs, so that a
// direction holds float32's roundings and no noise.
func TestUnknownNoiseOfFewChannels(t *testing.T) {
	for _, precision := range []string{"float32", "tf32"} {
		r := rig.NewRig(t, precision, "multiplicative", 0.1)
		config := r.Op.Config
		config.Activation, config.BaseChannels = "relu", 4
		var err error
		if r.Op, err = operator.Init(config, 5); err != nil {
			t.Fatal(err)
		}
		e := r.Exam(r.Run(nil), false)
		rig.Want(t, precision, rig.Do(t, e, Check), "", "", 0)
		if v := e.Report.Steps[0].R64; math.Abs(float64(v)-1) > 0.2 {
			t.Errorf("%s: variance of z %v: want about 1", precision, v)
		}
	}
}

// TestSharedSeeds holds a device that seeds engine batches of one realization with
// their number plus the step, as frameworks' streams are: they share draws, and
// are right to.
func TestSharedSeeds(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", 0.05)
	r.Config.EngineBatch = 1
	s := r.Run(func(r *rig.Rig, u int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
		per := len(d.Data[0]) / r.Config.Realizations
		for m := range r.Config.Realizations {
			copy(d.Data[0][m*per:(m+1)*per], r.Draws(u + m).Data[0][:per])
		}
	})
	e := r.Exam(s, false)
	rig.Want(t, "shared seeds", rig.Do(t, e, ReadMasks, structure.Check, Check), "", "", 0)
	if len(e.Report.Notes) != 1 {
		t.Errorf("notes %q: want one that says so", e.Report.Notes)
	}
}

// TestUnknownNoiseRecorded holds PyTorch's recorded cases as if their noise were
// unknown.
func TestUnknownNoiseRecorded(t *testing.T) {
	dirs, err := filepath.Glob(rig.Testdata("rollouts", "*"))
	if err != nil || len(dirs) < 7 {
		t.Fatal(len(dirs), err)
	}
	for _, dir := range dirs {
		c := rig.OpenCase(t, filepath.Base(dir))
		autocast := ""
		if c.Rollout.Precision == "bfloat16" {
			autocast = "cpu"
		}
		mode, err := graph.ParseMode(c.Rollout.Precision, autocast)
		if err != nil {
			t.Fatal(err)
		}
		op, err := c.NewOperator()
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		e := &evidence.Evidence{Ctx: t.Context(), Case: c, Op: op, States: s, Machine: emulate.New(op, c.Rollout), Mode: mode}
		g := facts.Begin(e, &facts.Facts{Report: facts.Open(e)})
		rig.Want(t, dir, rig.Do(t, g, Check), "", "", 0)
		if op.HasNoise() && len(g.Report.Noise.Tests) < 8 {
			t.Errorf("%s: %d tests: want all", dir, len(g.Report.Noise.Tests))
		}
	}
}

// TestWrongUnknownNoise holds devices whose noise is wrong in one way each, as
// its own numbers must show.
func TestWrongUnknownNoise(t *testing.T) {
	one := rig.Redraw(func(v []float64, per int) []float64 {
		y := append([]float64(nil), v...)
		for m := per; m < len(y); m += per {
			copy(y[m:m+per], y[:per])
		}
		return y
	})
	for _, c := range []struct {
		name, kind string
		scale      float64
		do         rig.Mischief
		diagnosis  string
		step       int
	}{
		{"all realizations alike", "gaussian", 0.05, one, "the same noise for all realizations", 1},
		{"all realizations alike, from 5", "gaussian", 0.05, rig.From(5, one), "the same noise for all realizations", 5},
		{"the same at all steps", "laplace", 0.05,
			func(r *rig.Rig, _ int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) { *d = *r.Draws(1) },
			"the same noise at every step", 2},
		{"steps in pairs", "gaussian", 0.05,
			func(r *rig.Rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
				*d = *r.Draws(t + t%2)
			}, "steps share their noise", 2},
		{"scale squared", "gaussian", 0.3, rig.Times(0.3), "noise scale squared", 1},
		{"root of 2", "multiplicative", 0.1, rig.Times(math.Sqrt2), "noise scale larger by the root of 2", 1},
		{"no noise at 6", "gaussian", 0.05, rig.At(6, rig.Times(0)), "noise scale changes with the steps", 6},
		{"no noise", "gaussian", 0.05, rig.Times(0), "no noise", 1},
		{"one realization without", "gaussian", 0.05, rig.Redraw(func(v []float64, per int) []float64 {
			y := append([]float64(nil), v...)
			clear(y[per : 2*per])
			return y
		}), "noise scale of one realization", 1},
		{"uniform", "gaussian", 0.05, rig.Redraw(rig.Uniform), "uniform noise", -1},
		{"a mean", "gaussian", 0.05, rig.Redraw(func(v []float64, _ int) []float64 {
			y := make([]float64, len(v))
			for i, x := range v {
				y[i] = x + 0.3
			}
			return y
		}), "noise has a mean", -1},
		{"smooth", "gaussian", 0.05, rig.Redraw(func(v []float64, _ int) []float64 {
			y := make([]float64, len(v))
			for i, x := range v {
				y[i] = (x + v[(i+1)%len(v)]) / math.Sqrt2
			}
			return y
		}), "noise correlated in space", -1},
		{"channels alike", "gaussian", 0.05, rig.Redraw(func(v []float64, per int) []float64 {
			y := make([]float64, len(v))
			for i := range v {
				y[i] = v[i/per*per+i%256]
			}
			return y
		}), "noise differs between channels", 1},
		{"masks alike", "dropout", 0.3, one, "the same noise for all realizations", -1},
		{"too many dropped", "dropout", 0.3, rig.Redraw(func(v []float64, _ int) []float64 {
			y := make([]float64, len(v))
			for i, x := range v {
				y[i] = x * v[(i+3)%len(v)]
			}
			return y
		}), "dropout rate wrong", -1},
		{"seeds overlap", "gaussian", 0.05, func(r *rig.Rig, t int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
			old := r.Draws(max(t-1, 1)).Data[0]
			per := len(old) / r.Config.Realizations
			copy(d.Data[0][per:2*per], old[:per])
		}, "seeds overlap", 0},
	} {
		r := rig.NewRig(t, "float32", c.kind, c.scale)
		r.Config.Timesteps = 13
		e := r.Exam(r.Run(c.do), false)
		f := rig.Do(t, e, ReadMasks, structure.Check, Check)
		if c.step == 0 && f != nil {
			c.step = f.Step
		}
		rig.Want(t, c.name, f, report.FailRNG, c.diagnosis, c.step)
	}
}

// TestWrongBehindUnknownNoise holds devices whose noise is right, and nothing
// else: what is wrong must not be called noise.
func TestWrongBehindUnknownNoise(t *testing.T) {
	conv0 := func(change func(r *rig.Rig, y *tensor.Tensor)) rig.Mischief {
		return func(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
			m := emulate.New(r.Op, r.Config)
			plain := *d
			d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if i != 0 {
					return nil, nil
				}
				y, err := m.Plain(&plain, i, in, nil)
				if err == nil {
					change(r, y)
				}
				return y, err
			}
		}
	}
	for name, f := range map[string]rig.Mischief{
		"circular padding": func(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
			m := emulate.New(r.Op, r.Config)
			d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				n := m.Nodes[i]
				if n.Op != operator.OpConv || n.Geometry.Pad[0] == 0 {
					return nil, nil
				}
				n.Geometry.Padding = conv.Circular
				return emulate.Wide(in[0], emulate.NewKernel(r.Mode, &n, n.Weight.Data), n.Geometry), nil
			}
		},
		"alpha": rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, x, right, _ *tensor.Tensor) *tensor.Tensor {
			y := right.Clone()
			for i, v := range x.Data {
				y.Data[i] += 0.02 * v
			}
			y.Format.RoundSlice(y.Data, y.Data)
			return y
		}),
		"a channel that is not written": conv0(func(_ *rig.Rig, y *tensor.Tensor) {
			for n := range y.N() {
				clear(y.Plane(n, 3))
			}
		}),
		"a stale tile at one step": rig.At(4,
			rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, x, right, _ *tensor.Tensor) *tensor.Tensor {
				y := right.Clone()
				for h := range 8 {
					copy(y.Plane(1, 2)[h*y.W():h*y.W()+8], x.Plane(1, 2)[h*y.W():])
				}
				return y
			})),
		"a bias": rig.PolicyFault(func(_ *rig.Rig, _ *emulate.Device, _, right, _ *tensor.Tensor) *tensor.Tensor {
			y := right.Clone()
			for n := range y.N() {
				for i := range y.Plane(n, 1) {
					y.Plane(n, 1)[i] += 0.01
				}
			}
			y.Format.RoundSlice(y.Data, y.Data)
			return y
		}),
	} {
		for _, precision := range []string{"float32", "float16"} {
			r := rig.NewRig(t, precision, "gaussian", 0.05)
			e := r.Exam(r.Run(f), false)
			got := rig.Do(t, e, ReadMasks, structure.Check, Check)
			if got == nil || got.Verdict != report.FailLogic {
				t.Errorf("%s, %s: %+v: want FAIL-LOGIC", name, precision, got)
			} else if strings.Contains(name, "one step") && got.Step != 4 {
				t.Errorf("%s, %s: step %d: want 4", name, precision, got.Step)
			}
		}
	}
}

// TestKurtosis holds the estimate of the draws' kurtosis to draws whose kurtosis
// is known, behind a mixture of channels, and the deviation it says it has.
func TestKurtosis(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", 1)
	e := r.Exam(r.Run(nil), true)
	m := NewModel(e.Evidence)
	hidden := tensor.New(0, 1, len(m.W[0]), 128, 128)
	normals := make([]float64, len(hidden.Data))
	d, err := noise.Counter{Seed: 3}.At(1, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Draw(noise.Normal, 0, []int{1, hidden.C(), 128, 128}, normals); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		draw  func(v []float64, per int) []float64
		kappa float64
	}{
		"normal":  {func(v []float64, _ int) []float64 { return v }, 0},
		"uniform": {rig.Uniform, -1.2},
		"signs": {func(v []float64, _ int) []float64 {
			y := make([]float64, len(v))
			for i, x := range v {
				y[i] = math.Copysign(1, x)
			}
			return y
		}, -2},
	} {
		xi := c.draw(normals, 0)
		hw := 128 * 128
		res := make([]float64, len(m.W)*hw)
		for o, w := range m.W {
			for ch, v := range w {
				for p := range hw {
					res[o*hw+p] += v * xi[ch*hw+p]
				}
			}
		}
		f := m.Field(hidden, res, nil, make([]float64, len(m.Rows)))
		kappa, std := f.Sums[0].kurtosis(f.Sums[0].Level(f.K))
		if math.Abs(kappa-c.kappa) > 5*std || std > 0.2 {
			t.Errorf("%s: kurtosis %.3f +- %.3f: want %.1f", name, kappa, std, c.kappa)
		}
		if l := f.Sums[0].Level(f.K); math.Abs(l-1) > 5*math.Sqrt(2/float64(3*hw)) {
			t.Errorf("%s: variance of z %.4f: want 1", name, l)
		}
	}
}

// TestChiZ holds the normal deviate of chi-square variables to tabulated
// quantiles (P = 0.01 and 0.99; Abramowitz and Stegun, table 26.8).
func TestChiZ(t *testing.T) {
	for _, c := range [][3]float64{
		{10, 2.55821, -2.3263}, {10, 23.2093, 2.3263}, {100, 70.0648, -2.3263}, {100, 135.807, 2.3263},
	} {
		if got := chiZ(c[1], c[0]); math.Abs(got-c[2]) > 0.03 {
			t.Errorf("chiZ(%v, %v) = %v: want %v", c[1], c[0], got, c[2])
		}
	}
}

// TestBlindToDraws: each fault of the draws is either found or listed among what the
// run could not have shown, and none is listed that a longer run finds.
func TestBlindToDraws(t *testing.T) {
	ramp := rig.Redraw(func(v []float64, per int) []float64 {
		y := make([]float64, len(v))
		channels := per / 256
		for i, x := range v {
			y[i] = x * (0.5 + float64(i/256%channels)/float64(channels-1))
		}
		return y
	})
	each := func(f func(x float64) float64) rig.Mischief {
		return rig.Redraw(func(v []float64, _ int) []float64 {
			y := make([]float64, len(v))
			for i, x := range v {
				y[i] = f(x)
			}
			return y
		})
	}
	for name, f := range map[string]rig.Mischief{
		"noise with a mean of a tenth of its deviation":       each(func(x float64) float64 { return x + 0.1 }),
		"draws cut off at 2 standard deviations":              each(func(x float64) float64 { return min(max(x, -2), 2) }),
		"scale of the noise from 0.5 to 1.5 times by channel": ramp,
		"noise scale 1.2 times":                               rig.Times(1.2),
		"one step without noise":                              rig.At(2, rig.Times(0)),
	} {
		for _, kind := range []string{"gaussian", "multiplicative"} {
			for _, steps := range []int{1, 2, 4, 60} {
				for start := 1; start <= steps; start += max(1, steps-2) {
					if name == "one step without noise" && (start > 1 || steps < 2) {
						continue
					}
					r := rig.NewRig(t, "float32", kind, 0.05)
					r.Config.Timesteps, r.Config.Realizations = steps+1, 1
					e := r.Exam(r.Run(rig.From(start, f)), false)
					found := rig.Do(t, e, Check) != nil
					listed := slices.ContainsFunc(e.Report.Blind, func(b report.Blind) bool {
						whole, late, _ := strings.Cut(b.Name, ", if it begins at step ")
						since := 0
						fmt.Sscan(late, &since)
						return whole == name && start >= since
					})
					if found == listed && !(found && steps < 60) {
						t.Errorf("%s, %s, %d steps, from %d: found %v, listed as blind %v", name, kind, steps, start, found, listed)
					}
				}
			}
		}
	}
}

// TestBuriedInNoise: what is not noise, and as large as a report says that it must be
// to be seen, is seen; what is two thirds of it is not.
func TestBuriedInNoise(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", 0.05)
	size := 0.0
	for _, part := range []float64{0, 2. / 3, 1} {
		e := r.Exam(r.Run(rig.Times(math.Sqrt(1+part*part*size*size))), false)
		if found := rig.Do(t, e, Check) != nil; found != (part == 1) {
			t.Errorf("%.2g of %v: found %v", part, size, found)
		}
		for _, b := range e.Report.Blind {
			if part == 0 && strings.HasPrefix(b.Name, "errors of the operator") {
				fmt.Sscanf(b.Name, "errors of the operator, of any kind, below %g of", &size)
			}
		}
	}
	if !(size > 0.01 && size < 1) {
		t.Errorf("%v of the noise: want a part", size)
	}
}

// TestWide: outputs that are one number are as uneven as the root of their count times
// independent ones.
func TestWide(t *testing.T) {
	m := &Model{Rows: []int{0, 1, 2}}
	for _, c := range []struct {
		cov  []float64
		want float64
	}{
		{[]float64{7, 0, 0, 0, 7, 0, 0, 0, 7}, 1},
		{[]float64{2, 2, 2, 2, 2, 2, 2, 2, 2}, math.Sqrt(3)},
		{[]float64{3, 0, 0, 0, 0, 0, 0, 0, 0}, math.Sqrt(3)},
	} {
		if got := (&noiseTests{m: m, total: Sums{cov: c.cov}}).wide(); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("covariance %v: %v, want %v", c.cov, got, c.want)
		}
	}
}

// TestSparing: equations are taken of all columns of an image, and of all pixels of a small one.
func TestSparing(t *testing.T) {
	t.Parallel()
	if every := sparing(24*24*3, 8, 24); every != 1 {
		t.Errorf("a small image: one pixel of %d", every)
	}
	for _, w := range []int{30, 96, 210, 256} {
		every := sparing(w*w*3, 64, w)
		seen := map[int]bool{}
		for at := 0; at < w*w; at += every {
			seen[at%w] = true
		}
		if w > 100 && every == 1 || len(seen) != w {
			t.Errorf("width %d: one pixel of %d, of %d columns", w, every, len(seen))
		}
	}
}

// TestRefine: of channels that are much alike the factors that come nearest to rounded states may be far from what they
// are; the mask that comes nearest is the right one.
func TestRefine(t *testing.T) {
	t.Parallel()
	const pixels, channels, p = 400, 6, 0.2
	r := rand.New(rand.NewPCG(3, 9))
	for trial := range 20 {
		var part [channels][]float64
		for c := range part {
			part[c] = make([]float64, pixels)
			for i := range part[c] {
				part[c][i] = math.Sin(float64(i)/40+.2*float64(c)) + .02*r.NormFloat64()
			}
		}
		want, y := make([]float64, channels), make([]float64, pixels)
		for c := range want {
			want[c] = float64(r.IntN(2))
			for i, v := range part[c] {
				y[i] += want[c] / (1 - p) * v
			}
		}
		n := normal{make([]float64, channels*channels), make([]float64, channels)}
		for i, v := range y {
			v += .05 * math.Sin(float64(i)/13) // no noise
			for j := range part {
				n.b[j] += part[j][i] * v
				for l := range j + 1 {
					n.a[j*channels+l] += part[j][i] * part[l][i]
				}
			}
		}
		got := slices.Clone(want)
		for range 2 {
			c := r.IntN(channels)
			got[c] = 1 - got[c]
		}
		if n.refine(got, p); !slices.Equal(got, want) {
			t.Errorf("trial %d: %v, want %v", trial, got, want)
		}
	}
}

// TestPairsCorrelation: fields that are the same are, and two in which one pixel is far larger than all others say
// nothing by that.
func TestPairsCorrelation(t *testing.T) {
	t.Parallel()
	const n = 1000
	r := rand.New(rand.NewPCG(6, 1))
	field := func(large float32) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		v[300] += large
		return v
	}
	a, b, c, d := field(0), field(0), field(50), field(-70)
	p := &pairs{t: 1, kept: [][]float32{a, a, b, c, d}}
	for _, k := range []struct {
		m, n        int
		least, most float64
	}{{0, 1, 15, 40}, {0, 2, -5, 5}, {3, 4, -2, 0}} {
		if _, z := p.correlation(k.m, 0, k.n, 0); z < k.least || z > k.most {
			t.Errorf("fields %d and %d: %.3g deviations, want %v to %v", k.m, k.n, z, k.least, k.most)
		}
	}
}
