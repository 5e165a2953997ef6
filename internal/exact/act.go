package exact

import (
	"math"

	"github.com/refrun/refrun/internal/exact/double"
)

// The functions of this file evaluate the activations in double-double arithmetic,
// for a float32 number x: before math/big has to, which is hardly ever then. They
// need no tables. Errors are relative and in units of 2^-106, to first order; E(n)
// is what n partial sums have gathered. docs/NUMERICS.md, section 3, has the same
// in one piece.
const (
	geluErr     = 0x1p-95
	geluTanhErr = 0x1p-94
	siluErr     = 0x1p-100
	tanhErr     = 0x1p-100
)

// ln 2 in parts: the products of the first two with integers of 10 bits are exact.
const ln2a, ln2b, ln2c = 0x1.62e42fefa38p-01, 0x1.ef35793c76p-45, 0x1.cc01f97b57a08p-87

var (
	root8Pi     = double.Num{Hi: 0x1.9884533d43651p+00, Lo: -0x1.cbc0d30ebfd15p-54} // sqrt(8/pi)
	root8PiCube = double.Num{Hi: 0x1.2444f2a4d8b4bp-04, Lo: -0x1.6c843a29d1c7p-61}  // 0.044715 of it
)

// geluDouble is good to geluErr for |x| >= 2^-60. With a = |x|, phi the normal
// density and Q the normal tail it is x/2 + x a phi(a) S(a) for x > 0 and x/2 less
// that for x < 0, up to 2 in size; beyond, x Q(-x) or x - x Q(x).
//
// x^2/2 is exact. phi carries 11 for the exponential, 6 for the factor: 17. a phi S
// takes 2, 5 and 15 more, 39 in all. For x > 0 it is added to 1/2, which at most
// halves and then adds 2. For x < 0 it is up to 0.4773, of a rest of at least
// 0.0227: 21 times 39, and 2. The product with x adds 2: 823 and 2 at most.
//
// Beyond, Q = phi/r carries 17, 8 for r and 15 for the quotient, and x Q 2 more: 42.
// All are less than 2^10, which is 2^-96.
func geluDouble(x float64) double.Num {
	a := math.Abs(x)
	phi := exp(double.Num{Hi: float64(-0.5 * float64(x*x))}).Times(root8Pi.Scaled(0.25))
	switch {
	case a <= 2:
		m := phi.Scaled(a).Times(densitySeries(float64(x * x)))
		if x < 0 {
			m = m.Neg()
		}
		return m.Add(0.5).Scaled(x)
	case x < 0:
		return phi.Over(tailFraction(a)).Scaled(x)
	}
	return phi.Over(tailFraction(a)).Scaled(-x).Add(x)
}

// The N of tailFraction.
const tailFrom2, tailFrom4 = 360, 105

// densitySeries returns S = 1 + z/3 (1 + z/5 (1 + z/7 (...))), z = a^2 <= 4: the
// integral of phi from 0 to a is a phi(a) S.
//
// All terms are positive. What is missing, less than twice the term 4^38/77!! <
// 2^-113, is nothing. A partial sum s = 1 + t, t < 3.42, takes over the error of the
// one before, a product, 2, and a quotient, 4, in the share t/s, and adds 2:
// E(n) = (t/s) (E(n+1) + 6) + 2. The shares are greatest at z = 4, where the last of
// these is below 15 (exact.TestShares).
func densitySeries(z float64) double.Num {
	s := double.Num{Hi: 1}
	for n := 75.0; n > 1; n -= 2 {
		s = s.Scaled(z).By(n).Add(1)
	}
	return s
}

// tailFraction returns r = a + 1/(a + 2/(a + 3/(...))), a >= 2: Q(a) = phi(a)/r
// (Laplace).
//
// With r_k = a + k/r_(k+1) the result is r_1. Let f(k) = (a + sqrt(a^2+4k))/2, that
// is f(k) = a + k/f(k). If f(k) <= r_(k+1) <= f(k+1), then
//
//	a + k/f(k+1) <= r_k <= a + k/f(k) = f(k),
//
// and a + k/f(k+1) >= a + (k-1)/f(k-1) = f(k-1): f(k+1)/f(k-1) is at most
// sqrt((k+1)/(k-1)), and that at most k/(k-1). So if one of them starts there, all
// that follow lie between f(k-1) and f(k); so do those of the infinite fraction,
// which is the limit. An error of r_(k+1) comes to r_k in the share
//
//	k/(r_k r_(k+1)) <= k/(f(k-1) f(k)),
//
// which falls with a. The start, f(N), is off by less than 1/N; the product of the
// shares takes that below 2^-108 for the two N. The
// quotients, 15, and sums, 2, come to E(n) = share (E(n+1) + 15) + 2, less than 8 for
// all (exact.TestShares).
func tailFraction(a float64) double.Num {
	n := tailFrom2
	if a >= 4 {
		n = tailFrom4
	}
	r := double.Num{Hi: (a + math.Sqrt(float64(a*a)+float64(4*n))) / 2}
	for k := n - 1; k >= 1; k-- {
		r = double.Num{Hi: float64(k)}.Over(r).Add(a)
	}
	return r
}

