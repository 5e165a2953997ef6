package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func rat(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }

// isOdd reports whether v is x rounded to odd: x itself, or a float64 with an
// odd last bit and x strictly between its neighbours. The neighbours of an
// odd number are even, so no other float64 qualifies.
func isOdd(v float64, x *big.Rat) bool {
	switch {
	case rat(v).Cmp(x) == 0:
		return !math.Signbit(v) || v != 0
	case math.Float64bits(v)&1 == 0:
		return false
	}
	below, above := math.Nextafter(v, math.Inf(-1)), math.Nextafter(v, math.Inf(1))
	return rat(below).Cmp(x) < 0 && x.Cmp(rat(above)) < 0
}

// terms returns n terms a Sum takes, of the magnitudes that lie between the
// two exponents, and their sum.
func terms(r *rand.Rand, n, lo, hi int) ([]float64, *big.Rat) {
	xs, sum := make([]float64, n), new(big.Rat)
	for i := range xs {
		e := lo + r.IntN(hi-lo+1)
		keep := min(53, e+352+1) // bits from 2^e down to 2^-352
		x := math.Ldexp(float64(1<<(keep-1)|r.Uint64()>>1>>(64-keep)), e-keep+1)
		if r.IntN(2) == 0 {
			x = -x
		}
		if r.IntN(10) == 0 {
			x = 0
		}
		xs[i] = x
		sum.Add(sum, rat(x))
	}
	return xs, sum
}

// check compares every way to read a sum with its exact value.
func check(t *testing.T, s *Sum, want *big.Rat) {
	t.Helper()
	if !s.Finite() {
		t.Fatal("not finite")
	}
	if got := s.Odd(); !isOdd(got, want) {
		f, _ := want.Float64()
		t.Fatalf("Odd = %x, sum is about %x", got, f)
	}
	m, exp := s.Int()
	v := new(big.Rat).SetInt(m)
	scale := new(big.Int).Lsh(big.NewInt(1), uint(max(exp, -exp)))
	if exp < 0 {
		v.Quo(v, new(big.Rat).SetInt(scale))
	} else {
		v.Mul(v, new(big.Rat).SetInt(scale))
	}
	if v.Cmp(want) != 0 {
		t.Fatalf("Int = %v * 2^%d, not the sum", m, exp)
	}
}

func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, span := range [][2]int{{-352, 351}, {-298, 255}, {-352, -300}, {300, 351}, {-10, 10}, {0, 0}} {
		for range 300 {
			xs, want := terms(r, 1+r.IntN(40), span[0], span[1])
			var s Sum
			for _, x := range xs {
				s.Add(x)
			}
			check(t, &s, want)
			check(t, &s, want) // reading changes nothing

			// Take all but one away again, in another order.
			r.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
			for _, x := range xs[1:] {
				s.Add(-x)
			}
			if got := s.Odd(); got != xs[0] {
				t.Fatalf("after cancelling: %x, want %x", got, xs[0])
			}
			s.Add(-xs[0])
			if got := s.Odd(); math.Float64bits(got) != 0 {
				t.Fatalf("after cancelling all: %x, want +0", got)
			}
			s.Add(1)
			s.Reset()
			check(t, &s, new(big.Rat))
		}
	}
}

// TestSumSticky puts one unit far below a large number: it shows only as the
// odd last bit, wherever it lies.
func TestSumSticky(t *testing.T) {
	for e := -290; e < 352; e += 7 {
		for low := -352; low < e-53; low += 5 {
			for _, sign := range []float64{1, -1} {
				for _, lowSign := range []float64{1, -1} {
					var s Sum
					x, y := sign*math.Ldexp(1, e), lowSign*math.Ldexp(1, low)
					s.Add(x)
					s.Add(y)
					check(t, &s, new(big.Rat).Add(rat(x), rat(y)))
				}
			}
		}
	}
}

