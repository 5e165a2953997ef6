package operator

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// rounding is where a mode rounds, written down once more and by hand: the
// type of a convolution's operands and of its output, whether its bias is an
// operation of its own, and the output of a group norm ("" if it is refused).
type rounding struct {
	precision, autocast string
	operand, conv       fp16.Format
	biasApart           bool
	group               string
}

var roundings = []rounding{
	{"float32", "", fp16.Float32, fp16.Float32, false, "float32"},
	{"tf32", "", fp16.TF32, fp16.Float32, false, "float32"},
	{"float16", "cuda:1.13", fp16.Float16, fp16.Float16, true, "float32"},
	{"float16", "cuda", fp16.Float16, fp16.Float16, true, "float32"},
	{"float16", "cpu", fp16.Float16, fp16.Float16, false, "float16"},
	{"bfloat16", "cuda:1.13", fp16.BFloat16, fp16.BFloat16, true, "float32"},
	{"bfloat16", "cuda:2.x", fp16.BFloat16, fp16.BFloat16, true, "float32"},
	{"bfloat16", "cpu:1.13", fp16.BFloat16, fp16.BFloat16, false, ""},
	{"bfloat16", "cpu:2.x", fp16.BFloat16, fp16.BFloat16, false, "bfloat16"},
}

// keeper is a stream of given normals.
type keeper struct{ z []float64 }

func (k keeper) Draw(_ noise.Kind, _ float64, _ []int, dst []float64) error {
	copy(dst, k.z)
	return nil
}

// TestModes holds every output of every layer, in every mode, to exact
// arithmetic on the numbers that went into it, rounded at the points that the
// mode names and nowhere else.
func TestModes(t *testing.T) {
	for _, r := range roundings {
		for _, kind := range []string{"none", "instance", "group", "batch"} {
			name := strings.Trim(r.precision+"/"+r.autocast, "/") + "/" + kind
			t.Run(name, func(t *testing.T) { checkMode(t, r, kind) })
		}
	}
}