// geluTanhDouble is good to geluTanhErr for 2^-60 <= |x|, x > -14. s = |x| (alpha +
// beta x^2) with x^2 exact: 1 and 2 for beta x^2, 1 for alpha, 3 for the sum and 2 for
// the product, 8 in all. For s < 300 that makes 2400 of e^-s, 11 of its own, and the
// 19 of the rest: less than 2^12 = 2^-94. (Down to 2^-151 s is below 106.)
func geluTanhDouble(x float64) double.Num {
	s := root8PiCube.Scaled(float64(x * x)).Plus(root8Pi).Scaled(-math.Abs(x))
	return logisticDouble(x, s)
}

// siluDouble is good to siluErr: 11 for e^-|x|, 19 for the rest.
func siluDouble(x float64) double.Num { return logisticDouble(x, double.Num{Hi: -math.Abs(x)}) }

// logisticDouble returns x/(1 + e^s) for x > 0, x e^s/(1 + e^s) for x < 0, where s <= 0:
// 2 for the product, 2 for the sum, 15 for the quotient.
func logisticDouble(x float64, s double.Num) double.Num {
	e := exp(s)
	top := double.Num{Hi: x}
	if x < 0 {
		top = e.Scaled(x)
	}
	return top.Over(e.Add(1))
}

// tanhDouble is good to tanhErr for |x| >= 2^-27: up to 1 as a quotient of the series
// of sinh and cosh, of positive terms, 4 and 6 by the rule of densitySeries (TestShares
// again), where less than 2^-117 is missing, with 2 and 15: 27. Beyond it is (1-e)/(1+e),
// e = e^(-2|x|) < 0.136: the 11 of e count less than 1.8 and 1.4 times, the sums 2 each,
// the quotient 15: 23.
func tanhDouble(x float64) double.Num {
	if a := math.Abs(x); a > 1 {
		e := exp(double.Num{Hi: -2 * a})
		y := e.Neg().Add(1).Over(e.Add(1))
		if x < 0 {
			y = y.Neg()
		}
		return y
	}
	z := float64(x * x)
	sinh, cosh := double.Num{Hi: 1}, double.Num{Hi: 1}
	for n := 30.0; n > 0; n -= 2 {
		sinh = sinh.Scaled(z).By(float64(n * (n + 1))).Add(1)
		cosh = cosh.Scaled(z).By(float64(n * (n - 1))).Add(1)
	}
	return sinh.Scaled(x).Over(cosh)
}

// exp returns e^x for x <= 0, off by 11 and by the error of x; 0 below -700.
//
// x = k ln 2 + r, |r| < 0.347. The parts of k ln 2 are taken away one by one: their
// products are exact or of no account, and what is left is never above 0.347, so r
// is off by 3 times 2 of that, 2.1 units absolutely, as much of e^r. Then
// e^r = 1 + r (1 + r/2 (1 + r/3 (...))), of which r^24/24! < 2^-115 and what follows
// is missing. With a product, 5, and a quotient, 4, a partial sum s = 1 + t has
// E(n) = |t/s| (E(n+1) + 9) + 2. As s grows with r, |t/s| = |1 - 1/s| is greatest at
// the ends, -0.35 and 0.35, where that comes to less than 8 (exact.TestShares).
func exp(x double.Num) double.Num {
	if x.Hi < -700 {
		return double.Num{}
	}
	k := math.RoundToEven(float64(x.Hi * (1 / math.Ln2)))
	r := x.Add(-float64(k * ln2a)).Add(-float64(k * ln2b)).Add(-float64(k * ln2c))
	s := double.Num{Hi: 1}
	for n := 23.0; n > 0; n-- {
		s = s.Times(r).By(n).Add(1)
	}
	two := math.Ldexp(1, int(k))
	return double.Num{Hi: float64(s.Hi * two), Lo: float64(s.Lo * two)}
}
