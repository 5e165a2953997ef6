package pointwise

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/bigref"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/tensor"
)

// The table of the package's doc, and values at poles, outside of domains, and beyond
// the range of every format.
func TestSpecials(t *testing.T) {
	odd := math.Float64frombits(0xfff8000000000001) // a NaN that is not the one NaN
	ln2 := math.Ln2
	for _, c := range []struct {
		name   string
		params named
		want   [5]float64 // of NaN, -Inf, +Inf, -0, +0
		more   [][2]float64
	}{
		{"exp", nil, [5]float64{nan, 0, inf, 1, 1}, [][2]float64{{1e38, inf}, {-1e38, 0}, {800, inf}}},
		{"exp2", nil, [5]float64{nan, 0, inf, 1, 1}, [][2]float64{{1e38, inf}, {-1e38, 0}, {-3, 0.125}, {1500.5, inf}, {-1500.5, 0}}},
		{"expm1", nil, [5]float64{nan, -1, inf, negZero, 0}, [][2]float64{{1e38, inf}, {-1e38, -1}}},
		{"log", nil, [5]float64{nan, nan, inf, -inf, -inf}, [][2]float64{{1, 0}, {-1, nan}, {-1e-40, nan}}},
		{"log2", nil, [5]float64{nan, nan, inf, -inf, -inf}, [][2]float64{{1, 0}, {0.125, -3}, {0x1p-149, -149}, {-1, nan}}},
		{"log1p", nil, [5]float64{nan, nan, inf, negZero, 0}, [][2]float64{{-1, -inf}, {-2, nan}}},
		{"sqrt", nil, [5]float64{nan, nan, inf, negZero, 0}, [][2]float64{{-1e-40, nan}, {9, 3}}},
		{"rsqrt", nil, [5]float64{nan, nan, 0, -inf, inf}, [][2]float64{{-1, nan}, {16, 0.25}}},
		{"reciprocal", nil, [5]float64{nan, negZero, 0, -inf, inf}, [][2]float64{{-8, -0.125}}},
		{"square", nil, [5]float64{nan, inf, inf, 0, 0}, [][2]float64{{-3, 9}}},
		{"sin", nil, [5]float64{nan, nan, nan, negZero, 0}, nil},
		{"cos", nil, [5]float64{nan, nan, nan, 1, 1}, nil},
		{"tan", nil, [5]float64{nan, nan, nan, negZero, 0}, nil},
		{"atan", nil, [5]float64{nan, -math.Pi / 2, math.Pi / 2, negZero, 0}, [][2]float64{{1e38, math.Pi / 2}}},
		{"erf", nil, [5]float64{nan, -1, 1, negZero, 0}, [][2]float64{{1e38, 1}, {-9, -1}}},
		{"abs", nil, [5]float64{nan, inf, inf, 0, 0}, nil},
		{"neg", nil, [5]float64{nan, inf, -inf, 0, negZero}, nil},
		{"sign", nil, [5]float64{nan, -1, 1, 0, 0}, [][2]float64{{-0x1p-149, -1}, {0x1p-149, 1}}},
		{"floor", nil, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{0.5, 0}, {-0.5, -1}, {2.5, 2}}},
		{"ceil", nil, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{0.5, 1}, {-0.5, negZero}}},
		{"trunc", nil, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{0.9, 0}, {-0.9, negZero}}},
		{"round", nil, [5]float64{nan, -inf, inf, negZero, 0}, [][2]float64{{0.5, 0}, {-0.5, negZero}, {1.5, 2}, {-2.5, -2}}},
		{"logical_not", nil, [5]float64{0, 0, 0, 1, 1}, [][2]float64{{0x1p-149, 0}}},
		{"sigmoid", nil, [5]float64{nan, 0, 1, 0.5, 0.5}, [][2]float64{{1e38, 1}, {-1e38, 0}}},
		{"softplus", nil, [5]float64{nan, 0, inf, ln2, ln2}, [][2]float64{{1e30, 1e30}, {-1e38, 0}}},
		{"softplus", named{"beta": 2, "threshold": inf}, [5]float64{nan, 0, inf, ln2 / 2, ln2 / 2}, [][2]float64{{1e30, 1e30}, {-1e38, 0}}},
		{"elu", nil, [5]float64{nan, -1, inf, negZero, 0}, [][2]float64{{-1e38, -1}, {5, 5}}},
		{"elu", named{"alpha": 0, "scale": 2}, [5]float64{nan, negZero, inf, negZero, 0}, [][2]float64{{-3, negZero}, {5, 10}}},
		{"elu", named{"alpha": -3}, [5]float64{nan, 3, inf, 0, negZero}, [][2]float64{{-1e38, 3}}},
		{"celu", named{"alpha": 2}, [5]float64{nan, -2, inf, negZero, 0}, [][2]float64{{-1e38, -2}, {5, 5}}},
		{"selu", nil, [5]float64{nan, -seluScaleAlpha, inf, negZero, 0}, [][2]float64{{-1e38, -seluScaleAlpha}}},
		{"leaky_relu", nil, [5]float64{nan, -inf, inf, negZero, 0}, nil},
		{"leaky_relu", named{"negative_slope": 0}, [5]float64{nan, nan, inf, negZero, 0}, [][2]float64{{-3, negZero}}},
		{"leaky_relu", named{"negative_slope": -2}, [5]float64{nan, inf, inf, 0, negZero}, [][2]float64{{-3, 6}}},
		{"hardtanh", nil, [5]float64{nan, -1, 1, negZero, 0}, [][2]float64{{-3, -1}, {0.5, 0.5}}},
		{"clip", nil, [5]float64{nan, -inf, inf, negZero, 0}, nil},
		{"clip", named{"min": 1, "max": -1}, [5]float64{nan, -1, -1, -1, -1}, [][2]float64{{0.5, -1}}},
		{"relu6", nil, [5]float64{nan, 0, 6, negZero, 0}, [][2]float64{{-0x1p-149, 0}, {7, 6}}},
		{"hardsigmoid", nil, [5]float64{nan, 0, 1, 0.5, 0.5}, [][2]float64{{-3, 0}, {3, 1}, {-1.5, 0.25}}},
		{"hard_sigmoid", nil, [5]float64{nan, 0, 1, 0.5, 0.5}, [][2]float64{{1e38, 1}, {-1e38, 0}}},
		{"hard_sigmoid", named{"alpha": 0}, [5]float64{nan, nan, nan, 0.5, 0.5}, nil},
		{"hardswish", nil, [5]float64{nan, negZero, inf, negZero, 0}, [][2]float64{{-3, negZero}, {-4, negZero}, {4, 4}}},
		{"softsign", nil, [5]float64{nan, -1, 1, negZero, 0}, [][2]float64{{1e38, 1}, {1, 0.5}}},
		{"mish", nil, [5]float64{nan, negZero, inf, negZero, 0}, [][2]float64{{1e38, 1e38}, {-1e38, negZero}}},
	} {
		f, err := Parse(c.name, c.params)
		if err != nil {
			t.Fatal(err)
		}
		x, want := []float64{odd, -inf, inf, negZero, 0}, c.want[:]
		for _, m := range c.more {
			x, want = append(x, fp16.Float32.Round(m[0])), append(want, m[1])
		}
		for _, format := range append(short, fp16.Float64) {
			for i, got := range unary(x, f, fp16.Float32, format) {
				w := want[i]
				if math.Abs(x[i]) > 1e20 && w == x[i] || math.Abs(w) > 1e20 && w-w == 0 {
					w = x[i]
				}
				if w = format.Round(w); math.Float64bits(got) != math.Float64bits(w) {
					t.Errorf("%v(%g) in %v = %g, want %g", f, x[i], format, got, w)
				}
			}
		}
	}
}

