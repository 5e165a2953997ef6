package dd

import (
	"bufio"
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/judges/bigref"
)

var random = flag.Int("points", 100, "random numbers of each function in TestJudge")

// function is one activation with its bound, its fixed-point evaluation, the
// interval where that one works, and a judge: an evaluation on math/big, good to
// 2^-prec.
type function struct {
	name     string
	eval     func(float64) Num
	err      float64
	exact    func(float64) *big.Int
	from, to float64
	judge    func(x float64, prec uint) *big.Float
}

func float(prec uint, x float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(x) }

// half returns x/(1 + e^-s) by way of the judge's exponential.
func half(x float64, s *big.Float, prec uint) *big.Float {
	e := bigref.Exp(s.Neg(s), prec)
	return e.Quo(float(prec, x), e.Add(e, float(prec, 1)))
}

var functions = []function{
	{"gelu", GELU, GELUErr, ExactGELU, GELUEnd, 14.5, func(x float64, prec uint) *big.Float {
		prec += 64
		t := float(prec, -x)
		v := bigref.Erfc(t.Quo(t, float(prec, 2).Sqrt(float(prec, 2))), prec)
		return v.Mul(v, float(prec, x/2))
	}},
	{"gelu_tanh", GELUTanh, GELUTanhErr, ExactGELUTanh, GELUTanhEnd, 11.5, func(x float64, prec uint) *big.Float {
		prec += 64
		q := bigref.Rat(x)
		q.Mul(q, q).Mul(q, big.NewRat(44715, 1_000_000)).Add(q, big.NewRat(1, 1)).Mul(q, bigref.Rat(x))
		s := float(prec, 8)
		s.Quo(s, bigref.Pi(prec)).Sqrt(s)
		return half(x, s.Mul(s, new(big.Float).SetPrec(prec).SetRat(q)), prec)
	}},
	{"silu", SiLU, SiLUErr, ExactSiLU, SiLUEnd, 112, func(x float64, prec uint) *big.Float {
		return half(x, float(prec, x), prec+64)
	}},
	{"tanh", Tanh, TanhErr, ExactTanh, -60, 60, func(x float64, prec uint) *big.Float {
		return bigref.Tanh(float(64, x), prec+8)
	}},
}

// hard returns the arguments of hard_points.txt, float32 numbers at which exp,
// tanh or erf come close to a middle of two float32 numbers, and their multiples
// that land there inside the activations.
func hard(t *testing.T) (x []float64) {
	t.Helper()
	file, err := os.Open("../../../testdata/hard_points.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		bits, err := strconv.ParseUint(strings.Fields(s.Text())[1], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		v := math.Float32frombits(uint32(bits))
		for _, v := range []float32{v, v / 2, float32(float64(v) * math.Sqrt2)} {
			x = append(x, float64(v), float64(-v))
		}
	}
	if len(x) < 1000 {
		t.Fatalf("only %d hard points", len(x))
	}
	return x
}

// points returns float32 numbers in [lo, hi]: hard ones, random ones of every
// size, and those around the middles and ends of the tables' intervals.
func points(t *testing.T, lo, hi float64, n int) (x []float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 1))
	all := hard(t)
	for range n {
		v := math.Ldexp(1+r.Float64(), r.IntN(156)-149)
		if r.IntN(3) > 0 {
			v = max(-lo, hi) * r.Float64()
		}
		all = append(all, v, -v)
	}
	for j := range 64 {
		all = append(all, (float64(j)+0.5)/32, -(float64(j)+0.5)/32, float64(j)/128*math.Ln2, -float64(j)/128*math.Ln2)
	}
	all = append(all, lo, hi, 0x1p-149, -0x1p-149, 0x1p-126, 3, -3)
	for _, v := range all {
		if v := float64(float32(v)); v >= lo && v <= hi && v != 0 {
			x = append(x, v)
		}
	}
	return x
}

// distance returns |v - want| / |want|.
func distance(v, want *big.Float) float64 {
	d := new(big.Float).SetPrec(600).Sub(v, want)
	f, _ := d.Quo(d, want).Float64()
	return math.Abs(f)
}

func value(n Num) *big.Float {
	v := float(600, n.Hi)
	return v.Add(v, float(600, n.Lo))
}

func real768(v *big.Int) *big.Float {
	f := new(big.Float).SetPrec(900).SetInt(v)
	return f.SetMantExp(f, -Frac)
}

