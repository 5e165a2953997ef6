// Package double is arithmetic with unevaluated sums of two float64 numbers, some
// 106 bits.
//
// Every operation states a bound of its relative error in units of 2^-106. It holds
// while nothing overflows or comes near the subnormal numbers. Algorithms by number
// are those of M. Joldes, J.-M. Muller, V. Popescu, "Tight and rigorous error bounds
// for basic building blocks of double-word arithmetic", ACM TOMS 44, 2017, which
// proves their bounds; the others are derived here. Terms of higher order, below
// 2^-45 of a bound, are left out.
//
// Results are the same bits everywhere: every product is the exact one of an FMA or
// rounded by a conversion.
package double

import "math"

// Num is Hi + Lo, Hi being that sum rounded to nearest.
type Num struct{ Hi, Lo float64 }

// Sum returns a+b without error.
func Sum(a, b float64) Num {
	s := a + b
	t := s - a
	return Num{s, (a - (s - t)) + (b - t)}
}

// quickSum is Sum for |a| >= |b| or a = 0.
func quickSum(a, b float64) Num {
	s := a + b
	return Num{s, b - (s - a)}
}

// Product returns a*b without error.
func Product(a, b float64) Num {
	p := float64(a * b)
	return Num{p, math.FMA(a, b, -p)}
}

// Plus is off by 3, also where it cancels (algorithm 6).
func (a Num) Plus(b Num) Num {
	s, t := Sum(a.Hi, b.Hi), Sum(a.Lo, b.Lo)
	s = quickSum(s.Hi, s.Lo+t.Hi)
	return quickSum(s.Hi, s.Lo+t.Lo)
}

// Minus is off by 3.
func (a Num) Minus(b Num) Num { return a.Plus(b.Neg()) }

// Neg returns -a.
func (a Num) Neg() Num { return Num{-a.Hi, -a.Lo} }

// Add is a+b, off by 2, also where it cancels (algorithm 4).
func (a Num) Add(b float64) Num {
	s := Sum(a.Hi, b)
	return quickSum(s.Hi, a.Lo+s.Lo)
}

// Scaled is a*b, off by 2 (algorithm 9).
func (a Num) Scaled(b float64) Num {
	p := Product(a.Hi, b)
	return quickSum(p.Hi, math.FMA(a.Lo, b, p.Lo))
}

// Times is off by 5 (algorithm 11).
func (a Num) Times(b Num) Num {
	p := Product(a.Hi, b.Hi)
	return quickSum(p.Hi, p.Lo+math.FMA(a.Hi, b.Lo, float64(a.Lo*b.Hi)))
}

// By is a/b, off by 4. With u = 2^-53 and q = fl(a.Hi/b), the rest a.Hi - q b is
// exact and at most u|a|; with a.Lo it is at most 2u|a|, and rounds by u of that; so
// does its quotient with b, and the sum with q is exact.
func (a Num) By(b float64) Num {
	q := a.Hi / b
	rest := math.FMA(-q, b, a.Hi) + a.Lo
	return quickSum(q, rest/b)
}

// Over is a/b, off by 15 (algorithm 17).
func (a Num) Over(b Num) Num {
	t := a.Hi / b.Hi
	r := b.Scaled(t)
	d := (a.Hi - r.Hi) + (a.Lo - r.Lo)
	return quickSum(t, d/b.Hi)
}

// Root is the square root of a > 0, off by 8: with s the root of a.Hi, which
// rounds by u, the exact root is s + (a-s^2)/(2s) less (a-s^2)^2/(8 s^3), which is
// less than 2 u^2 s; the difference a.Hi-s^2 is exact, its sum with a.Lo rounds by u
// of at most 4u s^2, and the quotient by u of at most 2u s.
func (a Num) Root() Num {
	s := math.Sqrt(a.Hi)
	d := math.FMA(-s, s, a.Hi) + a.Lo
	return quickSum(s, d/float64(2*s))
}

// Odd returns y, a number within err of a, rounded to odd (see internal/exact), or
// false if that is not certain. Nothing near the subnormal numbers is.
//
// If |a.Lo| > err, then y differs from a.Hi and lies on the side of a.Lo, by less
// than 2 |a.Lo|. As a.Hi is a rounded to nearest, that is at most the distance of
// the next float64 on that side, so y lies strictly between the two: one of them has
// an odd last bit and is the answer. The 1.01 is for the rounding of err.
func (a Num) Odd(err float64) (odd float64, ok bool) {
	switch {
	case !(math.Abs(a.Lo) > 1.01*err) || !(math.Abs(a.Hi) > 0x1p-400) || !(math.Abs(a.Hi) < 0x1p1000):
		return 0, false
	case math.Float64bits(a.Hi)&1 == 1:
		return a.Hi, true
	}
	return math.Nextafter(a.Hi, math.Copysign(math.Inf(1), a.Lo)), true
}
