package norm

import "math"

// double is the unevaluated sum of two float64 numbers, |lo| at most half an ulp
// of hi: about 106 bits. The bounds are those of M. Joldes, J.-M. Muller,
// V. Popescu, "Tight and rigorous error bounds for basic building blocks of
// double-word arithmetic", ACM TOMS 44, 2017, in units of 2^-106 of the result;
// what is not in it is derived.
type double struct{ hi, lo float64 }

// twoSum returns a+b without error.
func twoSum(a, b float64) double {
	s := a + b
	t := s - a
	return double{s, (a - (s - t)) + (b - t)}
}

// quickSum is twoSum for |a| >= |b| or a = 0.
func quickSum(a, b float64) double {
	s := a + b
	return double{s, b - (s - a)}
}

// twoProduct returns a*b without error.
func twoProduct(a, b float64) double {
	p := float64(a * b)
	return double{p, math.FMA(a, b, -p)}
}

// plus is off by 3 (algorithm 6).
func (a double) plus(b double) double {
	s, t := twoSum(a.hi, b.hi), twoSum(a.lo, b.lo)
	s = quickSum(s.hi, s.lo+t.hi)
	return quickSum(s.hi, s.lo+t.lo)
}

func (a double) minus(b double) double { return a.plus(double{-b.hi, -b.lo}) }

// scaled is a*b, off by 2 (algorithm 9).
func (a double) scaled(b float64) double {
	p := twoProduct(a.hi, b)
	return quickSum(p.hi, math.FMA(a.lo, b, p.lo))
}

// times is off by 5 (algorithm 11).
func (a double) times(b double) double {
	p := twoProduct(a.hi, b.hi)
	return quickSum(p.hi, p.lo+math.FMA(a.hi, b.lo, float64(a.lo*b.hi)))
}

// over is a/b, off by 15 (algorithm 17).
func (a double) over(b double) double {
	t := a.hi / b.hi
	r := b.scaled(t)
	d := (a.hi - r.hi) + (a.lo - r.lo)
	return quickSum(t, d/b.hi)
}

// root is the square root of a > 0, off by 8: with s the root of a.hi, which
// rounds by u, the exact root is s + (a-s^2)/(2s) less (a-s^2)^2/(8 s^3), which is
// less than 2 u^2 s; the difference a.hi-s^2 is exact, its sum with a.lo rounds by u
// of at most 4u s^2, and the quotient by u of at most 2u s.
func (a double) root() double {
	s := math.Sqrt(a.hi)
	d := math.FMA(-s, s, a.hi) + a.lo
	return quickSum(s, d/float64(2*s))
}
