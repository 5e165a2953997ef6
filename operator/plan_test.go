package operator

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// planCase is an operator and an input.
type planCase struct {
	layers, base, in, out, kernel int
	act, norm, noise              string
	n, h, w                       int
}

func (c planCase) operator(t testing.TB) *Operator {
	t.Helper()
	op, err := Init(Config{NumLayers: c.layers, BaseChannels: c.base, InputChannels: c.in, OutputChannels: c.out,
		KernelSize: c.kernel, Activation: c.act, Normalization: c.norm, NoiseType: c.noise, NoiseScale: 0.2}, 11)
	if err != nil {
		t.Fatal(err)
	}
	// Parameters of norms that are not 1 and 0.
	for k, p := range op.Params() {
		if strings.HasSuffix(p.Name, "num_batches_tracked") || strings.HasSuffix(p.Name, "noise_scale") {
			continue
		}
		for i := range p.Data {
			if p.Data[i] == 1 || p.Data[i] == 0 {
				p.Data[i] = fp16.Float32.Round(p.Data[i]*0.7 + 0.1*math.Abs(math.Mod(float64(7*i+k), 5)-1.5))
			}
		}
	}
	return op
}

var planCases = []planCase{
	{4, 8, 3, 3, 3, "gelu", "instance", "gaussian", 1, 12, 16},
	{4, 3, 2, 5, 3, "silu", "instance", "laplace", 2, 7, 5},
	{2, 8, 1, 2, 5, "relu", "none", "multiplicative", 1, 9, 8},
	{5, 4, 2, 2, 3, "tanh", "batch", "dropout", 3, 6, 9},
	{4, 16, 9, 1, 3, "gelu_tanh", "group", "gaussian", 2, 5, 4},
	{4, 4, 2, 2, 1, "gelu", "layer", "", 1, 6, 7},
	{0, 4, 2, 2, 3, "none", "none", "gaussian", 1, 4, 4},
	{4, 2, 1, 1, 7, "gelu", "instance", "multiplicative", 1, 5, 6},
	{3, 16, 2, 2, 3, "gelu", "instance", "dropout", 1, 1, 1},
}

var planModes = [][2]string{{"float32", ""}, {"tf32", ""}, {"tf32:away", ""}, {"tf32:truncate", ""},
	{"float16", "cuda"}, {"float16", "cpu"}, {"bfloat16", "cuda"}, {"bfloat16", "cpu"}, {"bfloat16", "cuda:1.13"},
	{"bfloat16", "cpu:1.13"}, {"float32:fast", ""}, {"float64", ""}}

