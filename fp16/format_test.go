package fp16_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
)

var formats = []fp16.Format{fp16.Float64, fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}

func same(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// judge rounds by integer arithmetic on the fraction and adds the rules for
// what is no fraction: zeros and infinities stay, NaN is the one NaN.
func judge(f fp16.Format, y float64) float64 {
	switch {
	case y != y:
		return fp16.NaN
	case y == 0 || math.IsInf(y, 0):
		return y
	}
	return bigref.Round(bigref.Rat(y), f)
}

// limits are a format's least subnormal, least normal and greatest number.
var limits = map[fp16.Format][3]float64{
	fp16.Float64:  {0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp1023},
	fp16.Float32:  {0x1p-149, 0x1p-126, 0x1.fffffep127},
	fp16.TF32:     {0x1p-136, 0x1p-126, 0x1.ffcp127},
	fp16.Float16:  {0x1p-24, 0x1p-14, 65504},
	fp16.BFloat16: {0x1p-133, 0x1p-126, 0x1.fep127},
}

// edges returns the numbers around y: itself and its neighbours in float64.
func edges(y float64) []float64 {
	return []float64{y, math.Nextafter(y, math.Inf(1)), math.Nextafter(y, math.Inf(-1))}
}

func TestRoundAgainstJudge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, f := range formats {
		least, normal, most := limits[f][0], limits[f][1], limits[f][2]
		var ys []float64
		for range 4000 {
			ys = append(ys, math.Float64frombits(r.Uint64())) // every exponent, NaN among them
		}
		for range 4000 {
			ys = append(ys, r.NormFloat64(), math.Ldexp(r.NormFloat64(), r.IntN(300)-150))
		}
		for range 2000 {
			// A number of the format, the tie above it, and the float64s beside both.
			// The scale reaches into the subnormals and up to overflow.
			e := math.Ilogb(least) + r.IntN(math.Ilogb(most)-math.Ilogb(least)+1)
			v := bigref.Round(bigref.Rat(math.Ldexp(1+r.Float64(), e)), f)
			if math.IsInf(v, 0) {
				v = most
			}
			ys = append(ys, edges(v)...)
			ys = append(ys, edges(v+f.Ulp(v)/2)...)
		}
		for _, v := range []float64{
			least / 2, least, 1.5 * least, 2.5 * least, normal, normal - least/2, most, most + f.Ulp(most)/2, 2 * most,
		} {
			ys = append(ys, edges(v)...)
		}
		for e := 100; e < 1024; e++ {
			ys = append(ys, math.Ldexp(1.25, e))
		}
		ys = append(ys, 0, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1),
			math.Float64frombits(0x7ff0000000000001))
		all := slices.Clone(ys)
		f.RoundSlice(all, all)
		for i, y := range ys {
			if !same(all[i], f.Round(y)) {
				t.Fatalf("%v.RoundSlice of %x: %x, Round: %x", f, y, all[i], f.Round(y))
			}
			for _, y := range []float64{y, -y} {
				want := judge(f, y)
				if got := f.Round(y); !same(got, want) {
					t.Fatalf("%v.Round(%x) = %x (%#016x), want %x", f, y, got, math.Float64bits(got), want)
				}
				if got, want := f.Holds(y), y != y || y == want; got != want {
					t.Fatalf("%v.Holds(%x) = %v", f, y, got)
				}
			}
		}
	}
}