// The operations keep their bounds, in cancelling sums too.
func TestOps(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	draw := func() Num {
		hi, lo := fastTwoSum(math.Ldexp(1+r.Float64(), r.IntN(8)), math.Ldexp(r.Float64()-0.5, -50-r.IntN(6)*r.IntN(2)))
		return Num{hi, lo}
	}
	exact := func(x, y Num, op func(z, x, y *big.Float) *big.Float) *big.Float {
		return op(new(big.Float).SetPrec(600), value(x), value(y))
	}
	for _, c := range []struct {
		name  string
		units float64
		op    func(x, y Num) Num
		exact func(z, x, y *big.Float) *big.Float
		fit   func(x, y Num) Num // makes y suit x
	}{
		{"add", 3.1, add, (*big.Float).Add, func(x, y Num) Num { return y }},
		{"add, cancelling", 3.1, add, (*big.Float).Add, func(x, y Num) Num {
			hi, lo := twoSum(-x.Hi*(1-math.Ldexp(r.Float64(), -r.IntN(50))), x.Lo*(1+r.Float64()))
			return Num{hi, lo}
		}},
		{"addF", 2, func(x, y Num) Num { return addF(x, y.Hi) }, (*big.Float).Add,
			func(x, y Num) Num { return Num{Hi: y.Hi} }},
		// exact
		{"addF, cancelling", 2, func(x, y Num) Num { return addF(x, y.Hi) }, (*big.Float).Add,
			func(x, y Num) Num { return Num{Hi: -x.Hi} }},
		{"addSmall", 9, addSmall, (*big.Float).Add, func(x, y Num) Num { return Num{-x.Hi / 2, y.Lo * 0x1p-10} }},
		{"addSmall, 1/31", 3.2, addSmall, (*big.Float).Add, func(x, y Num) Num { return Num{y.Hi / 0x1p13, y.Lo / 0x1p13} }},
		{"mul", 4, mul, (*big.Float).Mul, func(x, y Num) Num { return y }},
		{"mulF", 2, func(x, y Num) Num { return mulF(x, y.Hi) }, (*big.Float).Mul,
			func(x, y Num) Num { return Num{Hi: y.Hi} }},
		{"quo", 20, quo, (*big.Float).Quo, func(x, y Num) Num { return y }},
	} {
		worst := 0.0
		for range 5000 {
			x := draw()
			y := c.fit(x, draw())
			want := exact(x, y, c.exact)
			if want.Sign() == 0 {
				continue
			}
			worst = max(worst, distance(value(c.op(x, y)), want)/0x1p-106)
		}
		t.Logf("%-17s %.2f E, bound %g", c.name, worst, c.units)
		if !(worst <= c.units && (worst > 0 || c.name == "addF, cancelling")) {
			t.Errorf("%s is off by %.2f E, want %g", c.name, worst, c.units)
		}
	}
}

// The double-double evaluations keep their bounds, against math/big.
func TestJudge(t *testing.T) {
	for _, f := range functions {
		worst, at := 0.0, 0.0
		for _, x := range points(t, max(f.from, -40), min(f.to, 40), *random) {
			if x <= f.from && f.name != "tanh" {
				continue
			}
			if d := distance(value(f.eval(x)), f.judge(x, 160)); !(d <= worst) {
				worst, at = d, x
			}
		}
		t.Logf("%-9s 2^%.1f at %x, bound 2^%.0f", f.name, math.Log2(worst), at, math.Log2(f.err))
		if !(worst <= f.err) {
			t.Errorf("%s(%x) is off by 2^%.1f, want 2^%.0f", f.name, at, math.Log2(worst), math.Log2(f.err))
		}
	}
}

// The fixed-point evaluations keep theirs, against math/big to 700 bits.
func TestExactJudge(t *testing.T) {
	for _, f := range functions {
		worst := -1 << 20
		x := points(t, max(f.from, -60), min(f.to, 60), 20)
		for i := 0; i < len(x); i += max(1, len(x)/25) {
			d := new(big.Float).SetPrec(900).Sub(real768(f.exact(x[i])), f.judge(x[i], 700))
			if e := d.MantExp(nil); d.Sign() != 0 && e > worst {
				worst = e
			}
		}
		t.Logf("%-9s 2^%d", f.name, worst)
		if worst > -ExactBits {
			t.Errorf("%s: the fixed-point evaluation is off by 2^%d, want 2^-%d", f.name, worst, ExactBits)
		}
	}
}

// Double-double against fixed point, at many more numbers.
func TestBounds(t *testing.T) {
	for _, f := range functions {
		worst, at, n := 0.0, 0.0, 0
		for _, x := range points(t, f.from, f.to, 1000) {
			if x <= f.from && f.name != "tanh" || x >= f.to {
				continue
			}
			n++
			if d := distance(value(f.eval(x)), real768(f.exact(x))); !(d <= worst) {
				worst, at = d, x
			}
		}
		t.Logf("%-9s %d numbers, 2^%.1f at %x, bound 2^%.0f", f.name, n, math.Log2(worst), at, math.Log2(f.err))
		if !(worst <= f.err) {
			t.Errorf("%s(%x) is off by 2^%.1f, want 2^%.0f", f.name, at, math.Log2(worst), math.Log2(f.err))
		}
	}
}

func BenchmarkEval(b *testing.B) {
	for _, f := range functions {
		b.Run(f.name, func(b *testing.B) {
			i, s := 0, 0.0
			for b.Loop() {
				s += f.eval(-4 + float64(i&4095)/512).Hi
				i++
			}
			_ = s
		})
		b.Run(f.name+"/exact", func(b *testing.B) {
			for b.Loop() {
				f.exact(-3.14159)
			}
		})
	}
}