// streams are the draws of one application, made anew.
func streams(t testing.TB, n int) map[string]func() noise.Draws {
	return map[string]func() noise.Draws{
		"none": func() noise.Draws { return nil },
		"counter": func() noise.Draws {
			d, err := noise.Counter{Seed: 5}.At(3, 2, 2+n)
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
		"torch": func() noise.Draws {
			g, err := noise.ParseTorchCPU("torch-cpu:2.x", "")
			if err != nil {
				t.Fatal(err)
			}
			g.Seed(9)
			return g
		},
	}
}

// TestPlan: a plan has the bits of Forward in every mode, for every norm, activation
// and noise, on every instruction set and number of threads, again and again.
func TestPlan(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer asm.Use(asm.ISA())
	for k, c := range planCases {
		op := c.operator(t)
		x := []*tensor.Tensor{input(c.n, c.in, c.h, c.w), input(c.n, c.in, c.h, c.w)}
		for i := range x[1].Data {
			x[1].Data[i] = fp16.Float32.Round(2*x[1].Data[i] + 0.3)
		}
		for j, name := range planModes {
			if k > 2 && (k+j)%2 > 0 { // every mode with the first three, and then every second one
				continue
			}
			m, err := graph.ParseMode(name[0], name[1])
			if err != nil {
				t.Fatal(err)
			}
			isas := asm.ISAs()
			if (k+j)%3 != 0 {
				isas = isas[:1]
			}
			for _, isa := range isas {
				if err := asm.Use(isa); err != nil {
					t.Fatal(err)
				}
				runtime.GOMAXPROCS(1 + (j+k)%4)
				p := op.Compile(m, c.n, c.h, c.w)
				for stream, draws := range streams(t, c.n) {
					if j > 0 && stream != []string{"none", "counter", "torch"}[(k+j)%3] {
						continue
					}
					for i, x := range x {
						if x.Format = fp16.Float32; m.Wide() == fp16.Float64 {
							x.Format = fp16.Float64
						}
						at := fmt.Sprintf("%+v, %v, %s, noise %s, run %d", c, m, isa, stream, i)
						want, err := op.Forward(&Pass{Mode: m, Draws: draws()}, x)
						got := tensor.New(m.Output(), c.n, c.out, c.h, c.w)
						err2 := p.Forward(got, x, draws(), noise.Time{})
						if err != nil || err2 != nil {
							if err == nil || err2 == nil || err.Error() != err2.Error() {
								t.Fatalf("%s: error %v, want %v", at, err2, err)
							}
							continue
						}
						samePlan(t, at, got, want)
						if ok, why := p.Compiled(); ok == (m.Precision == fp16.Float64) {
							t.Fatalf("%s: compiled is %v: %s", at, ok, why)
						}
						again, err := op.Forward(&Pass{Mode: m, Draws: p.Again()}, x)
						if ok, _ := p.Compiled(); ok {
							if err != nil {
								t.Fatal(err)
							}
							samePlan(t, at+", draws again", again, want)
						}
					}
				}
			}
		}
	}
}

func samePlan(t *testing.T, at string, got, want *tensor.Tensor) {
	t.Helper()
	if !got.SameShape(want) || got.Format != want.Format {
		t.Fatalf("%s: %s %v, want %s %v", at, got.Dims(), got.Format, want.Dims(), want.Format)
	}
	for i, w := range want.Data {
		if math.Float64bits(got.Data[i]) != math.Float64bits(w) {
			t.Fatalf("%s: element %d is %x, want %x", at, i, got.Data[i], w)
		}
	}
}

// TestPlanSpecials: NaN, infinities and overflow go the same way, and a watching plan
// sees them.
func TestPlanSpecials(t *testing.T) {
	for k, c := range planCases[:6] {
		op := c.operator(t)
		for j, name := range planModes[:8] {
			m, err := graph.ParseMode(name[0], name[1])
			if err != nil {
				t.Fatal(err)
			}
			p := op.Compile(m, c.n, c.h, c.w)
			p.Watch = true
			for i, special := range []string{"NaN", "Inf", "large", "none"} {
				if (i+j+k)%2 > 0 { // two of them with each mode, the other two in the next case
					continue
				}
				v := []float64{math.NaN(), math.Inf(-1), 0x1p127, 0.5}[i]
				x := input(c.n, c.in, c.h, c.w)
				x.Data[(7*k+3)%len(x.Data)] = fp16.Float32.Round(v)
				bad := false
				want, err := op.Forward(&Pass{Mode: m, Feature: func(name string, y *tensor.Tensor) {
					_, ok := finite(y.Data)
					bad = bad || name != "input" && !ok
				}}, x)
				got := tensor.New(m.Output(), c.n, c.out, c.h, c.w)
				if err2 := p.Forward(got, x, nil, noise.Time{}); err != nil || err2 != nil {
					if (err == nil) != (err2 == nil) {
						t.Fatal(err, err2)
					}
					continue
				}
				at := fmt.Sprintf("%+v, %v, %s", c, m, special)
				samePlan(t, at, got, want)
				if p.Nonfinite() != bad {
					t.Errorf("%s: not finite is %v, want %v", at, p.Nonfinite(), bad)
				}
			}
		}
	}
}

// hardFills are data for which roundings are hard to decide, variances are lost or
// sums cancel.
var hardFills = map[string]func(r *rand.Rand) float64{
	"normal":         func(r *rand.Rand) float64 { return r.NormFloat64() },
	"zeros":          func(r *rand.Rand) float64 { return 0 },
	"constant":       func(r *rand.Rand) float64 { return 0.3 },
	"large constant": func(r *rand.Rand) float64 { return 3e12 },
	"integers":       func(r *rand.Rand) float64 { return float64(r.IntN(9) - 4) },
	"offset":         func(r *rand.Rand) float64 { return 1e4 + 1e-3*r.NormFloat64() },
	"subnormal":      func(r *rand.Rand) float64 { return 1e-42 * r.NormFloat64() },
	"huge":           func(r *rand.Rand) float64 { return 1e30 * r.NormFloat64() },
	"all sizes":      func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(200)-100) },
	"some NaN": func(r *rand.Rand) float64 {
		if r.IntN(50) == 0 {
			return math.NaN()
		}
		return r.NormFloat64()
	},
	"some Inf": func(r *rand.Rand) float64 {
		if r.IntN(50) == 0 {
			return math.Inf(1)
		}
		return r.NormFloat64()
	},
}

