package refrun_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

var campaign = flag.Int("campaign", 300_000, "outputs of each kind of operation that TestCampaign compares")

// TestCampaign holds compiled plans, on every instruction set of this CPU, to the
// plain Go path: other algorithms, other bounds, and exact arithmetic wherever a
// bound leaves a rounding open. (What judges the plain Go path are rationals and
// big floats: internal/judges/bigref in the tests of conv, norm and act.) Operations,
// shapes, modes, weights and data are drawn at random; a good part of the data is
// made to lie on or beside a rounding boundary.
func TestCampaign(t *testing.T) {
	if asm.ISAs()[0] == "purego" {
		t.Log("this build has no kernels to compare")
	}
	was := asm.ISA()
	defer asm.Use(was)
	for _, kind := range []string{"conv", "norm", "act"} {
		for _, isa := range asm.ISAs() {
			if isa == "purego" {
				continue
			}
			t.Run(kind+"/"+isa, func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(*campaign), uint64(len(kind))))
				compared, planned := 0, 0
				for trial := 0; compared < *campaign; trial++ {
					c, x, mode := campaignCase(t, r, kind)
					op, err := operator.Init(c, 1)
					if err != nil {
						t.Fatal(err)
					}
					weights := hostile(r)
					for _, p := range op.Params() {
						for i := range p.Data {
							p.Data[i] = fp16.Float32.Round(weights())
						}
					}
					if err := asm.Use(isa); err != nil {
						t.Fatal(err)
					}
					p := op.Compile(mode, x.N(), x.H(), x.W())
					got := tensor.New(op.Output(mode), x.N(), c.OutputChannels, x.H(), x.W())
					if err := p.Forward(got, x, nil, noise.Time{}); err != nil {
						t.Fatal(err)
					}
					asm.Use("purego")
					want, err := op.Forward(&operator.Pass{Mode: mode}, x)
					if err != nil {
						t.Fatal(err)
					}
					for i, w := range want.Data {
						if math.Float64bits(got.Data[i]) != math.Float64bits(w) {
							t.Fatalf("trial %d, %v, %+v, %dx%dx%dx%d: output %d is %g (%#x), want %g (%#x)",
								trial, mode, c.Nodes[0], x.N(), x.C(), x.H(), x.W(), i, got.Data[i],
								math.Float64bits(got.Data[i]), w, math.Float64bits(w))
						}
					}
					compared += len(want.Data)
					planned++
				}
				t.Logf("%d outputs of %d operators: 0 differ", compared, planned)
			})
		}
	}
}

// campaignCase draws an operator of one operation, its input and its mode.
func campaignCase(t *testing.T, r *rand.Rand, kind string) (operator.Config, *tensor.Tensor, graph.Mode) {
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	channels := []int{1, 3, 8, 13, 16, 24, 32, 64}[r.IntN(8)]
	side := 4 + r.IntN(29)
	n := operator.NodeConfig{Op: kind, Name: "it"}
	c := operator.Config{InputChannels: channels, OutputChannels: channels}
	switch kind {
	case "conv":
		n.OutChannels, n.KernelSize, n.NoBias = []int{3, 8, 16, 40, 64}[r.IntN(5)],
			[]int{1, 3, 3, 3, 5, 7}[r.IntN(6)], r.IntN(2) != 0
		n.PaddingMode = one("zeros", "circular")
		side += 4
		c.OutputChannels = n.OutChannels
		if n.KernelSize > 3 { // slow in plain Go
			c.InputChannels = min(c.InputChannels, 16)
		}
	case "norm":
		n.Normalization, n.Eps, n.NoAffine = one("instance", "batch", "group", "layer"),
			&[]float64{1e-5, 1e-3, 1e-12}[r.IntN(3)], r.IntN(3) == 0
		if n.Normalization == "group" {
			n.Groups = map[bool]int{true: max(1, channels/4), false: 1}[channels%4 == 0]
		}
	case "act":
		n.Activation = one("relu", "gelu", "gelu_tanh", "silu", "tanh")
	}
	c.Nodes = []operator.NodeConfig{n}
	name := one("float32", "float32", "tf32", "tf32:truncate", "float16", "bfloat16")
	rules := ""
	if name == "float16" || name == "bfloat16" {
		rules = "cuda"
	}
	mode, err := graph.ParseMode(name, rules)
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.New(fp16.Float32, 1+r.IntN(2), c.InputChannels, side, side+r.IntN(5))
	value := hostile(r)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(value())
	}
	if r.IntN(40) == 0 {
		x.Data[r.IntN(len(x.Data))] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)]
	}
	return c, x, mode
}

// hostile draws a source of numbers: half of the time normal ones, of which what
// is computed is rounded like any number; else such as put sums, variances or
// functions on a boundary of rounding or next to it, or at the ends of a format.
func hostile(r *rand.Rand) func() float64 {
	size := math.Ldexp(1, r.IntN(9)-6)
	switch r.IntN(12) {
	case 0: // few bits: ties
		return func() float64 { return size * math.Round(3*r.NormFloat64()) }
	case 1:
		return func() float64 { return fp16.BFloat16.Round(size * r.NormFloat64()) }
	case 2: // one great number among small ones
		return func() float64 {
			if r.IntN(50) == 0 {
				return 0x1p20 * size
			}
			return size * r.NormFloat64() * 0x1p-5
		}
	case 3: // sums of pairs cancel but for the last bits
		v, i := 0.0, 0
		return func() float64 {
			if i++; i%2 == 0 {
				return -v * (1 + float64(r.IntN(3)-1)*0x1p-23)
			}
			v = size * r.NormFloat64()
			return v
		}
	case 4: // a mean far from zero
		return func() float64 { return size * (1000 + r.NormFloat64()) }
	case 5: // constant, but for a few
		return func() float64 {
			if r.IntN(200) == 0 {
				return size * r.NormFloat64()
			}
			return 0.1 * size
		}
	case 6: // all magnitudes, subnormal ones too
		return func() float64 { return math.Ldexp(r.NormFloat64(), -r.IntN(150)) }
	default:
		return func() float64 { return size * r.NormFloat64() }
	}
}
