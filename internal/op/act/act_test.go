package act

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/exact/rows"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

var stride = flag.Int("stride", 1<<14+1, "distance of the float32 bit patterns in TestFloat32Sweep")

// judge computes a function independently of the package. fast is a float64
// evaluation by the standard library, other formulas and a relative error far
// below 2^-36; where that cannot tell the rounding, slow does.
type judge struct {
	f    Func
	fast func(float64) float64
	slow func(float64, fp16.Format) float64
}

var judges = []judge{
	{ReLU, func(x float64) float64 {
		if math.Signbit(x) && x != 0 {
			return 0
		}
		return x
	}, nil},
	{Identity, func(x float64) float64 { return x }, nil},
	{GELU, func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }, bigref.GELU},
	{GELUTanh, func(x float64) float64 {
		return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}, bigref.GELUTanh},
	{SiLU, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, bigref.SiLU},
	{Tanh, math.Tanh, bigref.RoundTanh},
}

// want returns the right result for a finite x in format f.
func (j *judge) want(x float64, f fp16.Format) float64 {
	y := j.fast(x)
	if j.slow == nil {
		return f.Round(y)
	}
	if y, ok := bigref.Near(y, 0x1p-36, f); ok {
		return y
	}
	return j.slow(x, f)
}

// forward applies f to x, both formats being those of the tensors.
func forward(x []float64, f Func, src, dst fp16.Format) []float64 {
	in, out := tensor.Of(src, x, 1, 1, 1, len(x)), tensor.New(dst, 1, 1, 1, len(x))
	Forward(out, in, f)
	return out.Data
}

// compare holds every element of got to j's answer.
func (j *judge) compare(t *testing.T, x, got []float64, f fp16.Format) {
	t.Helper()
	var wrong atomic.Int64
	const piece = 1024
	par.For((len(x)+piece-1)/piece, func(i int) {
		for k := i * piece; k < min((i+1)*piece, len(x)); k++ {
			want := j.want(x[k], f)
			if math.Float64bits(got[k]) != math.Float64bits(want) && wrong.Add(1) <= 5 {
				t.Errorf("%v(%x) = %x in %v, want %x (float64 evaluation %x)", j.f, x[k], got[k], f, want, j.fast(x[k]))
			}
		}
	})
	if n := wrong.Load(); n > 0 {
		t.Errorf("%v in %v: %d of %d elements wrong", j.f, f, n, len(x))
	}
}

// grid returns all finite numbers of a 16-bit format.
func grid(f fp16.Format) []float64 {
	var x []float64
	for b := range 1 << 16 {
		v := float64(math.Float32frombits(uint32(b) << 16))
		if f == fp16.Float16 {
			e, m := b>>10&31, float64(b&1023)
			if v = math.Ldexp(1024+m, e-25); e == 0 {
				v = math.Ldexp(m, -24)
			}
			if b>>15 != 0 {
				v = -v
			}
			if e == 31 {
				continue
			}
		}
		if v-v == 0 {
			x = append(x, v)
		}
	}
	return x
}

func TestHalfExhaustive(t *testing.T) {
	o := hashed.New(t, 0)
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		x := grid(f)
		if want := map[fp16.Format]int{fp16.Float16: 2 * 31 << 10, fp16.BFloat16: 2 * 255 << 7}[f]; len(x) != want {
			t.Fatalf("%v has %d finite numbers, want %d", f, len(x), want)
		}
		for i := range judges {
			y := forward(x, judges[i].f, f, f)
			if o.Add("all", y...); o.Judge {
				judges[i].compare(t, x, y, f)
			}
		}
	}
}