// TestPlanAllocates: data that a plan has seen before, however hard, takes no memory,
// for every norm, activation and mode.
func TestPlanAllocates(t *testing.T) {
	if asm.RowKernels() == nil {
		t.Log("plain Go settles elements with memory of its own")
		return
	}
	for _, norm := range []string{"none", "instance", "group", "layer", "batch", "large layer"} {
		for k, act := range []string{"gelu", "relu", "gelu_tanh", "silu", "tanh"} {
			c := planCase{2, 8, 3, 3, 3, act, norm, "gaussian", 1, 12, 12}
			if norm == "large layer" { // whose sums are exact
				if c = (planCase{2, 8, 3, 3, 3, act, "layer", "", 1, 131, 128}); k > 0 {
					continue
				}
			}
			op := c.operator(t)
			for n, name := range [][2]string{planModes[0], planModes[1], planModes[4], planModes[6], planModes[7]} {
				m, err := graph.ParseMode(name[0], name[1])
				if err != nil {
					t.Fatal(err)
				}
				p, x, y := op.Compile(m, 1, c.h, c.w), input(1, 3, c.h, c.w), tensor.New(m.Output(), 1, 3, c.h, c.w)
				for d, data := range slices.Sorted(maps.Keys(hardFills)) {
					if (k > 0 || norm == "large layer") && (d+k+n)%5 > 0 { // all with GELU, else a fifth with each mode
						continue
					}
					fill, r := hardFills[data], rand.New(rand.NewPCG(1, 2))
					for i := range x.Data {
						x.Data[i] = fp16.Float32.Round(fill(r))
					}
					var a float64
					for range 3 { // a worker that had nothing to do before takes its memory
						if a = testing.AllocsPerRun(1, func() {
							if err := p.Forward(y, x, nil, noise.Time{}); err != nil {
								t.Fatal(err)
							}
						}); a == 0 {
							break
						}
					}
					if a != 0 {
						t.Errorf("%s, %s, %v, %s: %v allocations", norm, act, m, data, a)
					}
				}
			}
		}
	}
}

// TestPlanAllocations: no memory is allocated once a plan has run.
func TestPlanAllocations(t *testing.T) {
	if asm.RowKernels() == nil {
		t.Log("plain Go settles elements with memory of its own")
		return
	}
	c := planCase{4, 8, 3, 3, 3, "gelu", "instance", "gaussian", 1, 16, 16}
	op := c.operator(t)
	for _, name := range planModes[:8] {
		m, err := graph.ParseMode(name[0], name[1])
		if err != nil {
			t.Fatal(err)
		}
		for stream, draws := range streams(t, 1) {
			p, x, y, d := op.Compile(m, 1, 16, 16), input(1, 3, 16, 16), tensor.New(m.Output(), 1, 3, 16, 16), draws()
			if stream == "counter" {
				d = nil // made anew for each step
			}
			if a := testing.AllocsPerRun(10, func() {
				if err := p.Forward(y, x, d, noise.Time{}); err != nil {
					t.Fatal(err)
				}
			}); a != 0 {
				t.Errorf("%v, noise %s: %v allocations", m, stream, a)
			}
		}
	}
}
