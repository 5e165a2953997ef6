package bigref

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// inside fails unless the ball holds x, a number whose last bits of some 600 may be wrong.
func inside(t *testing.T, what string, b Ball, x *big.Float) {
	t.Helper()
	if !(b.Err <= math.MaxFloat64) {
		return
	}
	d := newF(2500).SetFloat64(b.Hi)
	d.Add(d, newF(2500).SetFloat64(b.Lo)).Sub(d, x)
	bound := newF(2500).SetFloat64(b.Err)
	if x.Prec() < 2500 { // not exact
		bound.Add(bound, newF(64).SetMantExp(newF(64).Abs(newF(64).Set(x)), -590))
	}
	if d.Abs(d).Cmp(bound) > 0 {
		t.Fatalf("%s: %v is off by %.3g", what, b, d)
	}
}

// hard are numbers of one or two words, whose errors two words may or may not hold.
func hard(r *rand.Rand) (Ball, *big.Float) {
	x := r.NormFloat64()
	switch r.IntN(6) {
	case 0:
		x = float64(float32(x))
	case 1:
		x = math.Ldexp(x, r.IntN(600)-300)
	case 2:
		x = float64(r.IntN(17) - 8)
	case 3:
		x = math.Ldexp(float64(r.IntN(8)), -r.IntN(1074))
	}
	b := Exactly(x)
	if r.IntN(2) == 0 {
		b = b.Add(Exactly(math.Ldexp(x, -50-r.IntN(60))))
	}
	exact := newF(2500).SetFloat64(b.Hi)
	exact.Add(exact, newF(2500).SetFloat64(b.Lo))
	if r.IntN(3) == 0 { // known to some digits: the number is at one end
		b.Err = math.Ldexp(math.Abs(b.Hi), -60-r.IntN(60))
		exact.Add(exact, newF(2500).SetFloat64(math.Copysign(b.Err, r.Float64()-0.5)))
	}
	return b, exact
}

// TestBalls: the result of every operation is in its ball, which is of use.
func TestBalls(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 26))
	for range 40000 {
		a, x := hard(r)
		b, y := hard(r)
		v := newF(2500)
		inside(t, "sum", a.Add(b), v.Add(x, y))
		inside(t, "difference", a.Sub(b), v.Sub(x, y))
		inside(t, "product", a.Mul(b), newF(5000).Mul(x, y))
		if y.Sign() != 0 {
			inside(t, "quotient", a.Quo(b), newF(600).Quo(x, y))
		}
		if x.Sign() > 0 {
			inside(t, "root", a.Sqrt(), newF(600).Sqrt(x))
		}
	}
	tight := 0
	for range 500 {
		a, x := hard(r)
		if math.Abs(a.Hi) < 1000 {
			b := a.Exp()
			inside(t, "exponential", b, Exp(x, 600))
			if b.Err < a.Err*2*b.Hi+b.Hi*0x1p-90 {
				tight++
			}
		}
		if x.Sign() > 0 {
			b := a.Log()
			inside(t, "logarithm", b, Log(newF(600).Set(x), 600))
			if b.Err < 2*a.Err/a.Hi+math.Abs(b.Hi)*0x1p-50+0x1p-90 {
				tight++
			}
		}
	}
	if tight < 500 {
		t.Errorf("only %d balls of functions are small", tight)
	}
	for _, q := range []*big.Rat{big.NewRat(1, 3), big.NewRat(3, 8), big.NewRat(-1<<62-1, 5), new(big.Rat)} {
		b := Of(q)
		inside(t, "fraction", b, newF(600).SetRat(q))
	}
}

// TestBallRounds: what a ball says its numbers round to is what both of its ends round to, and
// one without an error says it always.
func TestBallRounds(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 26))
	formats := []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}
	decided := 0
	for i := range 60000 {
		f := formats[i%4]
		g := gridOf(f)
		x := math.Ldexp(1+r.Float64(), r.IntN(g.emax-g.emin+g.p+4)+g.emin-g.p-2)
		if r.IntN(2) == 0 { // a number of the format, a tie, or beside one
			ulp := math.Ldexp(1, max(math.Ilogb(x), g.emin)-g.p+1)
			x = math.Floor(x/ulp)*ulp + ulp/2*float64(r.IntN(2))
			if r.IntN(2) == 0 {
				x = math.Nextafter(x, []float64{0, 1e300}[r.IntN(2)])
			}
		}
		b := Exactly(math.Copysign(x, r.Float64()-0.5))
		if r.IntN(2) == 0 {
			b = b.Add(Exactly(math.Ldexp(r.NormFloat64(), math.Ilogb(x)-54-r.IntN(60))))
		}
		if r.IntN(2) == 0 {
			b.Err = math.Ldexp(r.Float64(), math.Ilogb(x)-20-r.IntN(90))
		}
		at := new(big.Rat).Add(Rat(b.Hi), Rat(b.Lo))
		lo, hi := Round(new(big.Rat).Sub(at, Rat(b.Err)), f), Round(new(big.Rat).Add(at, Rat(b.Err)), f)
		y, ok := b.Round(f)
		if ok && (math.Float64bits(y) != math.Float64bits(lo) || math.Float64bits(y) != math.Float64bits(hi)) {
			t.Fatalf("%v in %v: %x, want %x to %x", b, f, y, lo, hi)
		}
		if b.Err == 0 && !ok {
			t.Fatalf("%v in %v is exact and not decided", b, f)
		}
		if ok && b.Err > 0 {
			decided++
		}
	}
	if decided < 20000 {
		t.Errorf("only %d decided", decided)
	}
	for _, b := range []Ball{
		{Err: 1e-300}, {1, 0, 1}, {math.NaN(), 0, 0}, {1, 0, math.NaN()}, {math.Inf(1), 0, 0}, unknown,
	} {
		if y, ok := b.Round(fp16.Float32); ok {
			t.Errorf("%v is decided as %v", b, y)
		}
	}
}