// In float64 mode results are within the stated errors, for float64 arguments too.
func TestFloat64(t *testing.T) {
	stated := map[string]float64{"exp": 1.1, "exp2": 1.1, "expm1": 8, "log": 1.1, "log2": 3.1, "log1p": 1.1, "sqrt": 1, "rsqrt": 2.1,
		"reciprocal": 1, "square": 1, "sin": 1.7, "cos": 1.7, "tan": 4.5, "atan": 8, "erf": 5.3, "sigmoid": 3.2, "softplus": 5.3, "elu": 10.1,
		"celu": 10.1, "selu": 10.1, "leaky_relu": 1, "hardsigmoid": 1.1, "hard_sigmoid": 0, "hardswish": 1.1, "softsign": 2.1, "mish": 8}
	for i := range samples {
		s := &samples[i]
		units, ok := stated[s.name]
		if !ok {
			continue
		}
		f, p := s.get(t, fp16.Float64)
		r := rand.New(rand.NewPCG(uint64(i), 9))
		var x []float64
		for len(x) < 240 {
			v := r.NormFloat64() * math.Ldexp(8, -r.IntN(3)*r.IntN(200))
			if len(x)%8 == 0 {
				v = r.NormFloat64() * 100
			}
			if s.domain(v) {
				x = append(x, v)
			}
		}
		worst := 0.0
		for i, y := range unary(x, f, fp16.Float64, fp16.Float64) {
			bound, want := units, bigref.Unary(s.name, x[i], p, fp16.Float64)
			switch s.name {
			case "softplus":
				bound += max(0, -p["beta"]*x[i])
			case "hard_sigmoid":
				if want != 0 {
					bound = (math.Abs(p["alpha"]*x[i]) + 1) / want
				}
			}
			e := math.Abs(y-want) - 0x1p-1070
			if e > 0 {
				worst = max(worst, (e/math.Abs(want)/elem.U-1)/bound)
			}
			if !(e <= (bound+1)*elem.U*math.Abs(want)) || math.Signbit(y) != math.Signbit(want) {
				t.Errorf("%v(%x) = %x, want %x", f, x[i], y, want)
			}
		}
		t.Logf("%-40v largest error %.2f of the bound", f, worst)
	}
}

