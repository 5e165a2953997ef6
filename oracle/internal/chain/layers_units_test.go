package chain

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

// What single layers are by the units and the libraries that compute them.

// single judges one operation of an input and constants as a recorded layer of it is judged.
func single(t *testing.T, mode graph.Mode, op graph.Op, got, x *tensor.Tensor, constants ...*tensor.Tensor) *found {
	t.Helper()
	e, _ := rig.LayerExam(t, "convex_layer_tanh_mult", "float32")
	e.Mode = mode
	g := graph.New(new(graph.Kept))
	in := []int{g.Input("input")}
	for _, c := range constants {
		in = append(in, g.Constant("weight", kept(c, fp16.Float32)))
	}
	g.Outputs = []int{g.Add(op, "layer", in...)}
	r := &recording{
		layers: &layers{Gate: e, under: map[int]candidate{}}, LayerFile: new(evidence.LayerFile), draws: -1,
		step: &step{g: g, mode: mode}, known: map[int]*tensor.Tensor{in[0]: x},
		types: func(int) graph.Type { return graph.Type{Shape: x.Shape, Format: x.Format} },
	}
	f, err := r.found(g.Outputs[0], -1, got)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// claimOf is the claim that a GPU's matrix units have operands of a format.
func claimOf(t *testing.T, f fp16.Format) graph.Mode {
	t.Helper()
	mode, err := graph.ParseMode(f.String(), map[bool]string{true: "cuda"}[f.Half()])
	if err != nil {
		t.Fatal(err)
	}
	return mode
}

// unitsOf are the matrix units that devices multiply operands of a format with, one for each rule, and at last one
// whose sums have 14 bits, as FP8's do.
func unitsOf(t *testing.T, f fp16.Format) (all []*tensorcore.Unit) {
	t.Helper()
	in := map[fp16.Format]tensorcore.Input{
		fp16.Float16: tensorcore.FP16, fp16.BFloat16: tensorcore.BF16, fp16.TF32: tensorcore.TF32,
	}[f]
	var coarse tensorcore.Unit
	for _, name := range []string{"v100", "a100", "h100", "mi200", "mi300"} {
		m, err := tensorcore.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if u, err := m.Unit(in, fp16.Float32); err == nil { // it has such a unit
			if all = append(all, u); name == "h100" {
				coarse = *u
			}
		}
	}
	coarse.Fraction, coarse.Keep = 13, 13
	return append(all, &coarse)
}

// convolve is a convolution by the sums of a device, over channels and the kernel's taps, either of them innermost.
func convolve(
	dot func(a, b []float64, c float64) float64, x, w *tensor.Tensor, p conv.Params, taps bool,
) *tensor.Tensor {
	y := tensor.New(fp16.Float64, x.N(), w.N(), x.H(), x.W())
	n := w.C() * w.H() * w.W()
	a, b := make([]float64, n), make([]float64, n)
	for k := range y.Data {
		o, row, column := k/(y.H()*y.W())%y.C(), k/y.W()%y.H(), k%y.W()
		at := 0
		for i := range n {
			c, tap := i%w.C(), i/w.C()
			if taps {
				c, tap = i/(w.H()*w.W()), i%(w.H()*w.W())
			}
			i, j := row+tap/w.W()-p.Pad[0], column+tap%w.W()-p.Pad[1]
			a[at], b[at] = 0, w.Plane(o, c)[tap]
			if p.Padding != conv.Zeros || i >= 0 && i < x.H() && j >= 0 && j < x.W() {
				a[at] = x.Plane(k/(y.C()*y.H()*y.W()), c)[p.Padding.Source(i, x.H())*x.W()+p.Padding.Source(j, x.W())]
			}
			at++
		}
		y.Data[k] = dot(a, b, 0)
	}
	return y
}

// TestMatrixUnits: what the matrix units of GPUs make of a convolution is right for a claim of their operands, also of
// sums of one sign, where every truncation is to the same side, with padding that repeats the image; sums of 14 bits
// are not.
func TestMatrixUnits(t *testing.T) {
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16, fp16.TF32} {
		mode := claimOf(t, f)
		for _, positive := range []bool{false, true} {
			x, w, p := window3x3(positive, f)
			units := unitsOf(t, f)
			for k, u := range units {
				y := convolve(u.Dot, x, w, p, true)
				store := fp16.Float32
				if f.Half() {
					store = f
				}
				found := single(t, mode, graph.Conv{Params: p}, kept(y, store), kept(x, fp16.Float32), w)
				if right := found.Passes(); right != (k < len(units)-1) {
					t.Errorf("%s, sums of one sign %v, unit %d (%v, blocks of %d): right %v", f, positive, k, u.Kind, u.Terms, right)
				}
			}
		}
	}
}