// structured returns float32 numbers around every power of two and around the
// thresholds of the functions, and subnormal ones.
func structured(r *rand.Rand) []float64 {
	var x []float64
	add := func(v float64) {
		b := math.Float32bits(float32(v))
		for d := uint32(0); d < 7; d++ {
			if w := float64(math.Float32frombits(b + d - 3)); w-w == 0 {
				x = append(x, w, -w)
			}
		}
	}
	for e := -148; e < 128; e++ {
		add(math.Ldexp(1, e))
	}
	for _, v := range []float64{
		5.4, 5.9, 8.6, 9.01, 10, 13, 14.17, 14.4, // GELU saturates, GELU and GELUTanh become subnormal and vanish
		15.94, 16.6, 17.3, 20, 22, 39, 87.34, 88.72, 103.28, 103.97, 104.6, 108.6, 746, 1000,
	} {
		add(v)
	}
	for range 300 {
		x = append(x, float64(math.Float32frombits(r.Uint32()&(1<<31|1<<23-1))))
		x = append(x, float64(float32(r.NormFloat64()*2)))
	}
	return x
}

func TestFloat32Structured(t *testing.T) {
	x := structured(rand.New(rand.NewPCG(1, 1)))
	for i := range judges {
		for _, f := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.BFloat16, fp16.Float16} {
			judges[i].compare(t, x, forward(x, judges[i].f, fp16.Float32, f), f)
		}
	}
}

// Bit patterns of all float32 numbers, in steps of -stride.
func TestFloat32Sweep(t *testing.T) {
	o := hashed.New(t, *stride)
	for i := range judges {
		var x []float64
		flush := func() {
			y := forward(x, judges[i].f, fp16.Float32, fp16.Float32)
			if o.Add(judges[i].f.String(), y...); o.Judge {
				judges[i].compare(t, x, y, fp16.Float32)
			}
			x = x[:0]
		}
		for b := 0; b < 1<<32; b += *stride {
			if v := float64(math.Float32frombits(uint32(b))); v-v == 0 {
				x = append(x, v)
			}
			if len(x) == 1<<20 {
				flush()
			}
		}
		flush()
	}
}

// The stated bounds hold, against the nearest float64 of the exact value,
// which is itself off by U. For float64 arguments too: those of each function
// leave room for its rounding of x^2, which only GELUTanh feels.
func TestBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(2, pass))
	for _, j := range judges {
		if j.slow == nil {
			continue // exact
		}
		worst, single := 0.0, true
		for range 700 {
			x := r.NormFloat64() * math.Ldexp(4, -r.IntN(20)*r.IntN(2))
			if single = !single; single {
				x = float64(float32(x))
			}
			y, bound := functions[j.f].eval(x)
			if !single && j.f == GELUTanh {
				bound *= 1.25
			}
			exact := j.slow(x, fp16.Float64)
			e := (math.Abs(y-exact) - elem.U*math.Abs(exact)) / bound
			worst = max(worst, e)
			if !(e <= 1) || bound > 2000*elem.U*math.Abs(y) {
				t.Fatalf("%v(%x) = %x, bound %x, exact %x", j.f, x, y, bound, exact)
			}
		}
		t.Logf("%-9v largest error %.2f of the bound", j.f, worst)
	}
}

