package elem

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/judges/bigref"
)

var points = flag.Int("points", 800, "random arguments per function of the error test")

// function is one function with its stated bound, its judge and its domain:
// arguments are drawn uniformly from [lo,hi], and with uniform exponent up to
// the size of hi.
type function struct {
	name   string
	f      func(float64) float64
	judge  func(*big.Float, uint) *big.Float
	bound  float64
	lo, hi float64
}

var functions = []function{
	{"Exp", Exp, bigref.Exp, ExpErr, -745, 709.7},
	{"Log", Log, bigref.Log, LogErr, 0, 4},
	{"Log1p", Log1p, log1p, LogErr, -1, 4},
	{"Erf", Erf, bigref.Erf, ErfErr, -6, 6},
	{"Erfc", Erfc, bigref.Erfc, ErfcErr, -6, 27.2},
	{"Erfcx", Erfcx, erfcx, ErfcxErr, 0, 30.99},
	{"Tanh", Tanh, bigref.Tanh, TanhErr, -22, 22},
	{"Sin", Sin, bigref.Sin, TrigErr, -10, 10},
	{"Cos", Cos, bigref.Cos, TrigErr, -10, 10},
	{"Sin far", Sin, bigref.Sin, TrigErr, -0x1p18, 0x1p18},
	{"Cos far", Cos, bigref.Cos, TrigErr, -0x1p18, 0x1p18},
	{"Log far", Log, bigref.Log, LogErr, 0, 1e300},
	{"Log1p far", Log1p, log1p, LogErr, 0, 1e300},
	{"Expm1", Expm1, expm1, Expm1Err, -40.5, 709.7},
	{"Expm1 near", Expm1, expm1, Expm1Err, -0.02, 0.02},
	{"Tan", Tan, tan, TanErr, -10, 10},
	{"Tan far", Tan, tan, TanErr, -0x1p60, 0x1p60},
	{"Sin huge", Sin, bigref.Sin, TrigErr, -0x1p1000, 0x1p1000},
	{"Cos huge", Cos, bigref.Cos, TrigErr, -0x1p70, 0x1p70},
	{"Atan", func(x float64) float64 { return Atan2(x, 1) }, bigref.Atan, AtanErr, -4, 4},
	{"Atan left", func(x float64) float64 { return Atan2(x, -1) }, atanLeft, AtanErr, -4, 4},
}

// established is how many functions the hash of TestGolden is of; the others have
// one of their own.
const established = 13

func expm1(x *big.Float, prec uint) *big.Float {
	w := prec + 1200
	if e := x.MantExp(nil); e > -60 {
		w = prec + 100
	}
	v := bigref.Exp(x, w)
	return v.Sub(v, new(big.Float).SetInt64(1)).SetPrec(prec)
}

// atanLeft is the angle of (-1, x).
func atanLeft(x *big.Float, prec uint) *big.Float {
	pi := bigref.Pi(prec + 32)
	if x.Signbit() {
		pi.Neg(pi)
	}
	return pi.Sub(pi, bigref.Atan(x, prec+32))
}

func tan(x *big.Float, prec uint) *big.Float {
	v := bigref.Sin(x, prec+32)
	return v.Quo(v, bigref.Cos(x, prec+32))
}

func log1p(x *big.Float, prec uint) *big.Float {
	one := new(big.Float).SetPrec(1200).SetInt64(1)
	return bigref.Log(one.Add(one, x), prec) // exact for the arguments used
}

func erfcx(x *big.Float, prec uint) *big.Float {
	e := bigref.Exp(new(big.Float).SetPrec(200).Mul(x, x), prec+32)
	return e.Mul(e, bigref.Erfc(x, prec+32))
}

// argument draws argument i of fn.
func (fn *function) argument(r *rand.Rand, i int) float64 {
	switch i % 4 {
	case 0: // any size
		x := math.Ldexp(1+r.Float64(), -1-r.IntN(70))
		x *= math.Max(math.Abs(fn.lo), fn.hi)
		if fn.lo < 0 && i&4 == 0 {
			x = -x
		}
		if x < fn.lo || x > fn.hi {
			x = fn.hi * r.Float64()
		}
		return x
	case 1: // near a short number, where tables and intervals meet
		x := fn.lo + float64((fn.hi-fn.lo)*float64(r.IntN(1025))/1024)
		x += float64(x * 0x1p-50 * float64(r.IntN(33)-16))
		return min(max(x, fn.lo), fn.hi)
	case 2: // near 1, or small
		x := 1 + float64(r.NormFloat64()*math.Ldexp(1, -r.IntN(50)))
		if x > fn.lo && x < fn.hi {
			return x
		}
	}
	return fn.lo + float64((fn.hi-fn.lo)*r.Float64())
}

