package exact

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/internal/exact/double"
	"github.com/refrun/refrun/internal/judges/bigref"
)

var actPoints = flag.Int("act.points", 150, "random numbers of each function in TestActDouble")

// activations are the functions by both ways, with bounds of the first, and their
// values by the judges.
var activations = []struct {
	name   string
	double func(float64) double.Num
	err    float64
	units  float64 // what act.go derives
	end    float64 // below, the value is near 2^-400
	near   float64 // nearer to 0 there is a rule
	far    float64 // from here on the functions need no evaluation
	odd    func(float64) float64
	big    func(float64) float64
	value  func(x float64) *big.Float
}{
	{"gelu", geluDouble, geluErr, 823, -22, 0x1p-60, 10, GELU, geluBig, func(x float64) *big.Float {
		t := newBig(200).SetFloat64(-x)
		v := bigref.Erfc(t.Quo(t, newBig(200).Sqrt(bigInt(200, 2))), 200)
		return v.Mul(v, newBig(64).SetFloat64(x/2))
	}},
	{"gelu_tanh", geluTanhDouble, geluTanhErr, 2430, -14, 0x1p-60, 8, GELUTanh, geluTanhBig, func(x float64) *big.Float {
		q := bigref.Rat(x)
		q.Mul(q, q).Mul(q, big.NewRat(44715, 1_000_000)).Add(q, big.NewRat(1, 1)).Mul(q, bigref.Rat(x))
		s := newBig(200).Quo(bigInt(200, 8), bigref.Pi(200))
		s.Sqrt(s)
		return gate(x, s.Mul(s, newBig(200).SetRat(q)))
	}},
	{"silu", siluDouble, siluErr, 30, -270, 0x1p-24, 40, SiLU, siluBig,
		func(x float64) *big.Float { return gate(x, newBig(200).SetFloat64(x)) }},
	{"tanh", tanhDouble, tanhErr, 27, -20, 0x1p-27, 20, Tanh, tanhBig,
		func(x float64) *big.Float { return bigref.Tanh(newBig(64).SetFloat64(x), 200) }},
}

// gate returns x/(1 + e^-s) by way of the judges.
func gate(x float64, s *big.Float) *big.Float {
	e := bigref.Exp(s.Neg(s), 200)
	return e.Quo(newBig(64).SetFloat64(x), e.Add(e, bigInt(200, 1)))
}

// The constants are what they are called, to half a unit.
func TestActConstants(t *testing.T) {
	const w = 400
	root := newBig(w).Quo(bigInt(w, 8), bigPi(w))
	root.Sqrt(root)
	cube := newBig(w).Mul(root, bigInt(w, 44715))
	cube.Quo(cube, bigInt(w, 1_000_000))
	for _, c := range []struct {
		name string
		got  []float64
		want *big.Float
		err  float64
	}{
		{"sqrt(8/pi)", []float64{root8Pi.Hi, root8Pi.Lo}, root, 0x1p-107},
		{"0.044715 sqrt(8/pi)", []float64{root8PiCube.Hi, root8PiCube.Lo}, cube, 0x1p-107},
		{"ln 2", []float64{ln2a, ln2b, ln2c}, bigLn2(w), 0x1p-138},
	} {
		d := newBig(w).Set(c.want)
		for _, v := range c.got {
			d.Sub(d, big.NewFloat(v))
		}
		d.Quo(d, c.want)
		if e, _ := d.Float64(); !(math.Abs(e) < c.err) {
			t.Errorf("%s is off by %x of itself", c.name, e)
		}
	}
	for _, v := range []float64{ln2a, ln2b} {
		if math.Float64bits(v)&(1<<11-1) != 0 {
			t.Errorf("%x has more than 42 bits", v)
		}
	}
}

