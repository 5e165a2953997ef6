package pointwise

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

var update = flag.Bool("pointwise.update", false, "record the hashes of this build in testdata/golden.json")

func TestSpecials(t *testing.T) {
	odd := math.Float64frombits(0xfff8000000000001) // a NaN that is not the one NaN
	for _, c := range specials {
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
			case "swish":
				bound += max(0, -p["alpha"]*x[i])
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
		for _, x := range random(rand.New(rand.NewPCG(uint64(i), 10)), 300) {
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
	const file = "testdata/golden.json"
	var x []float64
	for i := range 4_000 {
		v := math.Ldexp(float64(i+1)/401, 4-i%37)
		x = append(x, v, -v)
	}
	y := append(x[1000:], x[:1000]...)
	got := map[string]string{}
	record := func(name string, values []float64) {
		got[name] = fmt.Sprintf("%x", sha256.Sum256(fp16.Float64.Append(nil, values)))[:32]
	}
	for i := range samples {
		f, _ := samples[i].get(t, fp16.Float64)
		record(f.String(), unary(x, f, fp16.Float64, fp16.Float64))
	}
	for op, name := range OpNames() {
		record(name, pairwise(x, y, Op(op), fp16.Float64, fp16.Float64))
	}
	if *update {
		text, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: hash %s, want %s", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d hashes, %d recorded: want one for each; go test ./pointwise -run Golden -pointwise.update",
			len(got), len(want))
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
		"pointwise: data length does not match the shape": func() {
			Binary(a, a, &tensor.Tensor{Shape: []int{2, 3}, Format: fp16.Float32, Data: a.Data[1:]}, Add)
		},
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
	for _, call := range []func(){func() { Unary(a, wide, f) }, func() { Binary(a, a, b, Add) },
		func() { Binary(a, wide, a, Add) },
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
		{"gelu", nil, `unknown function "gelu": want one of abs, acos, acosh, `},
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
	if _, err := ParseOp("plus"); err == nil || !strings.Contains(err.Error(), `"plus"`) ||
		!strings.Contains(err.Error(), "logical_xor") {
		t.Errorf("plus: %v", err)
	}
	if got := Op(200).String(); got != "Op(200)" {
		t.Error(got)
	}
}