// TestRoundRules writes the rules out: where overflow begins, which zero an
// underflow leaves, where ties go.
func TestRoundRules(t *testing.T) {
	inf, negZero := math.Inf(1), math.Copysign(0, -1)
	for _, c := range []struct {
		f    fp16.Format
		y    float64
		want float64
	}{
		{fp16.Float16, 65504, 65504},
		{fp16.Float16, 65519.999, 65504},
		{fp16.Float16, 65520, inf},
		{fp16.Float16, -65520, -inf},
		{fp16.Float16, 0x1p981, inf},
		{fp16.Float16, -math.MaxFloat64, -inf},
		{fp16.Float16, 0x1p-25, 0},
		{fp16.Float16, -0x1p-25, negZero},
		{fp16.Float16, 0x1.0000000000001p-25, 0x1p-24},
		{fp16.Float16, 0x1.8p-24, 0x1p-23},
		{fp16.Float16, 0x1.ffep-15, 0x1p-14},
		{fp16.Float16, 2049, 2048},
		{fp16.Float16, 2051, 2052},
		{fp16.Float16, 2047.5, 2048},
		{fp16.BFloat16, 0x1.fefp127, 0x1.fep127},
		{fp16.BFloat16, 0x1.ffp127, inf},
		{fp16.BFloat16, 257, 256},
		{fp16.BFloat16, 0x1p-134, 0},
		{fp16.BFloat16, -0x1.8p-134, -0x1p-133},
		{fp16.TF32, 0x1.ffdfffp127, 0x1.ffcp127},
		{fp16.TF32, 0x1.ffep127, inf},
		{fp16.TF32, 0x1p-137, 0},
		{fp16.TF32, 0x1.0000000000001p-137, 0x1p-136},
		{fp16.TF32, 0x1.8p-136, 0x1p-135},
		{fp16.TF32, 0x1.002p-126, 0x1p-126},
		{fp16.TF32, 0x1.004p-127, 0x1p-127}, // ties where one bit is lost already
		{fp16.TF32, 0x1.00cp-127, 0x1.01p-127},
		{fp16.TF32, -1e-300, negZero},
		{fp16.Float32, 16777217, 16777216},
		{fp16.Float32, 0x1.ffffffp127, inf},
		{fp16.Float32, 0x1.fffffefffffffp127, 0x1.fffffep127},
		{fp16.Float32, -0x1p-150, negZero},
		{fp16.Float64, -0x1p-1074, -0x1p-1074},
		{fp16.Float32, negZero, negZero},
		{fp16.Float16, negZero, negZero},
		{fp16.Float64, math.Float64frombits(0xfff8000000000123), fp16.NaN},
		{fp16.Float32, math.Float64frombits(0xfff0000000000001), fp16.NaN},
		{fp16.BFloat16, math.Float64frombits(0x7ff0000000000001), fp16.NaN},
	} {
		if got := c.f.Round(c.y); !same(got, c.want) {
			t.Errorf("%v.Round(%x) = %x, want %x", c.f, c.y, got, c.want)
		}
	}
	if bits := math.Float64bits(fp16.NaN); bits != 0x7ff8000000000000 {
		t.Errorf("NaN is %#x", bits)
	}
}

func TestDecideIsNeverWrong(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, f := range formats[1:] {
		least, most := math.Ilogb(limits[f][0]), math.Ilogb(limits[f][2])
		decided, n := 0, 0
		for range 6000 {
			y := math.Ldexp(1+r.Float64(), least-3+r.IntN(most-least+5))
			switch r.IntN(4) {
			case 0:
				y = f.Round(y)
			case 1: // next to a tie
				y = f.Round(y)
				y = math.Nextafter(y+f.Ulp(min(y, limits[f][2]))/2, y*float64(r.IntN(3)))
			}
			if r.IntN(2) == 0 {
				y = -y
			}
			if y == 0 || math.IsInf(y, 0) {
				continue
			}
			bound := math.Abs(y) * math.Ldexp(1+r.Float64(), -60+r.IntN(44))
			got, ok := f.Decide(y, bound)
			n++
			if !ok {
				continue
			}
			decided++
			// The ends of the interval and a point within, exactly.
			at := func(s float64) *big.Rat {
				x := new(big.Rat).Mul(bigref.Rat(bound), bigref.Rat(s))
				return x.Add(x, bigref.Rat(y))
			}
			for _, s := range []float64{-1, 1, 2*r.Float64() - 1} {
				if want := bigref.Round(at(s), f); !same(got, want) {
					t.Fatalf("%v.Decide(%x, %x) = %x, but y%+g*bound rounds to %x", f, y, bound, got, s, want)
				}
			}
		}
		// It must be of use, too: most of these intervals hold no tie.
		if decided < n/2 {
			t.Errorf("%v: decided only %d of %d", f, decided, n)
		}
	}
}