// The bounds that the guard relies on hold, against the nearest float64 of the exact
// value, which is itself off by U, and are of use.
func TestBounds(t *testing.T) {
	for i := range samples {
		s := &samples[i]
		f, p := s.get(t, fp16.Float32)
		if f.fn.settle == nil {
			continue
		}
		worst := 0.0
		for _, x := range random(rand.New(rand.NewPCG(uint64(i), 10)), 800) {
			y, bound := f.fn.eval(x, &f.float)
			if !s.domain(x) || !(bound > 0) {
				continue
			}
			want := bigref.Unary(s.name, x, p, fp16.Float64)
			if math.IsInf(want, 0) || math.Abs(want) < 0x1p-1000 {
				continue
			}
			e := (math.Abs(y-want) - elem.U*math.Abs(want)) / bound
			if worst = max(worst, e); !(e <= 1) || bound > 20*elem.U*math.Abs(y) {
				t.Fatalf("%v(%x) = %x, bound %x, exact %x", f, x, y, bound, want)
			}
		}
		t.Logf("%-40v largest error %.2f of the bound", f, worst)
	}
}

// Float64 results are the same on every port and in every build mode.
func TestFloat64Golden(t *testing.T) {
	const want = "428ed3e9815744474698358398eb08160c00712b2c8ae1289424857f981c8c94"
	var x []float64
	for i := range 4_000 {
		v := math.Ldexp(float64(i+1)/401, 4-i%37)
		x = append(x, v, -v)
	}
	h := sha256.New()
	for i := range samples {
		f, _ := samples[i].get(t, fp16.Float64)
		if err := binary.Write(h, binary.LittleEndian, unary(x, f, fp16.Float64, fp16.Float64)); err != nil {
			t.Fatal(err)
		}
	}
	y := append(x[1000:], x[:1000]...)
	for op := range operations {
		out := tensor.New(fp16.Float64, len(x))
		Binary(out, tensor.Of(fp16.Float64, x, len(x)), tensor.Of(fp16.Float64, y, len(y)), Op(op))
		if err := binary.Write(h, binary.LittleEndian, out.Data); err != nil {
			t.Fatal(err)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

// Results depend neither on the number of threads nor on where they are written.
func TestPlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, shape := range [][]int{{}, {0, 3}, {chunk + 1}, {3, 5, 17, 1, 33}, {2, chunk}} {
		src, scale := tensor.New(fp16.Float32, shape...), tensor.New(fp16.Float32)
		scale.Data[0] = 3
		for i := range src.Data {
			src.Data[i] = float64(float32(r.NormFloat64()))
		}
		for i := range samples {
			f, _ := samples[i].get(t, fp16.Float32)
			dst, place := tensor.Like(src), src.Clone()
			Unary(dst, src, f)
			Binary(dst, dst, scale, Mul)
			threads := runtime.GOMAXPROCS(1)
			Unary(place, place, f)
			Binary(place, scale, place, Mul)
			runtime.GOMAXPROCS(threads)
			for i := range dst.Data {
				if math.Float64bits(dst.Data[i]) != math.Float64bits(place.Data[i]) {
					t.Fatalf("%v: element %d is %x, in place on one thread %x", f, i, dst.Data[i], place.Data[i])
				}
			}
		}
	}
}

func TestMisuse(t *testing.T) {
	a, b, wide := tensor.New(fp16.Float32, 2, 3), tensor.New(fp16.Float32, 3, 2), tensor.New(fp16.Float64, 2, 3)
	f, err := Parse("exp", nil)
	if err != nil {
		t.Fatal(err)
	}
	for message, call := range map[string]func(){
		"pointwise: shapes differ":                        func() { Unary(a, b, f) },
		"pointwise: no function":                          func() { Unary(a, a, Func{}) },
		"pointwise: unknown operation":                    func() { Binary(a, a, a, Xor+1) },
		"pointwise: float64 input needs a float64 output": func() { Where(a, wide, wide, a) },
		"pointwise: data length does not match the shape": func() { Binary(a, a, &tensor.Tensor{Shape: []int{2, 3}, Format: fp16.Float32, Data: a.Data[1:]}, Add) },
	} {
		func() {
			defer func() {
				if r := recover(); r != message {
					t.Errorf("panics with %v, want %q", r, message)
				}
			}()
			call()
		}()
	}
	for _, call := range []func(){func() { Unary(a, wide, f) }, func() { Binary(a, a, b, Add) }, func() { Binary(a, wide, a, Add) },
		func() { Binary(tensor.New(fp16.Float32, 1, 3), a, a, Add) }, func() { Where(a, b, a, a) }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("misuse does not panic")
				}
			}()
			call()
		}()
	}
	Where(a, wide, a, a) // a condition may be of any format
}