// errorOf returns |y - exact| / |exact| in units of U, or in units of 2^-1074
// when the result is subnormal.
func errorOf(y float64, exact *big.Float) (e float64, subnormal bool) {
	d := new(big.Float).SetPrec(200).SetFloat64(y)
	d.Sub(d, exact).Abs(d)
	if exact.Sign() == 0 {
		if d.Sign() != 0 {
			e = math.Inf(1)
		}
		return e, false
	}
	if exact.MantExp(nil) <= -1022 {
		e, _ = d.SetMantExp(d, 1074).Float64()
		return e, true
	}
	e, _ = d.Quo(d, new(big.Float).Abs(exact)).Float64()
	return e / U, false
}

func TestErrors(t *testing.T) {
	for fi := range functions {
		fn := &functions[fi]
		var worst atomic.Uint64
		par.For(16, func(chunk int) {
			r := rand.New(rand.NewPCG(uint64(fi), uint64(chunk)))
			for i := range *points / 16 {
				x := fn.argument(r, i)
				if fn.name[0] == 'L' && x <= fn.lo {
					continue
				}
				y := fn.f(x)
				if y-y != 0 {
					t.Errorf("%s(%x) = %x", fn.name, x, y)
					return
				}
				e, subnormal := errorOf(y, fn.judge(new(big.Float).SetFloat64(x), 128))
				bound := fn.bound
				if subnormal {
					bound = 1
				}
				if !(e <= bound) {
					t.Errorf("%s(%x) = %x: error %.3f exceeds %.2f (subnormal: %v)", fn.name, x, y, e, bound, subnormal)
					return
				}
				for old := worst.Load(); !subnormal && e > math.Float64frombits(old); old = worst.Load() {
					worst.CompareAndSwap(old, math.Float64bits(e))
				}
			}
		})
		t.Logf("%-9s worst error %.3f U, stated %.1f U", fn.name, math.Float64frombits(worst.Load()), fn.bound)
	}
}

// e^(hi+lo) sees lo, and the square of an argument loses nothing.
func TestCompensation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		x := 26 * r.Float64()
		hi, lo := Square(x)
		want := new(big.Rat).Mul(bigref.Rat(x), bigref.Rat(x))
		if got := new(big.Rat).Add(bigref.Rat(hi), bigref.Rat(lo)); got.Cmp(want) != 0 {
			t.Fatalf("Square(%x) = %x + %x is not exact", x, hi, lo)
		}
		sum := new(big.Float).SetPrec(200).SetRat(want)
		y := ExpSum(-hi, -lo)
		if e, _ := errorOf(y, bigref.Exp(sum.Neg(sum), 128)); !(e <= ExpErr) {
			t.Fatalf("ExpSum(%x, %x) = %x: error %.3f", -hi, -lo, y, e)
		}
	}
}