// The kernels leave few elements of ordinary data open, and what they decide is
// what the plain evaluation decides, whatever the length and wherever the piece
// begins.
func TestKernels(t *testing.T) {
	kernels := asm.ActKernels()
	if kernels == nil { // of purego: nothing but the plain evaluation may have run
		asm.Forget()
		forward([]float64{1}, GELU, fp16.Float32, fp16.Float32)
		if got := asm.Kernels(); len(got) != 1 || got[0] != "gelu, plain Go" {
			t.Errorf("ran %q", got)
		}
		return
	}
	r := rand.New(rand.NewPCG(8, 8))
	const n = 100_000
	for f := range functions {
		fn := &functions[f]
		for _, format := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
			asm.Forget()
			if fn.choose(format); len(asm.Kernels()) != 1 || asm.Kernels()[0] != fn.name+" "+asm.ISA() {
				t.Errorf("%s in %v ran %q", fn.name, format, asm.Kernels())
			}
			x, y := make([]float64, 64), make([]float64, 64)
			open := 0
			for range n / 64 {
				for i := range x {
					x[i] = format.Round(r.NormFloat64())
				}
				open += bits.OnesCount64(fn.kernel(kernels).Apply(y, x, rows.Grid(format)))
			}
			t.Logf("%-9s %-8v %.5f open", fn.name, format, float64(open)/n)
			if format == fp16.Float32 && open > n/1000 || format != fp16.Float32 && open > n/100_000 {
				t.Errorf("%s in %v: %d of %d elements open", fn.name, format, open, n)
			}
			if fn.settle != nil && format == fp16.Float32 && open == 0 {
				t.Errorf("%s: no element open", fn.name)
			}
		}
		for n := range 150 {
			x := make([]float64, n)
			for i := range x {
				x[i] = float64(float32(3 * r.NormFloat64()))
			}
			for i, y := range forward(x, Func(f), fp16.Float32, fp16.Float32) {
				if want := fn.at(x[i], fp16.Float32); math.Float64bits(y) != math.Float64bits(want) {
					t.Fatalf("%s: element %d of %d: %x becomes %x, want %x", fn.name, i, n, x[i], y, want)
				}
			}
		}
	}
}

// Few elements of ordinary data need the exact evaluation.
func TestFlagged(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const n = 400_000
	for _, j := range judges {
		if j.slow == nil {
			continue // exact
		}
		for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
			flagged := 0
			for range n {
				x := f.Round(r.NormFloat64() * 2)
				if _, ok := f.Decide(functions[j.f].eval(x)); !ok {
					flagged++
				}
			}
			t.Logf("%-9v %v: %d of %d", j.f, f, flagged, n)
			if flagged > 3 {
				t.Errorf("%v in %v: %d of %d elements flagged", j.f, f, flagged, n)
			}
		}
	}
}

func TestSpecials(t *testing.T) {
	nan := math.Float64frombits(0xfff8000000000001)
	in := []float64{nan, -inf, inf, negZero, 0, -math.MaxFloat32, math.MaxFloat32, -200}
	out := map[Func][]float64{
		Identity: {fp16.NaN, -inf, inf, negZero, 0, -math.MaxFloat32, math.MaxFloat32, -200},
		ReLU:     {fp16.NaN, 0, inf, negZero, 0, 0, math.MaxFloat32, 0},
		GELU:     {fp16.NaN, negZero, inf, negZero, 0, negZero, math.MaxFloat32, negZero},
		GELUTanh: {fp16.NaN, negZero, inf, negZero, 0, negZero, math.MaxFloat32, negZero},
		SiLU:     {fp16.NaN, negZero, inf, negZero, 0, negZero, math.MaxFloat32, negZero},
		Tanh:     {fp16.NaN, -1, 1, negZero, 0, -1, 1, -1},
	}
	for fn, want := range out {
		for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
			for i, got := range forward(in, fn, fp16.Float32, f) {
				want := f.Round(want[i])
				if fn == SiLU && f == fp16.Float64 && in[i] == -200 {
					want = -200 * elem.Exp(-200) // 1 + e^-200 is 1
				}
				if math.Float64bits(got) != math.Float64bits(want) {
					t.Errorf("%v(%g) in %v = %g, want %g", fn, in[i], f, got, want)
				}
			}
		}
	}
}

// In float64 mode every result is within the stated error of the exact value.
func TestFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	var x []float64
	for range 800 {
		x = append(x, r.NormFloat64()*math.Ldexp(8, -r.IntN(3)*r.IntN(300)))
	}
	for i := range 120 {
		x = append(x, -6.5*float64(i)-r.Float64(), -20-float64(i)/6)
	}
	for _, c := range []struct {
		f          Func
		slow       func(float64, fp16.Format) float64
		units, abs float64
	}{
		{GELU, bigref.GELU, 8.6, 0x1p-1073},
		{SiLU, bigref.SiLU, 4.2, 0x1p-1064},
		{Tanh, bigref.RoundTanh, 7.1, 0x1p-1074},
	} {
		for i, y := range forward(x, c.f, fp16.Float64, fp16.Float64) {
			want := c.slow(x[i], fp16.Float64)
			if !(math.Abs(y-want) <= (c.units+1)*elem.U*math.Abs(want)+c.abs) || math.Signbit(y) != math.Signbit(x[i]) {
				t.Errorf("%v(%x) = %x, want %x", c.f, x[i], y, want)
			}
		}
	}
}

