package double

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func wide() *big.Float { return new(big.Float).SetPrec(400) }

func value(d Num) *big.Float {
	x := wide().SetFloat64(d.Hi)
	return x.Add(x, big.NewFloat(d.Lo))
}

// The operations keep their bounds.
func TestBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 1))
	random := func() Num {
		hi := math.Ldexp(1+r.Float64(), r.IntN(40)-20)
		if r.IntN(2) == 0 {
			hi = -hi
		}
		return quickSum(hi, hi*0x1p-53*(2*r.Float64()-1)*r.Float64())
	}
	worst := map[string]float64{}
	within := func(what string, got Num, want *big.Float, units float64) {
		t.Helper()
		if got.Hi+got.Lo != got.Hi {
			t.Fatalf("%s: %x + %x are not hi and lo", what, got.Hi, got.Lo)
		}
		d := value(got)
		if d.Sub(d, want); d.Sign() == 0 {
			return
		}
		d.Quo(d, want)
		e, _ := d.Float64()
		if worst[what] = max(worst[what], math.Abs(e)*0x1p106); !(worst[what] <= units+0.01) {
			t.Fatalf("%s: off by %.2f units of 2^-106, want %v at most", what, worst[what], units)
		}
	}
	for range 20000 {
		a, b := random(), random()
		x, y := value(a), value(b)
		within("sum", a.Plus(b), wide().Add(x, y), 3)
		within("difference", a.Minus(b), wide().Sub(x, y), 3)
		near := quickSum(-a.Hi*(1-math.Ldexp(1, -1-r.IntN(60))), a.Lo*r.Float64())
		within("sum, cancelling", a.Plus(near), wide().Add(x, value(near)), 3)
		within("sum with a float64", a.Add(b.Hi), wide().Add(x, big.NewFloat(b.Hi)), 2)
		within("the same, cancelling", a.Add(near.Hi), wide().Add(x, big.NewFloat(near.Hi)), 2)
		within("product", a.Times(b), wide().Mul(x, y), 5)
		within("scaled", a.Scaled(b.Hi), wide().Mul(x, big.NewFloat(b.Hi)), 2)
		within("quotient", a.Over(b), wide().Quo(x, y), 15)
		within("quotient by a float64", a.By(b.Hi), wide().Quo(x, big.NewFloat(b.Hi)), 4)
		within("root", Num{math.Abs(a.Hi), math.Copysign(1, a.Hi) * a.Lo}.Root(), wide().Sqrt(wide().Abs(x)), 8)
		within("exact sum", Sum(a.Hi, b.Lo), wide().Add(big.NewFloat(a.Hi), big.NewFloat(b.Lo)), 0)
		within("exact product", Product(a.Hi, b.Hi), wide().Mul(big.NewFloat(a.Hi), big.NewFloat(b.Hi)), 0)
	}
	t.Log(worst)
}

// What Odd decides is right for every number within err, and what is farther from
// float64 numbers than that is decided.
func TestOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(54, 1))
	decided := 0
	for range 100000 {
		hi := math.Ldexp(1+r.Float64(), r.IntN(20)-10)
		if r.IntN(4) == 0 {
			hi = math.Ldexp(1, r.IntN(20)-10) // where the gap below is half the gap above
		}
		if r.IntN(2) == 0 {
			hi = -hi
		}
		a := quickSum(hi, hi*math.Ldexp(2*r.Float64()-1, -53-r.IntN(50)))
		err := math.Abs(a.Hi) * 0x1p-95
		odd, ok := a.Odd(err)
		if ok != (math.Abs(a.Lo) > 1.01*err) {
			t.Fatalf("%x + %x: decided is %v", a.Hi, a.Lo, ok)
		}
		if !ok {
			continue
		}
		decided++
		for _, s := range []float64{-1, -0.5, 0, 1} {
			y := wide().Add(value(a), big.NewFloat(s*err))
			want, acc := new(big.Float).SetPrec(53).SetMode(big.ToZero).Set(y).Float64()
			if acc != big.Exact || y.Cmp(big.NewFloat(want)) != 0 {
				want = math.Float64frombits(math.Float64bits(want) | 1)
			}
			if odd != want {
				t.Fatalf("%x + %x, %v err: %x, want %x", a.Hi, a.Lo, s, odd, want)
			}
		}
	}
	if decided < 50000 {
		t.Errorf("only %d decided", decided)
	}
	for _, a := range []Num{{0x1p-401, 0x1p-460}, {0, 0}, {1, 0}, {math.NaN(), math.NaN()}, {math.Inf(1), math.NaN()},
		{math.MaxFloat64, 0x1p900}} {
		if _, ok := a.Odd(0); ok {
			t.Errorf("%x + %x is decided", a.Hi, a.Lo)
		}
	}
}