func TestSpecials(t *testing.T) {
	inf, zero := math.Inf(1), math.Copysign(0, -1)
	for _, c := range []struct {
		name    string
		f       func(float64) float64
		x, want float64
	}{
		{"Exp", Exp, inf, inf}, {"Exp", Exp, -inf, 0}, {"Exp", Exp, 0, 1}, {"Exp", Exp, zero, 1},
		{"Exp", Exp, 709.79, inf}, {"Exp", Exp, 0x1.62e42fefa39efp9, 0x1.fffffffffff2ap1023},
		{"Exp", Exp, -745.14, 0}, {"Exp", Exp, -745.13, 0x1p-1074}, {"Exp", Exp, 0x1p-1074, 1},
		{"Exp", Exp, math.MaxFloat64, inf}, {"Exp", Exp, -math.MaxFloat64, 0},
		{"Log", Log, 0, -inf}, {"Log", Log, zero, -inf}, {"Log", Log, inf, inf}, {"Log", Log, 1, 0},
		{"Log", Log, -0x1p-1074, fp16.NaN}, {"Log", Log, -inf, fp16.NaN},
		{"Log", Log, 0x1p-1074, -0x1.74385446d71c3p9},
		{"Log1p", Log1p, 0, 0}, {"Log1p", Log1p, zero, zero}, {"Log1p", Log1p, inf, inf},
		{"Log1p", Log1p, -1, -inf}, {"Log1p", Log1p, -1.5, fp16.NaN}, {"Log1p", Log1p, -inf, fp16.NaN},
		{"Log1p", Log1p, -0x1p-1074, -0x1p-1074}, {"Log1p", Log1p, math.MaxFloat64, 0x1.62e42fefa39efp9},
		{"Erf", Erf, 0, 0}, {"Erf", Erf, zero, zero}, {"Erf", Erf, inf, 1}, {"Erf", Erf, -inf, -1},
		{"Erf", Erf, -0x1p-1074, -0x1p-1074}, {"Erf", Erf, -30, -1},
		{"Erfc", Erfc, 0, 1}, {"Erfc", Erfc, zero, 1}, {"Erfc", Erfc, inf, 0}, {"Erfc", Erfc, -inf, 2},
		{"Erfc", Erfc, 27.22, 0x1p-1074}, {"Erfc", Erfc, 27.3, 0}, {"Erfc", Erfc, -7, 2},
		{"Erfcx", Erfcx, 0, 1}, {"Erfcx", Erfcx, zero, 1},
		{"Tanh", Tanh, 0, 0}, {"Tanh", Tanh, zero, zero}, {"Tanh", Tanh, inf, 1}, {"Tanh", Tanh, -inf, -1},
		{"Tanh", Tanh, -0x1p-1074, -0x1p-1074}, {"Tanh", Tanh, -1e300, -1},
		{"Sin", Sin, 0, 0}, {"Sin", Sin, zero, zero}, {"Sin", Sin, inf, fp16.NaN}, {"Sin", Sin, -inf, fp16.NaN},
		{"Sin", Sin, -0x1p-1074, -0x1p-1074}, {"Sin", Sin, math.Pi, 0x1.1a62633145c07p-53},
		{"Cos", Cos, 0, 1}, {"Cos", Cos, zero, 1}, {"Cos", Cos, inf, fp16.NaN}, {"Cos", Cos, -inf, fp16.NaN},
		{"Cos", Cos, math.Pi / 2, 0x1.1a62633145c07p-54},
		{"Sin", Sin, 1e22, -0.8522008497671888018},
		// the nearest to a multiple of pi/2
		{"Sin", Sin, 0x1.6ac5b262ca1ffp849, 1}, {"Cos", Cos, 0x1.6ac5b262ca1ffp849, -4.6871659242546276112e-19},
		{"Tan", Tan, 0, 0}, {"Tan", Tan, zero, zero}, {"Tan", Tan, inf, fp16.NaN}, {"Tan", Tan, -0x1p-1074, -0x1p-1074},
		{"Expm1", Expm1, 0, 0}, {"Expm1", Expm1, zero, zero}, {"Expm1", Expm1, inf, inf}, {"Expm1", Expm1, -inf, -1},
		{"Expm1", Expm1, -50, -1}, {"Expm1", Expm1, 0x1p-1074, 0x1p-1074}, {"Expm1", Expm1, 710, inf},
	} {
		if got := c.f(c.x); math.Float64bits(got) != math.Float64bits(c.want) {
			t.Errorf("%s(%x) = %x (%#x), want %x", c.name, c.x, got, math.Float64bits(got), c.want)
		}
	}
	for _, fn := range functions {
		if fn.name == "Erfcx" {
			continue
		}
		odd := math.Float64frombits(0xfff8000000000123)
		if got := math.Float64bits(fn.f(odd)); got != math.Float64bits(fp16.NaN) {
			t.Errorf("%s(NaN) = %#x", fn.name, got)
		}
	}
}

func TestDomains(t *testing.T) {
	for _, c := range []struct {
		name string
		call func()
	}{
		{"Erfcx", func() { Erfcx(31) }},
		{"Erfcx", func() { Erfcx(-0x1p-60) }},
		{"Erfcx", func() { Erfcx(fp16.NaN) }},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic outside its domain", c.name)
				}
			}()
			c.call()
		}()
	}
}

// The tables satisfy what the error analysis of logSum assumes of them.
func TestLogTable(t *testing.T) {
	for j, e := range logTable {
		if math.Round(e.c*512) != e.c*512 || math.Round(e.hi*0x1p42) != e.hi*0x1p42 {
			t.Errorf("entry %d has too many bits", j)
		}
		lo, hi := 1+float64(j)/128, 1+float64(j+1)/128
		if j >= logHalve {
			lo, hi = lo/2, hi/2
		}
		if max(hi*e.c-1, 1-lo*e.c) > 0x1p-7 {
			t.Errorf("entry %d: c m - 1 reaches beyond 2^-7", j)
		}
	}
}