func TestDecideRules(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		f        fp16.Format
		y, bound float64
		want     float64
		ok       bool
	}{
		{fp16.Float32, math.NaN(), 0, 0, false},
		{fp16.Float32, math.NaN(), 1, 0, false},
		{fp16.Float32, 1, math.NaN(), 0, false},
		{fp16.Float32, 1, inf, 0, false},
		{fp16.Float32, inf, 0, 0, false},
		{fp16.Float32, -inf, 1, 0, false},
		{fp16.Float32, 1e-60, 1e-60, 0, false},        // the sign is open
		{fp16.Float32, 0, 1e-60, 0, false},            // even at 0
		{fp16.Float32, 1e-60, 1e-61, 0, true},         // +0 for certain
		{fp16.Float32, -1e-60, 1e-61, -1 / inf, true}, // -0 for certain
		{fp16.Float16, 1e300, 1e290, inf, true},       // overflow for certain
		{fp16.Float16, -65520, 1e-9, 0, false},        // on the edge of overflow
		{fp16.Float16, 2049, 0, 2048, true},           // a tie, exactly
		{fp16.Float16, 2049, 1e-12, 0, false},         // perhaps a tie
		{fp16.Float16, 2049, 0x1p-1074, 0, false},     // the same, nearer
		{fp16.Float64, 0.1, 0, 0.1, true},             // exact
		{fp16.Float64, 0.1, 1e-30, 0, false},          // not known to the last bit
		{fp16.TF32, 1, 0x1p-13, 1, true},              // the tie below is 2^-12 away
		{fp16.TF32, 1, 0x1p-12, 0, false},             // and may be reached here
		{fp16.BFloat16, 0x1p-134, 0x1p-200, 0, false}, // half the least subnormal
		{fp16.BFloat16, 0x1.1p-134, 0x1p-200, 0x1p-133, true},
	} {
		got, ok := c.f.Decide(c.y, c.bound)
		if ok != c.ok || ok && !same(got, c.want) {
			t.Errorf("%v.Decide(%x, %x) = %x, %v; want %x, %v", c.f, c.y, c.bound, got, ok, c.want, c.ok)
		}
	}
}

func TestUlp(t *testing.T) {
	for _, f := range formats {
		least, normal, most := limits[f][0], limits[f][1], limits[f][2]
		for _, v := range []float64{0, least, normal / 2, normal, -normal} {
			if got := f.Ulp(v); got != least {
				t.Errorf("%v.Ulp(%x) = %x, want %x", f, v, got, least)
			}
		}
		if got := f.Ulp(2 * normal); got != 2*least {
			t.Errorf("%v.Ulp(%x) = %x", f, 2*normal, got)
		}
		// The number below the greatest is one ulp away, and so is 1 from the
		// next; none lies between.
		for _, v := range []float64{1, 1.5, -most / 2, most - f.Ulp(most)} {
			next := v + math.Copysign(f.Ulp(v), v)
			if !f.Holds(next) {
				t.Errorf("%v does not hold %x, one ulp from %x", f, next, v)
			}
			if between := v + (next-v)/2; f != fp16.Float64 && f.Holds(between) {
				t.Errorf("%v holds %x, half an ulp from %x", f, between, v)
			}
		}
	}
}

func TestHolds(t *testing.T) {
	for _, f := range formats {
		for _, v := range []float64{
			0, math.Copysign(0, -1), 1, math.Inf(1), math.Inf(-1), math.NaN(), limits[f][0], limits[f][2],
		} {
			if !f.Holds(v) {
				t.Errorf("%v does not hold %g", f, v)
			}
		}
		if f == fp16.Float64 {
			continue
		}
		for _, v := range []float64{limits[f][0] / 2, limits[f][2] * 2, 0.1} {
			if f.Holds(v) {
				t.Errorf("%v holds %x", f, v)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for i, name := range []string{"float64", "float32", "tf32", "float16", "bfloat16"} {
		f, err := fp16.ParseFormat(name)
		if err != nil || f != formats[i] || f.String() != name {
			t.Errorf("ParseFormat(%q) = %v, %v", name, f, err)
		}
		if f.Half() != (f.Bytes() == 2) {
			t.Errorf("%s: half: %v", name, f.Half())
		}
	}
	for _, name := range []string{"", "Float32", "half", "float16 "} {
		_, err := fp16.ParseFormat(name)
		want := fmt.Sprintf("unknown number format %q: want one of float64, float32, tf32, float16, bfloat16", name)
		if err == nil || err.Error() != want {
			t.Errorf("ParseFormat(%q): %v", name, err)
		}
	}
	if got := fp16.Format(9).String(); got != "Format(9)" {
		t.Errorf("String of an unknown format: %q", got)
	}
}

// Whole numbers are rounded to even, and nothing else about them is asked of a format.
func TestInt64(t *testing.T) {
	in := []float64{0, 2.5, -3.5, 1 << 52, 0.49999999999999994}
	want := []float64{0, 2, -4, 1 << 52, 0}
	got := make([]float64, len(in))
	fp16.Int64.RoundSlice(got, in)
	for i := range in {
		if got[i] != want[i] || fp16.Int64.Round(in[i]) != want[i] {
			t.Errorf("%g: %g, want %g", in[i], got[i], want[i])
		}
	}
	if _, err := fp16.ParseFormat("int64"); err == nil || fp16.Int64.String() != "int64" {
		t.Error("int64 is a name, and no number format to compute in")
	}
	if fp16.Int64.Holds(0.5) || !fp16.Int64.Holds(-7) {
		t.Error("0.5 is no whole number, -7 is")
	}
}
