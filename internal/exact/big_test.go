package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// fraction returns num*2^exp/den.
func fraction(num *big.Int, exp int, den *big.Int) *big.Rat {
	n, d := new(big.Int).Set(num), new(big.Int).Set(den)
	if exp >= 0 {
		n.Lsh(n, uint(exp))
	} else {
		d.Lsh(d, uint(-exp))
	}
	return new(big.Rat).SetFrac(n, d)
}

// random returns an integer of up to that many bits, not zero.
func random(r *rand.Rand, bits int) *big.Int {
	m := new(big.Int)
	for range bits/64 + 1 {
		m.Lsh(m, 64).Or(m, new(big.Int).SetUint64(r.Uint64()))
	}
	m.Rsh(m, uint(m.BitLen()-min(m.BitLen(), 1+r.IntN(bits))))
	return m
}

func TestQuotient(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 4000 {
		num, den, exp := random(r, 300), random(r, 300), r.IntN(400)-200
		switch i % 4 {
		case 1: // an integer quotient of any length
			num.Mul(num, den)
		case 2: // a quotient of exactly 53 bits, or one unit in the 54th more
			q := new(big.Int).SetUint64(1<<52 | r.Uint64()>>12)
			q.Lsh(q, 1).Add(q, big.NewInt(int64(r.IntN(2))))
			num.Mul(q, den)
		case 3: // next to an exact quotient
			num.Mul(num, den).Add(num, big.NewInt(1))
		}
		if r.IntN(2) == 0 {
			num.Neg(num)
		}
		if got, want := Quotient(num, exp, den), fraction(num, exp, den); !isOdd(got, want) {
			t.Fatalf("Quotient(%v, %d, %v) = %x", num, exp, den, got)
		}
	}
	if got := Quotient(new(big.Int), 5, big.NewInt(3)); math.Float64bits(got) != 0 {
		t.Errorf("0/3 is %x", got)
	}
}

// isSqrtOdd is isOdd for the root of x, which it compares by squares.
func isSqrtOdd(v float64, x *big.Rat) bool {
	square := func(v float64) *big.Rat { return new(big.Rat).Mul(rat(v), rat(v)) }
	switch {
	case square(v).Cmp(x) == 0:
		return v > 0
	case v <= 0 || math.Float64bits(v)&1 == 0:
		return false
	}
	return square(math.Nextafter(v, 0)).Cmp(x) < 0 && x.Cmp(square(math.Nextafter(v, math.Inf(1)))) < 0
}

func TestSqrtQuotient(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for i := range 4000 {
		num, den, exp := random(r, 300), random(r, 300), r.IntN(400)-200
		switch i % 5 {
		case 1: // the square of a fraction
			num.Mul(num, num)
			den.Mul(den, den)
		case 2: // the square of an integer
			num.Mul(num, num)
			den.SetInt64(1)
		case 3: // next to the square of a number of 53 bits
			num.SetUint64(1<<52 | r.Uint64()>>12)
			num.Mul(num, num).Lsh(num, 300).Add(num, big.NewInt(int64(r.IntN(3)-1)))
			den.SetInt64(1)
		case 4: // a square as the integer quotient, but a remainder
			den.Add(random(r, 100), big.NewInt(2))
			num.SetUint64(1<<52 | r.Uint64()>>12)
			num.Mul(num, num).Lsh(num, 20).Mul(num, den).Add(num, big.NewInt(1))
		}
		if got, want := SqrtQuotient(num, exp, den), fraction(num, exp, den); !isSqrtOdd(got, want) {
			t.Fatalf("SqrtQuotient(%v, %d, %v) = %x", num, exp, den, got)
		}
	}
	for _, c := range []struct {
		num, exp, den int64
		want          float64
	}{{0, 3, 7, 0}, {9, 0, 1, 3}, {9, 0, 4, 1.5}, {2, -1, 1, 1}, {1, 2, 1, 2}, {1, -1, 2, 0.5},
		{1, 1, 1, 0x1.6a09e667f3bcdp0}} {
		if got := SqrtQuotient(big.NewInt(c.num), int(c.exp), big.NewInt(c.den)); got != c.want {
			t.Errorf("SqrtQuotient(%d, %d, %d) = %x, want %x", c.num, c.exp, c.den, got, c.want)
		}
	}
}

func TestOddIntNeedsBits(t *testing.T) {
	if got := oddInt(big.NewInt(-1<<52), 3, true); got != -0x1.0000000000001p55 {
		t.Errorf("oddInt of 53 bits is %x", got)
	}
	mustPanic(t, "exact: too few bits to round to odd", func() { oddInt(big.NewInt(1<<51), 0, true) })
}

func TestBeside(t *testing.T) {
	for _, c := range []struct {
		z    float64
		dir  int
		want float64
	}{
		{1, 1, 0x1.0000000000001p0},
		{1, -1, 0x1.fffffffffffffp-1},
		{-1, 1, -0x1.fffffffffffffp-1},
		{-1, -1, -0x1.0000000000001p0},
		{0, 1, 0x1p-1074},
		{0, -1, -0x1p-1074},
		{math.Copysign(0, -1), 1, 0x1p-1074},
		{0x1p-149, -1, 0x1.fffffffffffffp-150},
	} {
		if got := Beside(c.z, c.dir); got != c.want || math.Float64bits(got)&1 == 0 {
			t.Errorf("Beside(%x, %d) = %x, want %x", c.z, c.dir, got, c.want)
		}
	}
}