// TestMatrixUnitsOfSmoothImages: what matrix units make of smooth images and weights of one sign is right, where
// partial sums go far and end near 0, for TF32 operands rounded in each way of devices, and half ones; sums of 14 bits
// are not.
func TestMatrixUnitsOfSmoothImages(t *testing.T) {
	for _, c := range []struct {
		precision fp16.Format
		tf32      fp16.Rounding
	}{
		{fp16.TF32, fp16.NearestEven},
		{fp16.TF32, fp16.NearestAway},
		{fp16.TF32, fp16.TowardZero},
		{fp16.Float16, 0},
		{fp16.BFloat16, 0},
	} {
		for seed := range uint64(2) {
			f := c.precision
			mode := claimOf(t, f)
			x, w, p := smooth(seed)
			device := mode
			device.TF32 = c.tf32
			units := unitsOf(t, f)
			for k, u := range units {
				y := convolve(u.Dot, emulate.Operand(device, x, f), emulate.Operand(device, w, f), p, false)
				found := single(t, mode, graph.Conv{Params: p}, kept(y, fp16.Float32), kept(x, fp16.Float32), w)
				if right := found.Passes(); right != (k < len(units)-1) {
					t.Errorf("%v by %v, seed %d, unit %d (%v, blocks of %d): right %v", f, c.tf32, seed, k, u.Kind, u.Terms, right)
				}
			}
		}
	}
}

// TestFlushedOperands: a unit that takes subnormal operands for zero, as MI200's do, is right by that, and one that
// does not is right without: where weights are subnormal, and where a wide input is once it is rounded.
func TestFlushedOperands(t *testing.T) {
	images, all, _ := window3x3(true, fp16.Float16)
	few := tensor.Of(fp16.Float64, all.Data[:2*images.C()], 2, images.C(), 1, 1)
	units := unitsOf(t, fp16.Float16)
	for _, wide := range []bool{false, true} {
		x, w := images.Clone(), few.Clone()
		for i := range w.Data {
			w.Data[i] = .25 + w.Data[i]*float64(1-i%4/3)
			if !wide && i%4 == 3 {
				w.Data[i] = 0x1p-15
			}
		}
		for i := range x.Data {
			if x.Data[i] += 0x1p-13; wide && i%4 == 3 {
				x.Data[i] = 0x1.004p-15 // as a half number 2^-15
			}
		}
		rounded := x.Clone()
		fp16.Float16.RoundSlice(rounded.Data, x.Data)
		fp16.Float16.RoundSlice(w.Data, w.Data)
		for _, u := range units[:len(units)-1] {
			y := convolve(u.Dot, rounded, w, conv.Params{}, true)
			found := single(t, claimOf(t, fp16.Float16), graph.Conv{}, kept(y, fp16.Float32), kept(x, fp16.Float32), w)
			if flushed := strings.Contains(found.contract(), "without subnormal"); !found.Passes() ||
				flushed != (u.Kind == tensorcore.Pairs) {
				t.Errorf("wide %v: unit %v, blocks of %d: right %v, by %q", wide, u.Kind, u.Terms, found.Passes(), found.contract())
			}
		}
	}
}