// The hashes over some 400,000 results are the same on every port and
// in every build mode.
func TestGolden(t *testing.T) {
	golden(t, 0, established, "b836c75cbd45146843cd6ba0cd191df66057016f4120441d990ea4a26e62e503")
	golden(t, established, len(functions), "8110c72070e35661448291c1ad159428dea131a09feae07c5f81090b9489e708")
}

func golden(t *testing.T, first, end int, want string) {
	h := sha256.New()
	var b [8]byte
	for fi := first; fi < end; fi++ {
		fn := &functions[fi]
		r := rand.New(rand.NewPCG(99, uint64(fi)))
		for i := range 20_000 {
			// The arguments avoid functions that could differ between ports.
			x := float64(r.Uint64()>>11) * 0x1p-53
			switch i % 3 {
			case 0:
				x = fn.lo + float64((fn.hi-fn.lo)*x)
			case 1:
				x = float64(x*math.Ldexp(1, -int(r.Uint64()%64))) * fn.hi
			case 2:
				x = float64(x*math.Ldexp(1, -int(r.Uint64()%64))) * fn.lo
			}
			binary.LittleEndian.PutUint64(b[:], math.Float64bits(fn.f(x)))
			h.Write(b[:])
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

func BenchmarkFunctions(b *testing.B) {
	for _, fn := range functions[:9] {
		b.Run(fn.name, func(b *testing.B) {
			var x [1024]float64
			r := rand.New(rand.NewPCG(3, 4))
			for i := range x {
				x[i] = math.Abs(fn.hi * r.Float64())
			}
			var s float64
			for i := 0; b.Loop(); i++ {
				s += fn.f(x[i&1023])
			}
			if s == 0.123 {
				b.Log(s)
			}
		})
	}
}

// Powers keep the bound that they state, which grows with their logarithm, and are
// exact where 53 bits hold them.
func TestPow(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	worst := 0.0
	for i := range *points {
		x := math.Ldexp(1+r.Float64(), r.IntN(80)-40)
		switch i % 4 {
		case 0:
			x = math.Ldexp(1+r.Float64(), r.IntN(2100)-1074)
		case 1:
			x = 1 + r.NormFloat64()*math.Ldexp(1, -4-r.IntN(45))
		}
		y := 700 * (2*r.Float64() - 1) / math.Log(x)
		if i%3 == 0 {
			y *= math.Ldexp(1, -r.IntN(60))
		}
		if x == 1 || y-y != 0 {
			continue
		}
		e := bigref.Log(new(big.Float).SetFloat64(x), 200)
		e.Mul(e, new(big.Float).SetFloat64(y))
		size, _ := e.Float64()
		got, _ := errorOf(Pow(x, y), bigref.Exp(e, 128))
		bound := PowErr + PowSlope*math.Abs(size)
		if worst = max(worst, got/bound); !(got <= bound) {
			t.Fatalf("Pow(%x, %x) = %x: error %.3f, bound %.3f", x, y, Pow(x, y), got, bound)
		}
	}
	t.Logf("worst error %.3f of the bound", worst)
	for m := 3.0; m < 12; m += 2 {
		for n, p := 1.0, m; p < 0x1p40; n, p = n+1, p*m {
			if got := Pow(m, n); got != p {
				t.Errorf("Pow(%g, %g) = %x, want %x", m, n, got, p)
			}
		}
	}
	for _, c := range [][3]float64{{0.25, 0.5, 0.5}, {0x1p-1074, 0.5, 0x1p-537}, {2, 1e308, math.Inf(1)},
		{2, -1e308, 0}, {0x1p-1074, 2, 0}, {5, 0, 1}, {1, 1e300, 1}} {
		if got := Pow(c[0], c[1]); got != c[2] {
			t.Errorf("Pow(%g, %g) = %x, want %x", c[0], c[1], got, c[2])
		}
	}
}

// The special cases of Atan2 are those of math.Atan2, which has IEEE 754's.
func TestAtan2(t *testing.T) {
	v := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-1074, -math.MaxFloat64}
	for _, y := range v {
		for _, x := range v {
			got, want := Atan2(y, x), math.Atan2(y, x)
			if !(math.Abs(got-want) <= 0x1p-50*math.Abs(want)) && !(got != got && want != want) ||
				math.Signbit(got) != math.Signbit(want) && got == got {
				t.Errorf("Atan2(%g, %g) = %g, want %g", y, x, got, want)
			}
		}
	}
}
