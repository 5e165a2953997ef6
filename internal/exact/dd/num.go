package dd

import "math"

// Num is the unevaluated sum Hi + Lo of two float64 numbers, Hi being that sum
// rounded to nearest: about 106 bits.
//
// Error bounds are given in units of E = 2^-106, relative to the result, and
// hold while nothing underflows. Those of add, addF, mul and mulF are from M.
// Joldes, J.-M. Muller, V. Popescu, "Tight and rigorous error bounds for basic
// building blocks of double-word arithmetic", ACM Trans. Math. Software 44, 2017.
type Num struct{ Hi, Lo float64 }

// twoSum returns a + b = s + e without error (Knuth).
func twoSum(a, b float64) (s, e float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// fastTwoSum is twoSum for |a| >= |b| or a = 0 (Dekker).
func fastTwoSum(a, b float64) (s, e float64) {
	s = a + b
	return s, b - (s - a)
}

// twoProd returns a*b = p + e without error.
func twoProd(a, b float64) (p, e float64) {
	p = float64(a * b)
	return p, math.FMA(a, b, -p)
}

// add returns x + y, to 3.1 E even where it cancels (AccurateDWPlusDW).
func add(x, y Num) Num {
	sh, sl := twoSum(x.Hi, y.Hi)
	th, tl := twoSum(x.Lo, y.Lo)
	vh, vl := fastTwoSum(sh, sl+th)
	h, l := fastTwoSum(vh, tl+vl)
	return Num{h, l}
}

// addF returns x + y, to 2 E (DWPlusFP).
func addF(x Num, y float64) Num {
	sh, sl := twoSum(x.Hi, y)
	h, l := fastTwoSum(sh, x.Lo+sl)
	return Num{h, l}
}

// addSmall returns x + y for |y| <= |x|/2, to 9 E, and to 3.2 E for |y| <=
// |x|/31: the sum of the low parts, at most 2^-53 (|x| + |y|), and the sum of
// that with the error of the high sum, at most twice as large, are rounded.
func addSmall(x, y Num) Num {
	sh, sl := fastTwoSum(x.Hi, y.Hi)
	h, l := fastTwoSum(sh, sl+(x.Lo+y.Lo))
	return Num{h, l}
}

// mul returns x*y, to 4 E (DWTimesDW3).
func mul(x, y Num) Num {
	ph, pl := twoProd(x.Hi, y.Hi)
	t := math.FMA(x.Hi, y.Lo, float64(x.Lo*y.Lo))
	h, l := fastTwoSum(ph, pl+math.FMA(x.Lo, y.Hi, t))
	return Num{h, l}
}

// mulF returns x*y, to 2 E (DWTimesFP3).
func mulF(x Num, y float64) Num {
	ph, pl := twoProd(x.Hi, y)
	h, l := fastTwoSum(ph, math.FMA(x.Lo, y, pl))
	return Num{h, l}
}

// quo returns x/y, to 20 E. q = Hi/Hi is good to 3.1 units of 2^-53; the rest
// x - q y, at most 3.1 such units of x, is formed with an error of 2 E x for the
// product, 3.2 E for the difference of the low parts and 3.2 E for the last
// sum; dividing it by y.Hi alone adds 6.4 E, and the end 4 E.
func quo(x, y Num) Num {
	q := x.Hi / y.Hi
	p := mulF(y, q)
	rest := (x.Hi - p.Hi) + (x.Lo - p.Lo)
	h, l := fastTwoSum(q, rest/y.Hi)
	return Num{h, l}
}

// neg returns -x.
func (x Num) neg() Num { return Num{-x.Hi, -x.Lo} }