// window3x3 is a convolution of 40 channels, of numbers of a format, some of them subnormal, and an input.
func window3x3(positive bool, f fp16.Format) (x, w *tensor.Tensor, p conv.Params) {
	const channels, out, side = 40, 2, 8
	r := rand.New(rand.NewPCG(7, 11))
	draw := func(scale float64) float64 {
		v := scale * r.NormFloat64()
		if positive {
			v = math.Abs(v)
		}
		return f.Round(v)
	}
	x, w = tensor.New(fp16.Float64, 1, channels, side, side), tensor.New(fp16.Float64, out, channels, 3, 3)
	for i := range x.Data {
		x.Data[i] = draw(1)
	}
	for i := range w.Data {
		w.Data[i] = draw(0.05)
		if i%97 == 0 {
			w.Data[i] = f.Round(0x1.8p-15)
		}
	}
	return x, w, conv.Square(1, 1, conv.Circular)
}

// smooth is a convolution of weights of one sign, and waves of rows as its input, the same in all channels: where they
// cross 0, the window's upper half has one sign and its lower half the other.
func smooth(seed uint64) (x, w *tensor.Tensor, p conv.Params) {
	const channels, out, side = 8, 4, 16
	r := rand.New(rand.NewPCG(seed, 3))
	x, w = tensor.New(fp16.Float64, 1, channels, side, side), tensor.New(fp16.Float64, out, channels, 5, 5)
	for i := range x.Data {
		wave := math.Sin(2 * math.Pi / 11 * (float64(i/side%side-side/2) + .1*r.NormFloat64()))
		x.Data[i] = fp16.Float32.Round(wave)
	}
	for i := range w.Data {
		w.Data[i] = fp16.Float32.Round(.1 + .01*r.NormFloat64())
	}
	return x, w, conv.Square(1, 2, conv.Zeros)
}

// TestActsOfLibraries: what libraries make of activations in float32 is right, at all sizes of x, and what is 2^-17 off
// is not.
func TestActsOfLibraries(t *testing.T) {
	single32 := fp16.Float32.Round
	exp := func(v float64) float64 { return single32(math.Exp(v)) }
	log2e := single32(math.Log2E)
	power := func(v float64) float64 { return single32(math.Exp2(single32(v * log2e))) }
	polynomial := func(v float64) float64 { // 7.1.26 of Abramowitz and Stegun
		a := math.Abs(v)
		q, s := single32(1/single32(1+single32(0.3275911*a))), single32(1.061405429)
		for _, c := range []float64{-1.453152027, 1.421413741, -0.284496736, 0.254829592} {
			s = single32(single32(s*q) + single32(c))
		}
		return math.Copysign(single32(1-single32(single32(exp(-single32(a*a))*q)*s)), v)
	}
	gelu := func(erf func(float64) float64) func(x float64) float64 {
		return func(x float64) float64 {
			return single32(single32(x/2) * single32(1+erf(single32(x*single32(math.Sqrt(.5))))))
		}
	}
	inner := func(x float64) float64 {
		return single32(single32(math.Sqrt(2/math.Pi)) * single32(x+single32(single32(0.044715)*single32(single32(x*x)*x))))
	}
	for _, c := range []struct {
		name string
		act  act.Func
		of   func(x float64) float64
	}{
		{"tanh by e^-2x", act.Tanh, func(x float64) float64 { return single32(single32(2/single32(1+power(-2*x))) - 1) }},
		{"tanh of an ulp", act.Tanh, func(x float64) float64 { return single32(single32(math.Tanh(x)) * (1 + 0x1p-23)) }},
		{"GELU by a polynomial", act.GELU, gelu(polynomial)},
		{"GELU by erf", act.GELU, gelu(func(v float64) float64 { return single32(math.Erf(v)) })},
		{"GELU by tanh", act.GELUTanh, func(x float64) float64 {
			return single32(single32(x/2) * single32(1+single32(math.Tanh(inner(x)))))
		}},
		{"GELU by e^2w", act.GELUTanh, func(x float64) float64 {
			return single32(single32(x/2) * single32(1+single32(1-single32(2/single32(1+power(2*inner(x)))))))
		}},
		{"SiLU by expf", act.SiLU, func(x float64) float64 {
			return single32(x / single32(1+single32(exp(-x)*(1+0x1p-22))))
		}},
		{"SiLU by an inverse", act.SiLU, func(x float64) float64 { return single32(x * single32(1/single32(1+exp(-x)))) }},
		{"SiLU by powers of 2", act.SiLU, func(x float64) float64 { return single32(x / single32(1+power(-x))) }},
		{"SiLU of an absolute error", act.SiLU,
			func(x float64) float64 { return single32(x * single32(1/(1+math.Exp(-x))+0x1.8p-24)) }},
	} {
		const n = 8192
		x := tensor.New(fp16.Float32, 1, 1, 64, n/64)
		y, far, exact := tensor.Like(x), tensor.Like(x), tensor.New(fp16.Float64, x.Shape...)
		for i := range x.Data {
			x.Data[i] = single32(-20 + 40*(float64(i)+0.37)/n)
		}
		act.Forward(exact, x, c.act)
		for i, v := range x.Data {
			y.Data[i] = c.of(v)
			far.Data[i] = single32(exact.Data[i] + 0x1p-17*max(math.Abs(v), math.Abs(exact.Data[i])))
		}
		mode := graph.Mode{Precision: fp16.Float32}
		if f := single(t, mode, graph.Act{Func: c.act}, y, x); !f.Passes() {
			t.Errorf("%s: %d numbers outside, excess %v of %s: want it right", c.name, f.Each[0].Violations, f.Each[0].Excess,
				f.Each[0].Region)
		}
		if f := single(t, mode, graph.Act{Func: c.act}, far, x); f.Each[0].Violations < n/2 {
			t.Errorf("%s: of numbers that are 2^-17 off %d are outside, want %d", c.name, f.Each[0].Violations, n/2)
		}
	}
}