func TestParse(t *testing.T) {
	for _, name := range Names() {
		f, err := Parse(name, nil)
		if err != nil || !strings.HasPrefix(f.String(), name) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
		if s := f.String(); strings.Contains(s, "(") != (len(f.fn.params) > 0) {
			t.Errorf("%s is written %s", name, s)
		}
	}
	for _, c := range []struct {
		name   string
		params named
		want   string
	}{
		{"gelu", nil, `unknown function "gelu": want one of exp, exp2, `},
		{"exp", named{"alpha": 1}, `exp: unknown parameter "alpha": want none`},
		{"elu", named{"beta": 1, "alpha": 1, "axis": 0}, `elu: unknown parameter "axis": want alpha, scale`},
		{"elu", named{"alpha": 1e39}, "elu: alpha: 1e+39: want a number within float32's range"},
		{"elu", named{"alpha": nan}, "elu: alpha: NaN: want a number within float32's range"},
		{"celu", named{"alpha": 0}, "celu: alpha: 0: want a positive number within float32's range"},
		{"celu", named{"alpha": 1e-60}, "celu: alpha: 1e-60: want a positive number within float32's range"},
		{"clip", named{"max": nan}, "clip: max: NaN: want a number or an infinity"},
	} {
		if f, err := Parse(c.name, c.params); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %v gives %v, %v; want %q", c.name, c.params, f, err, c.want)
		}
	}
	f, err := Parse("elu", named{"alpha": 0.1})
	if err != nil || f.String() != "elu(alpha=0.1, scale=1)" || f.float[0] != float64(float32(0.1)) || f.given[0] != 0.1 {
		t.Errorf("%v, %v: %v %v", f, err, f.float, f.given)
	}
	if s := (Func{}).String(); s != "none" {
		t.Errorf("the zero Func is %q", s)
	}
	for op, name := range OpNames() {
		if got, err := ParseOp(name); err != nil || got != Op(op) || got.String() != name {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := ParseOp("plus"); err == nil || !strings.Contains(err.Error(), `"plus"`) || !strings.Contains(err.Error(), "logical_xor") {
		t.Errorf("plus: %v", err)
	}
	if got := Op(200).String(); got != "Op(200)" {
		t.Error(got)
	}
}