// TestShares evaluates the recurrences of act.go's error bounds. The shares are those
// where they are greatest, evaluated in float64; 1 % is added for its roundings.
func TestShares(t *testing.T) {
	// series has E of a sum of terms where each is factor(n) times the one before.
	series := func(n int, product float64, factor func(n int) float64) float64 {
		s := make([]float64, n+2)
		s[n+1] = 1
		for k := n; k > 0; k-- {
			s[k] = 1 + factor(k)*s[k+1]
		}
		e := 0.0
		for k := n; k > 0; k-- {
			e = math.Abs(1-1/s[k])*(e+product) + 2
		}
		return 1.01 * e
	}
	fraction := func(a float64, n int) (e, missing float64) {
		f := func(k int) float64 { return (a + math.Sqrt(a*a+4*float64(k))) / 2 }
		missing = 1 / float64(n)
		for k := n - 1; k > 0; k-- {
			share := float64(k) / (f(k-1) * f(k))
			missing *= share
			e = share*(e+15) + 2
		}
		return 1.01 * e, 1.01 * missing
	}
	for _, c := range []struct {
		name       string
		got, below float64
	}{
		{"density", series(37, 6, func(n int) float64 { return 4 / float64(2*n+1) }), 15.2},
		{"sinh", series(15, 6, func(n int) float64 { return 1 / float64(2*n*(2*n+1)) }), 4},
		{"cosh", series(15, 6, func(n int) float64 { return 1 / float64(2*n*(2*n-1)) }), 6},
		{"exp, 0.35", series(23, 9, func(n int) float64 { return 0.35 / float64(n) }), 8},
		{"exp, -0.35", series(23, 9, func(n int) float64 { return -0.35 / float64(n) }), 8},
	} {
		t.Logf("%s: %.2f units", c.name, c.got)
		if !(c.got < c.below) {
			t.Errorf("%s: %.2f units, want less than %v", c.name, c.got, c.below)
		}
	}
	for _, c := range []struct {
		a float64
		n int
	}{{2, tailFrom2}, {4, tailFrom4}} {
		e, missing := fraction(c.a, c.n)
		t.Logf("fraction from %v on: %.2f units, 2^%.1f missing", c.a, e, math.Log2(missing))
		if !(e < 8 && missing < 0x1p-108) {
			t.Errorf("fraction from %v on: %.2f units, 2^%.1f missing, want less than 8, 2^-108", c.a, e, math.Log2(missing))
		}
	}
}

// TestActDouble: the double-double evaluations keep their bounds and leave nothing
// open, and the functions return what math/big finds.
func TestActDouble(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, f := range activations {
		worst, at, open := 0.0, 0.0, 0
		var xs []float64
		for _, v := range []float64{
			0x1p-60, 0x1p-40, 0x1p-27, 0x3p-25, 0x1p-24, 0x1p-23, 0x1p-12, 0.5, 1, 2, 4, 9.999999, 14.4, 39.99999, 86.6,
		} {
			v = float64(float32(v))
			up, down := float64(math.Nextafter32(float32(v), 1e30)), float64(math.Nextafter32(float32(v), 0))
			xs = append(xs, v, -v, up, -up, down, -down)
		}
		for range *actPoints {
			v := float64(float32(3 * r.NormFloat64()))
			if r.IntN(3) == 0 {
				v = math.Ldexp(float64(float32(v)), -r.IntN(24))
			}
			xs = append(xs, v, float64(float32(-f.end*r.Float64())), float64(float32(f.end*r.Float64())))
		}
		for _, x := range xs {
			if x >= f.far || math.Abs(x) < 0x1p-60 {
				continue
			}
			if want := f.big(x); math.Float64bits(f.odd(x)) != math.Float64bits(want) {
				t.Fatalf("%s(%x) is %x, want %x", f.name, x, f.odd(x), want)
			}
			if math.Abs(x) < f.near || x <= f.end {
				continue
			}
			y := f.double(x)
			if _, ok := odd(y, f.err); !ok {
				open++
			}
			if d := relative(y, f.value(x)); !(d <= worst) {
				worst, at = d, x
			}
		}
		t.Logf("%-9s %.1f units at %x, bound %v; %d of %d open", f.name, worst*0x1p106, at, f.units, open, len(xs))
		if !(worst*0x1p106 <= f.units && f.units*0x1p-106 <= f.err) || open > 0 {
			t.Errorf("%s is off by %.1f units at %x, want %v at most; %d open", f.name, worst*0x1p106, at, f.units, open)
		}
	}
}

// relative returns |y - want| / |want|.
func relative(y double.Num, want *big.Float) float64 {
	d := newBig(400).Set(want)
	d.Sub(d, big.NewFloat(y.Hi))
	d.Sub(d, big.NewFloat(y.Lo))
	d.Quo(d, want)
	e, _ := d.Float64()
	return math.Abs(e)
}

// TestActAllocates: the activations are settled without memory.
func TestActAllocates(t *testing.T) {
	for _, f := range activations {
		for _, x := range []float64{-13.5, -1.25, -0x1p-23, 0x1p-23, 0.0625, 3, 7.99, 8, 9.99} {
			if a := testing.AllocsPerRun(3, func() { f.odd(x) }); a != 0 {
				t.Errorf("%s(%v): %v allocations", f.name, x, a)
			}
		}
	}
}