// TestSiLUFarBelow: where e^-x overflows a device has -0, and where 1/(1+e^-x) is subnormal, too; that is right, and
// zeros before are not.
func TestSiLUFarBelow(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 54))
	x := tensor.New(fp16.Float32, 1, 4, 32, 32)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(-70 * r.Float64())
		if i%4 == 0 {
			x.Data[i] = fp16.Float32.Round(-80 - 30*r.Float64())
		}
	}
	round := fp16.Float32.Round
	for _, d := range []struct {
		name  string
		of    func(x, sum float64) float64 // sum is 1 + e^-x
		right bool
	}{
		{"a quotient", func(x, sum float64) float64 { return round(x / sum) }, true},
		{"a sigmoid without subnormal numbers", func(x, sum float64) float64 {
			s := round(1 / sum)
			if s < 0x1p-126 {
				s = 0
			}
			return round(x * s)
		}, true},
		{"zeros from -10 on", func(x, sum float64) float64 {
			if x < -10 {
				return math.Copysign(0, -1)
			}
			return round(x / sum)
		}, false},
	} {
		y := tensor.Like(x)
		for i, v := range x.Data {
			y.Data[i] = d.of(v, round(1+round(math.Exp(-v))))
		}
		f := single(t, graph.Mode{Precision: fp16.Float32}, graph.Act{Func: act.SiLU}, y, x)
		if f.Passes() != d.right {
			t.Errorf("%s: judged right: %v (%d outside, %v over its limit)", d.name, f.Passes(), f.Each[0].Violations,
				f.Each[0].Excess)
		}
	}
}

// TestKindOfFunctions: a function of one number has errors of that number's size, so that a small slope where there
// should be none is another function, and a coarse one is a matter of precision.
func TestKindOfFunctions(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	x := tensor.New(fp16.Float32, 1, 4, 16, 16)
	for i := range x.Data {
		x.Data[i] = float64(float32(r.NormFloat64()))
	}
	for want, f := range map[report.Verdict]func(v float64) float64{
		report.FailLogic:     func(v float64) float64 { return max(v, v/1000) },
		report.FailPrecision: func(v float64) float64 { return fp16.BFloat16.Round(max(v, 0)) },
	} {
		y := tensor.New(fp16.Float32, x.Shape...)
		for i, v := range x.Data {
			y.Data[i] = float64(float32(f(v)))
		}
		found := single(t, claimOf(t, fp16.Float32), graph.Act{Func: act.ReLU}, y, x)
		if kind, err := found.c.kindOf(0, found.Each[0].Wrong); found.Passes() || kind != want || err != nil {
			t.Errorf("passes %v, %v, %v: want %v", found.Passes(), kind, err, want)
		}
	}
}