func checkMode(t *testing.T, r rounding, kind string) {
	mode, err := graph.ParseMode(r.precision, r.autocast)
	if err != nil {
		t.Fatal(err)
	}
	op, err := Init(Config{NumLayers: 4, BaseChannels: 2, InputChannels: 2, OutputChannels: 2, KernelSize: 3,
		Activation: "silu", Normalization: kind, NoiseType: "gaussian", NoiseScale: 0.3}, 5)
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]*Param{}
	for _, p := range op.Params() {
		params[p.Name] = p
		if strings.HasSuffix(p.Name, "running_mean") || strings.HasSuffix(p.Name, "running_var") {
			for i := range p.Data {
				p.Data[i] = fp16.Float32.Round(0.3 + 0.1*float64(i))
			}
		}
	}
	x := input(1, 2, 4, 5)
	draws := keeper{input(1, 8, 4, 5).Data}
	got := map[string]*tensor.Tensor{}
	_, err = op.Forward(&Pass{Mode: mode, Draws: draws, Feature: func(name string, y *tensor.Tensor) { got[name] = y }}, x)
	if kind == "group" && r.group == "" {
		if err == nil || !strings.Contains(err.Error(), "conv_blocks.0.block.1: "+
			"group_norm of bfloat16 numbers with float32 weights: PyTorch's autocast cpu:1.13 stops with an error") {
			t.Fatalf("error %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	equal := func(name string, f fp16.Format, want func(i int) float64, every int) {
		t.Helper()
		y := got[name]
		if y.Format != f {
			t.Fatalf("%s is %v, want %v", name, y.Format, f)
		}
		for i := 0; i < len(y.Data); i += every {
			if w := want(i); y.Data[i] != w {
				t.Fatalf("%s, element %d: %v, want %v", name, i, y.Data[i], w)
			}
		}
	}
	sum := func(f fp16.Format, a, b float64) float64 {
		return bigref.Round(new(big.Rat).Add(bigref.Rat(a), bigref.Rat(b)), f)
	}
	product := func(f fp16.Format, a, b float64) float64 {
		return bigref.Round(new(big.Rat).Mul(bigref.Rat(a), bigref.Rat(b)), f)
	}
	rounded := func(v []float64, f fp16.Format) []float64 {
		var out []float64
		for _, x := range v {
			out = append(out, bigref.Round(bigref.Rat(x), f))
		}
		return out
	}
	conv := func(name string, x *tensor.Tensor, pad int) *tensor.Tensor {
		t.Helper()
		w := params[name+".weight"]
		operand := tensor.Of(r.operand, rounded(x.Data, r.operand), x.N(), x.C(), x.H(), x.W())
		kernel := tensor.Of(r.operand, rounded(w.Data, r.operand), w.Shape[0], w.Shape[1], w.Shape[2], w.Shape[3])
		var bias []float64
		if b := params[name+".bias"]; b != nil {
			bias = b.Data
			if r.operand != fp16.TF32 {
				bias = rounded(bias, r.operand)
			}
		}
		var y *tensor.Tensor
		if r.biasApart && bias != nil {
			y = bigref.Conv2d(operand, kernel, nil, 1, pad, "zeros").Round(r.conv)
			for i := range y.Data {
				y.Data[i] = sum(r.conv, y.Data[i], bias[i/(y.H()*y.W())%y.C()])
			}
		} else {
			y = bigref.Conv2d(operand, kernel, bias, 1, pad, "zeros").Round(r.conv)
		}
		equal(name, r.conv, func(i int) float64 { return y.Data[i] }, 1)
		return got[name]
	}
	block := func(path string, x *tensor.Tensor) *tensor.Tensor {
		t.Helper()
		y := conv(path+".block.0", x, 1)
		act := path + ".block.1"
		if kind != "none" {
			act = path + ".block.2"
			x, f := y, r.conv
			hw, group := x.H()*x.W(), 1
			if kind == "group" {
				f, _ = fp16.ParseFormat(r.group) // of min(32, C) groups: one channel each
			}
			name := path + ".block.1"
			gamma, beta := params[name+".weight"].Data, params[name+".bias"].Data
			equal(name, f, func(i int) float64 {
				c := i / hw
				n := bigref.GroupNorm(x.Data[c*group*hw:(c+1)*group*hw], epsilon)
				if kind == "batch" {
					n = bigref.RunningNorm(params[name+".running_mean"].Data[c], params[name+".running_var"].Data[c], epsilon)
				}
				return n.Round(x.Data[i], gamma[c], beta[c], f)
			}, 1)
			y = got[name]
		}
		equal(act, y.Format, func(i int) float64 { return bigref.SiLU(y.Data[i], y.Format) }, 3)
		return got[act]
	}
	x = block("conv_blocks.0", got["input"])
	for _, path := range []string{"conv_blocks.1", "conv_blocks.2", "conv_blocks.3", "conv_blocks.4"} {
		y := block(path+".blocks.1", block(path+".blocks.0", x))
		skip := x
		if params[path+".projection.weight"] != nil {
			skip = conv(path+".projection", x, 0)
		}
		f := y.Format
		if skip.Format == fp16.Float32 {
			f = fp16.Float32
		}
		equal(path, f, func(i int) float64 { return sum(f, y.Data[i], skip.Data[i]) }, 1)
		x = got[path]
	}
	hidden, f := x, x.Format
	s := float64(float32(0.3))
	if r.autocast == "cpu:1.13" { // whose constants are of the half type
		s = bigref.Round(bigref.Rat(s), f)
	}
	equal("stochastic_block", f, func(i int) float64 {
		return sum(f, hidden.Data[i], product(f, bigref.Round(bigref.Rat(draws.z[i]), f), s))
	}, 1)
	conv("output_layer.conv", got["stochastic_block"], 0)
	if op.NoiseFormat(mode) != hidden.Format || mode.Output() != got["output"].Format {
		t.Errorf("Noise %v, Output %v: want %v, %v", op.NoiseFormat(mode), mode.Output(), hidden.Format, got["output"].Format)
	}
}

// TestTF32Roundings: the three roundings of operands, on numbers that tell
// them apart.
func TestTF32Roundings(t *testing.T) {
	b, err := newConvBlock("", 1, 1, convOptions{KernelSize: 1, Normalization: "none", Activation: "none", NoBias: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := initialise(1, b); err != nil {
		t.Fatal(err)
	}
	params(b)[0].Data[0] = 1
	const u = 0x1p-10 // the ulp of TF32 numbers from 1 to 2
	x := tensor.Of(fp16.Float32, []float64{1 + u/2, 1 + 3*u/2, 1 + u/4, 1 + 3*u/4, -1 - u/2}, 1, 1, 1, 5)
	for _, k := range []struct {
		mode string
		want []float64
	}{
		{"tf32", []float64{1, 1 + 2*u, 1, 1 + u, -1}},
		{"tf32:even", []float64{1, 1 + 2*u, 1, 1 + u, -1}},
		{"tf32:away", []float64{1 + u, 1 + 2*u, 1, 1 + u, -1 - u}},
		{"tf32:truncate", []float64{1, 1 + u, 1, 1, -1}},
	} {
		m, err := graph.ParseMode(k.mode, "")
		if err != nil {
			t.Fatal(err)
		}
		y := forward(t, b, &Pass{Mode: m}, x, nil)
		for i, v := range y.Data {
			if v != k.want[i] {
				t.Errorf("%s: %v gives %v, want %v", k.mode, x.Data[i], v, k.want[i])
			}
		}
	}
}

// TestModesKeepKernels interleaves modes on one operator: none may see the
// rounded weights of another.
func TestModesKeepKernels(t *testing.T) {
	all := []string{"float64", "float32", "tf32", "tf32:truncate", "float16", "bfloat16"}
	run := func(op *Operator, mode string) []float64 {
		m, err := graph.ParseMode(mode, "")
		if err != nil {
			t.Fatal(err)
		}
		y, err := op.Forward(&Pass{Mode: m}, input(1, 2, 5, 5))
		if err != nil {
			t.Fatal(err)
		}
		return y.Data
	}
	shared, err := Init(small(), 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[float64]string{}
	for range 2 {
		for _, mode := range all {
			fresh, _ := Init(small(), 1)
			a, b := run(shared, mode), run(fresh, mode)
			for i := range a {
				if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
					t.Fatalf("%s: element %d is %v on a used operator, %v on a new one", mode, i, a[i], b[i])
				}
			}
			if other := seen[a[0]]; other != "" && other != mode {
				t.Errorf("%s and %s agree", mode, other)
			}
			seen[a[0]] = mode
		}
	}
}

func TestParseMode(t *testing.T) {
	for _, k := range []struct{ precision, autocast, want string }{
		{"float64", "", "float64"},
		{"float32", "", "float32"},
		{"tf32", "", "tf32"},
		{"tf32:even", "", "tf32"},
		{"tf32:away", "", "tf32:away"},
		{"float32:fast", "", "float32:fast-7"},
		{"float32:fast-7", "", "float32:fast-7"},
		{"float16", "", "float16/autocast-cuda"},
		{"float16", "cuda:2.x", "float16/autocast-cuda"},
		{"bfloat16", "cpu:1.13", "bfloat16/autocast-cpu:1.13"},
		{"float16", "cpu", "float16/autocast-cpu"},
	} {
		if m, err := graph.ParseMode(k.precision, k.autocast); err != nil || m.String() != k.want {
			t.Errorf("%s, %q: %v, %v: want %s", k.precision, k.autocast, m, err, k.want)
		}
	}
	for _, k := range []struct{ precision, autocast, want string }{
		{"half", "", `unknown number format "half": want`},
		{"tf32:up", "", `unknown rounding "up": want`},
		{"float32:away", "", `precision "float32:away": want a rounding after tf32 only`},
		{"float32:fast-1", "", "another version of fast arithmetic: this program has fast-7"},
		{"float16:fast", "", "want a rounding after tf32 only, and fast after float32 only"},
		{"tf32:fast", "", `unknown rounding "fast"`},
		{"tf32", "cuda", "precision tf32 has none: want float16 or bfloat16"},
		{"float32", "cpu", "precision float32 has none: want float16 or bfloat16"},
		{"float16", "cpu:1.13", "autocast cpu:1.13: has no float16: want bfloat16, or cpu:2.x"},
		{"float16", "rocm", `unknown autocast "rocm": want cuda or cpu`},
		{"float16", "cuda:1.12", `unknown autocast "cuda:1.12": want`},
		{"float16", "none", `unknown autocast "none": want`},
	} {
		if m, err := graph.ParseMode(k.precision, k.autocast); err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s, %q: %v, %v: want %s", k.precision, k.autocast, m, err, k.want)
		}
	}
	op, err := Init(small(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []graph.Mode{
		{Precision: fp16.Float16}, {Precision: fp16.Float32, Autocast: graph.CUDA2}, {Precision: 17},
		{Precision: fp16.Float32, TF32: fp16.NearestAway}, {Precision: fp16.Float16, Autocast: graph.CPU113},
		{Precision: fp16.TF32, Fast: true}} {
		if _, err := op.Forward(&Pass{Mode: m}, input(1, 2, 5, 5)); err == nil || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%+v: error %v", m, err)
		}
	}
}

// TestModesResample: the types of what an upsampleBlock and a downsampleBlock
// do before they convolve, with values held to exact arithmetic.
func TestModesResample(t *testing.T) {
	half := func(f fp16.Format, c, h, w int) *tensor.Tensor {
		x := input(1, c, h, w)
		for i, v := range x.Data {
			x.Data[i] = bigref.Round(bigref.Rat(v), f)
		}
		x.Format = f
		return x
	}
	for _, k := range []struct {
		precision, autocast                string
		bilinear, nearest, transpose, pool string // formats
	}{
		{"float16", "cuda:1.13", "float16", "float16", "float16", "float16"},
		{"float16", "cuda", "float32", "float32", "float16", "float16"},
		{"bfloat16", "cpu:1.13", "bfloat16", "bfloat16", "float32", "bfloat16"},
		{"bfloat16", "cpu", "bfloat16", "bfloat16", "bfloat16", "bfloat16"},
		{"float16", "cpu", "float16", "float16", "float16", "float16"},
	} {
		m, err := graph.ParseMode(k.precision, k.autocast)
		if err != nil {
			t.Fatal(err)
		}
		f := m.Precision
		x, skip := half(f, 2, 3, 4), half(f, 2, 6, 8)
		for _, fusion := range []string{"concat", "add"} {
			for mode, format := range map[string]string{"bilinear": k.bilinear, "nearest": k.nearest, "transpose": k.transpose} {
				u, err := newUpsampleBlock("u", 2, 2, 2, mode, 2, fusion, convOptions{Normalization: "none", Activation: "none"})
				if err != nil {
					t.Fatal(err)
				}
				if err := initialise(3, u); err != nil {
					t.Fatal(err)
				}
				want, _ := fp16.ParseFormat(format)
				var up, conv *tensor.Tensor
				forward(t, u, &Pass{Mode: m, Feature: func(name string, y *tensor.Tensor) {
					switch name {
					case "u.upsample":
						up = y
					case "u.conv.block.0":
						conv = y
					}
				}}, x, skip)
				if up.Format != want || conv.Format != f {
					t.Fatalf("%v, %s: upsampled to %v, convolved to %v: want %v, %v", m, mode, up.Format, conv.Format, want, f)
				}
				var y *tensor.Tensor
				switch mode {
				case "bilinear":
					y = bigref.Bilinear(x, 2).Round(want)
				case "nearest":
					y = tensor.Like(up)
					for i := range y.Data {
						y.Data[i] = x.Data[i/48*12+i%48/8/2*4+i%8/2]
					}
				case "transpose":
					p := params(u)[:2]
					w, b := p[0].Data, p[1].Data
					if want != fp16.Float32 {
						w, b = nil, nil
						for _, v := range p[0].Data {
							w = append(w, bigref.Round(bigref.Rat(v), f))
						}
						for _, v := range p[1].Data {
							b = append(b, bigref.Round(bigref.Rat(v), f))
						}
					}
					kernel := tensor.Of(want, w, 2, 2, 2, 2)
					if m.BiasApart() {
						y = bigref.ConvTranspose2d(x, kernel, nil, 2, 0).Round(want)
						for i, v := range y.Data {
							y.Data[i] = bigref.Round(new(big.Rat).Add(bigref.Rat(v), bigref.Rat(b[i/48])), want)
						}
					} else {
						y = bigref.ConvTranspose2d(x, kernel, b, 2, 0).Round(want)
					}
				}
				if i := differ(up, y); i >= 0 {
					t.Errorf("%v, %s: element %d is %v, want %v", m, mode, i, up.Data[i], y.Data[i])
				}
			}
		}
		d, err := newDownsampleBlock("d", 2, 2, 2, "pool", convOptions{Normalization: "none", Activation: "none"})
		if err != nil {
			t.Fatal(err)
		}
		if err := initialise(3, d); err != nil {
			t.Fatal(err)
		}
		want, _ := fp16.ParseFormat(k.pool)
		forward(t, d, &Pass{Mode: m, Feature: func(name string, y *tensor.Tensor) {
			if name == "d.downsample.0" {
				if y.Format != want {
					t.Errorf("%v: pooled to %v, want %v", m, y.Format, want)
				}
				if i := differ(y, bigref.AvgPool2d(skip, 2).Round(want)); i >= 0 {
					t.Errorf("%v, pool: element %d is %v", m, i, y.Data[i])
				}
			}
		}}, skip, nil)
	}
}