// Float64 results are the same on every port and in every build mode.
func TestFloat64Golden(t *testing.T) {
	const want = "e275f2af7a97b63abf7b51e4313cba6723a8dfc5e4fca4610a6f0ea1b5efefaa"
	var x []float64
	for i := range 40_000 {
		v := math.Ldexp(float64(i+1)/4001, 4-i%37)
		x = append(x, v, -v)
	}
	h := sha256.New()
	for f := range functions {
		if err := binary.Write(h, binary.LittleEndian, forward(x, Func(f), fp16.Float64, fp16.Float64)); err != nil {
			t.Fatal(err)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

// The distance to PyTorch is explained by its formulas in float32, whose
// roundings are u = 2^-24 each (its exp is good to 2.5 u, its tanh to an ulp,
// 2 u); the exact result adds u |y|, and both sides half of 2^-149.
//
//	gelu       erf by Abramowitz and Stegun 7.1.26, good to 1.5e-7, with its
//	           products, exp and sums to another 8 u: |x|/2 (1.5e-7 + 8u), then 2 u |y|
//	gelu_tanh  tanh to 2 u, its argument's 4 u times z/cosh^2 z < 0.45, and the
//	           sum with 1, 2 u: |x|/2 * 6 u, then products: 4 u |y|
//	silu       exp 2.5 u, sum, quotient, the exact result: 6 u |y|; where e^-x
//	           overflows float32, below -88.72, it is -0: |y|
//	tanh       an ulp: 2 u |y|, and the exact result: 3 u |y|
func TestPyTorch(t *testing.T) {
	const u = 0x1p-24
	for _, c := range []struct {
		f     Func
		bound func(x, y float64) float64
	}{
		{GELU, func(x, y float64) float64 { return math.Abs(x)/2*(1.5e-7+8*u) + 2*u*math.Abs(y) }},
		{GELUTanh, func(x, y float64) float64 { return math.Abs(x)/2*6*u + 4*u*math.Abs(y) }},
		{SiLU, func(x, y float64) float64 {
			if x < -88.72 {
				return math.Abs(y)
			}
			return 6 * u * math.Abs(y)
		}},
		{Tanh, func(x, y float64) float64 { return 3 * u * math.Abs(y) }},
	} {
		file, err := safetensors.Open("../../../testdata/ops/act_" + c.f.String() + ".safetensors")
		if err != nil {
			t.Fatal(err)
		}
		x, exact, torch := numbers(t, file, "x"), numbers(t, file, "exact_f32"), numbers(t, file, "torch_f32")
		worst := 0.0
		for i, y := range forward(x, c.f, fp16.Float32, fp16.Float32) {
			if y != exact[i] || y != 0 && math.Float64bits(y) != math.Float64bits(exact[i]) {
				t.Errorf("%v(%x) = %x, want %x", c.f, x[i], y, exact[i])
			}
			if y == 0 && math.Signbit(y) != math.Signbit(x[i]) {
				t.Errorf("%v(%x) = %g: an underflow keeps its sign", c.f, x[i], y)
			}
			if d := math.Abs(y - torch[i]); d > 0 {
				worst = max(worst, d/(c.bound(x[i], y)+0x1p-149))
			}
		}
		t.Logf("%-9v %d values, largest distance to PyTorch %.2f of the bound", c.f, len(x), worst)
		if worst > 1 {
			t.Errorf("%v: distance to PyTorch is %.2f of the bound", c.f, worst)
		}
	}
}

func TestPyTorchReLU(t *testing.T) {
	file, err := safetensors.Open("../../../testdata/ops/act_relu.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	x := numbers(t, file, "x")
	for name, format := range map[string]fp16.Format{
		"out_f32": fp16.Float32, "out_f64": fp16.Float64, "out_bf16_as_f32": fp16.BFloat16,
	} {
		in := append([]float64(nil), x...)
		for i := range in {
			in[i] = format.Round(in[i]) // the bfloat16 case ran on rounded inputs
		}
		want := numbers(t, file, name)
		for i, y := range forward(in, ReLU, format, format) {
			if math.Float64bits(y) != math.Float64bits(want[i]) {
				t.Errorf("%s: relu(%x) = %x, want %x", name, in[i], y, want[i])
			}
		}
	}
}

func numbers(t *testing.T, file *safetensors.File, name string) []float64 {
	t.Helper()
	ts, err := file.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ts.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	if len(v) < 1000 {
		t.Fatalf("%s has only %d values", name, len(v))
	}
	return v
}

// Results depend neither on the number of threads nor on where they are
// written, and every element of an odd-sized tensor is written.
func TestForward(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, shape := range [][4]int{{0, 3, 2, 2}, {1, 1, 1, 1}, {3, 5, 17, 33}, {2, 1, 64, chunk/64 + 1}} {
		src := tensor.New(fp16.Float32, shape[0], shape[1], shape[2], shape[3])
		for i := range src.Data {
			src.Data[i] = float64(float32(r.NormFloat64()))
		}
		for f := range functions {
			dst, place := tensor.Like(src), src.Clone()
			for i := range dst.Data {
				dst.Data[i] = 77
			}
			before := src.Clone()
			Forward(dst, src, Func(f))
			threads := runtime.GOMAXPROCS(1)
			Forward(place, place, Func(f))
			runtime.GOMAXPROCS(threads)
			for i := range dst.Data {
				if math.Float64bits(dst.Data[i]) != math.Float64bits(place.Data[i]) {
					t.Fatalf("%v: element %d is %x, in place on one thread %x", Func(f), i, dst.Data[i], place.Data[i])
				}
				if src.Data[i] != before.Data[i] {
					t.Fatalf("%v changes its input", Func(f))
				}
			}
		}
	}
}

func TestMisuse(t *testing.T) {
	a, b := tensor.New(fp16.Float32, 1, 2, 3, 4), tensor.New(fp16.Float32, 1, 2, 4, 3)
	for _, c := range []struct {
		message  string
		dst, src *tensor.Tensor
		f        Func
	}{
		{"act: shapes differ", a, b, GELU},
		{"act: unknown function", a, a, Tanh + 1},
		{"act: float64 input needs a float64 output", a, tensor.New(fp16.Float64, 1, 2, 3, 4), ReLU},
	} {
		func() {
			defer func() {
				if r := recover(); r != c.message {
					t.Errorf("panics with %v, want %q", r, c.message)
				}
			}()
			Forward(c.dst, c.src, c.f)
		}()
	}
}

func TestParse(t *testing.T) {
	names := []string{"none", "relu", "gelu", "gelu_tanh", "silu", "tanh"}
	for i, name := range names {
		f, err := Parse(name)
		if err != nil || f != Func(i) || f.String() != name {
			t.Errorf("Parse(%q) = %v, %v", name, f, err)
		}
	}
	if f, err := Parse("swish"); f != SiLU || err != nil {
		t.Errorf("swish: %v, %v", f, err)
	}
	for _, name := range []string{"", "GELU", "softplus"} {
		_, err := Parse(name)
		if err == nil {
			t.Fatalf("Parse(%q) succeeds", name)
		}
		for _, n := range append(names, "swish", name) {
			if !strings.Contains(err.Error(), n) {
				t.Errorf("Parse(%q): %q does not name %q", name, err, n)
			}
		}
	}
	if got := Func(200).String(); got != "Func(200)" {
		t.Error(got)
	}
}