// TestCancelledRounding: a sum that is stored next to the middle of two half numbers may be either of them, which is
// many places of what a bias of the other sign leaves. Of this seed one number in a row of few expected flips is so.
func TestCancelledRounding(t *testing.T) {
	r := rand.New(rand.NewPCG(846, 99))
	x, w, b := tensor.New(fp16.Float16, 1, 3, 16, 24), tensor.New(fp16.Float32, 8, 3, 5, 5), tensor.New(fp16.Float32, 8)
	for i := range x.Data {
		x.Data[i] = fp16.Float16.Round(r.NormFloat64())
	}
	for i := range w.Data {
		w.Data[i] = float64(float32(.1 * fp16.Float32.Round(r.NormFloat64())))
	}
	for i := range b.Data {
		b.Data[i] = float64(float32(.5 * fp16.Float32.Round(r.NormFloat64())))
	}
	half, op := w.Clone(), graph.Conv{Params: conv.Square(1, 2, conv.Zeros)}
	fp16.Float16.RoundSlice(half.Data, w.Data)
	inOrder := func(a, b []float64, _ float64) float64 {
		var s float32
		for i, v := range a {
			s += float32(v * b[i])
		}
		return float64(s)
	}
	y := convolve(inOrder, x, half, op.Params, true)
	for i, v := range y.Data { // the sum is stored, and then the bias is added
		y.Data[i] = fp16.Float16.Round(fp16.Float16.Round(v) + fp16.Float16.Round(b.Data[i/(y.H()*y.W())%y.C()]))
	}
	y = kept(y, fp16.Float16)
	mode := claimOf(t, fp16.Float16)
	if found := single(t, mode, op, y, x, w, b); !found.Passes() {
		t.Errorf("a right device fails in %s: %v", found.Each[0].Region, found.Each[0].Excess)
	}
	for i := 5 * 24; i < 6*24; i++ { // of a row of the first plane
		y.Data[i] = fp16.Float16.NextUp(y.Data[i])
	}
	if found := single(t, mode, op, y, x, w, b); found.Passes() {
		t.Error("a row that is one place off passes")
	}
}

// TestFoldedScales: a batch norm of half numbers as x*scale + shift is right, also where eps rounded to a half number
// is nearer by chance to the few numbers that are off. A shift that is off is wrong.
func TestFoldedScales(t *testing.T) {
	const channels, side = 64, 20
	mode := claimOf(t, fp16.Float16)
	for _, seed := range []uint64{0, 11} {
		r := rand.New(rand.NewPCG(seed, 12))
		numbers := func(mean, deviation float64) *tensor.Tensor {
			x := tensor.New(fp16.Float32, channels)
			for i := range x.Data {
				x.Data[i] = float64(float32(mean + float64(deviation*r.NormFloat64())))
			}
			return x
		}
		x := tensor.New(fp16.Float16, 2, channels, side, side)
		weight, bias, mean, variance := numbers(1, .1), numbers(0, .1), numbers(0, .3), numbers(.1, 0)
		for i := range x.Data {
			x.Data[i] = fp16.Float16.Round(.3 * r.NormFloat64())
		}
		y := tensor.New(fp16.Float16, x.Shape...)
		folded := func(off float32) *tensor.Tensor {
			for i, v := range x.Data {
				c := i / (side * side) % channels
				scale := float32(float32(1/math.Sqrt(float64(float32(variance.Data[c])+1e-5))) * float32(weight.Data[c]))
				shift := float32(bias.Data[c]) - float32(float32(mean.Data[c])*scale)
				y.Data[i] = fp16.Float16.Round(float64(float32(float32(v)*scale) + float32(shift*off)))
			}
			return y
		}
		op := graph.BatchNorm{Eps: 1e-5}
		if found := single(t, mode, op, folded(1), x, weight, bias, mean, variance); !found.Passes() {
			t.Errorf("seed %d: a right device fails: %v violations, %v", seed, found.Each[0].Violations, found.contract())
		}
		if found := single(t, mode, op, folded(1+1./4096), x, weight, bias, mean, variance); found.Passes() {
			t.Errorf("seed %d: shifts of 1/4096 more pass", seed)
		}
	}
}