// TestSumCarries brings a sum to just before the point where its carries are
// settled, as if the same term had been added 2^30-1 times.
func TestSumCarries(t *testing.T) {
	for _, x := range []float64{
		0x1.fffffffffffffp40, -0x1.fffffffffffffp40, 0x1.fffffffffffffp351, -0x1p-352, 0x1.fffffffffffffp-43,
	} {
		var s Sum
		s.Add(x)
		const many = 1<<30 - 1
		for i := range s.limb {
			s.limb[i] *= many
		}
		s.pending = many
		check(t, &s, new(big.Rat).Mul(rat(x), rat(many)))
		s.Add(x)
		if s.pending != 0 {
			t.Fatalf("%d terms pending", s.pending)
		}
		for i, l := range s.limb[:limbs-1] {
			if l < 0 || l >= 1<<32 {
				t.Fatalf("limb %d is %#x after carrying", i, l)
			}
		}
		check(t, &s, new(big.Rat).Mul(rat(x), rat(many+1)))
		s.Add(x)
		if s.pending != 1 {
			t.Fatalf("%d terms pending", s.pending)
		}
		check(t, &s, new(big.Rat).Mul(rat(x), rat(many+2)))
	}
}

func TestSumSpecials(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		terms []float64
		want  float64
	}{
		{[]float64{1, inf, -0x1p300}, inf},
		{[]float64{-inf, 5}, -inf},
		{[]float64{inf, inf}, inf},
		{[]float64{inf, 1, -inf}, nan},
		{[]float64{nan, 1}, nan},
		{[]float64{nan, inf}, nan},
		{[]float64{inf, nan, -inf, 7}, nan},
	} {
		var s Sum
		for _, x := range c.terms {
			s.Add(x)
		}
		if got := s.Odd(); got != c.want && (got == got || c.want == c.want) {
			t.Errorf("sum of %v is %v, want %v", c.terms, got, c.want)
		}
		if s.Finite() {
			t.Errorf("sum of %v is said to be finite", c.terms)
		}
		mustPanic(t, "exact: sum is not finite", func() { s.Int() })
		s.Reset()
		check(t, &s, new(big.Rat))
	}
	var s Sum
	s.Add(math.Copysign(0, -1))
	if got := s.Odd(); math.Float64bits(got) != 0 {
		t.Errorf("the sum of -0 is %x, want +0", got)
	}
}

func TestSumRange(t *testing.T) {
	var s Sum
	for _, x := range []float64{0x1p-352, -0x1p-352, 0x1.8p-351, 0x1.fffffffffffffp351} {
		s.Reset()
		s.Add(x)
		check(t, &s, rat(x))
	}
	for _, x := range []float64{0x1p-353, 0x1.8p-352, 0x1.0000000000001p-301, math.SmallestNonzeroFloat64} {
		mustPanic(t, "exact: term below 2^-352", func() { s.Add(x) })
		mustPanic(t, "exact: term below 2^-352", func() { s.Add(-x) })
	}
	mustPanic(t, "exact: term too large", func() { s.Add(0x1p404) })
	mustPanic(t, "exact: term too large", func() { s.Add(-math.MaxFloat64) })
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if r := recover(); r != want {
			t.Errorf("panic %v, want %q", r, want)
		}
	}()
	f()
}

func TestMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		xs, want := terms(r, 50, -300, 250)
		var s Sum
		for len(xs) > 0 {
			k := 1 + r.IntN(len(xs))
			var part Sum
			for _, x := range xs[:k] {
				part.Add(x)
			}
			s.merge(&part)
			xs = xs[k:]
		}
		check(t, &s, want)
	}
	// Both sides as full as they can be.
	var a, b Sum
	for _, s := range []*Sum{&a, &b} {
		s.Add(-0x1.fffffffffffffp100)
		for i := range s.limb {
			s.limb[i] *= 1<<30 - 1
		}
		s.pending = 1<<30 - 1
	}
	a.merge(&b)
	if a.pending != 1 {
		t.Errorf("%d terms pending after a merge", a.pending)
	}
	a.merge(&b)
	check(t, &a, new(big.Rat).Mul(rat(-0x1.fffffffffffffp100), rat(3*(1<<30-1))))
	b.Add(math.Inf(1))
	a.merge(&b)
	if a.Finite() {
		t.Error("an infinity is lost")
	}
}
