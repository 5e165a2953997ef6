package asm

import "math"

//go:generate go run act_gen.go

// Act is a set of kernels that apply activation functions element by element.
// Package act defines the functions.
type Act struct {
	Identity, ReLU, GELU, GELUTanh, SiLU, Sigmoid, Tanh, Erf ActKernel

	// ExpBelow evaluates e^(x-top) as actExp does, with x-top rounded and no less than
	// -700, for n numbers x, a multiple of 8, none of which is greater than top, or NaN.
	// See ExpBelowErr.
	ExpBelow func(dst, src *float64, n int, top float64)
}

// ActKernel applies a function to n numbers, n a multiple of 8 from 8 to 64, at
// src and writes the results to dst: see Apply. grid points to an ActGrid.
type ActKernel func(dst, src *float64, n int, grid *float64) (open uint64)

// Apply sets dst to the function of src, rounded to the format of g. The two
// have the same length, a multiple of 8 from 8 to 64, and are the same memory or
// do not overlap. Element i is open, and gets src's number, if bit i of the
// result is set: then the guard could not tell the rounding, or the number is NaN
// or its result too large. The numbers of src have at most 24 significant bits
// and, unless zero, an absolute value of 2^-149 or more. Misuse panics.
//
// The guard takes y with a relative error of ActErr (none for Identity and ReLU,
// which are exact) and rounds both ends of that interval.
func (k ActKernel) Apply(dst, src []float64, g *ActGrid) (open uint64) {
	n := len(src)
	if n&7 != 0 || n < 8 || n > 64 || len(dst) != n {
		panic("asm: activation of a wrong length")
	}
	return k(&dst[0], &src[0], n, &g.least)
}

// ActErr bounds the relative error |y-exact|/|y| of ActGELU, ActGELUTanh, ActSiLU,
// ActSigmoid, ActTanh and ActErf for all finite arguments of at most 24 bits, as long as y is
// greater than 2^-152; where it is less, so is the exact value, with the same
// sign.
const ActErr = 0x1p-36

// ActGrid is a number format and the guard's interval around its numbers.
//
// A number y is rounded to p bits by adding c = 1.5 * 2^(e+53-p), e the exponent
// of y or, if that is greater, the least one: numbers near c lie 2^(e+1-p)
// apart. Taking c away again is exact. The fused multiply-adds c + y low and
// c + y high round the ends of the interval from their exact values.
type ActGrid struct {
	least     float64 // the least normal number
	limit     float64 // results from here on are open: half the greatest number
	low, high float64 // 1-ActErr, 1+ActErr
	shift     uint64  // what the bits of 2^e lack of those of c
}

// NewActGrid returns the grid of a format: ulp is the distance of its numbers
// from 1 up, 2^-50 or more; then its least normal and its greatest number.
func NewActGrid(ulp, least, greatest float64) *ActGrid {
	shift := math.Float64bits(1.5*0x1p52*ulp) - math.Float64bits(1)
	return &ActGrid{least, greatest / 2, 1 - ActErr, 1 + ActErr, shift}
}

// NewWideActGrid is NewActGrid without the guard's interval: numbers are rounded
// as evaluated, and open only where they are NaN or too large. Then arguments may
// have 53 bits; ActErr bounds the relative error still.
func NewWideActGrid(ulp, least, greatest float64) *ActGrid {
	g := NewActGrid(ulp, least, greatest)
	g.low, g.high = 1, 1
	return g
}

// Round is what the kernels make of a y that is good to ActErr: y rounded, and
// whether the guard knows that this is the exact value rounded.
func (g *ActGrid) Round(y float64) (float64, bool) { return g.guard(y, g.low, g.high) }

// Exact is Round for a y that is exact.
func (g *ActGrid) Exact(y float64) (float64, bool) { return g.guard(y, 1, 1) }

func (g *ActGrid) guard(y, low, high float64) (float64, bool) {
	m := max(math.Abs(y), g.least)
	c := math.Float64frombits(math.Float64bits(m)&actTable.exponent + g.shift)
	lo, hi := math.FMA(y, low, c), math.FMA(y, high, c)
	return math.Copysign(lo-c, y), lo == hi && m < g.limit
}

// actConstants are the constants of the kernels; the order is known to _gen.
type actConstants struct {
	perLn2, ln2 float64
	halfPerLn2  float64 // -1/2 of perLn2
	twoLn2      float64 // -2 ln2
	round       float64 // 1.5 * 2^52: adding it rounds to an integer, kept in the low bits
	one         float64
	two         float64 // -2
	steep       float64 // the greatest argument of the exponential
	shallow     float64 // the least one
	far         float64 // the greatest |x| that ActGELU tells from others
	center      float64
	alpha, beta float64 // -sqrt(8/pi) and 0.044715 times that
	exponent    uint64
	abs         uint64
	sign        uint64
	exp         [8]float64
	mills       [14]float64
	gauss       [8]float64
	err         float64 // ActErr
	half        float64
	near        nearGELU
	erfFar      float64 // the greatest |x| of ActErf
	erfScale    float64 // 2 sqrt 2
	huge        float64
}

// nearGELU are the constants of ActGELUNear.
type nearGELU struct {
	middle float64 // minus the middle of x^2
	limit  uint64  // twice the float32 bits of the greatest |x|, in both halves
	phi    [18]float64
}

// ActGELU evaluates x/2 (1 + erf(x/sqrt 2)) as the kernels do, the same
// operations in the same order.
//
// With a = |x| and t = a/2 erfc(a/sqrt 2) it is max(x, 0) - t, which loses nothing
// in the negative tail: t <= y for x > 0. t is e^(-a^2/2) z F(z), where
// z = a/(a+5) and F is the polynomial for (a+5) erfcx(a/sqrt 2)/2 that
// interpolates it at 14 Chebyshev nodes of 0 <= a <= 14.5. It misses less than
// 2^-37.7 of it (TestActPolynomials), the exponential 2^-38.2 (actExp), and some
// thirty roundings less than 2^-45. Together less than 2^-36.9.
//
// The exponential is actExp's, bit for bit, with -2r for r: the kernels need no
// product by 1/2 then.
//
// From a = 14.5 on t is that of 14.5, less than 2^-152: then y is x, or less than
// 2^-152 with the sign of x.
func ActGELU(x float64) float64 {
	c := &actTable
	a := min(math.Abs(x), c.far)
	z := a / (a + c.center)
	a2 := float64(a * a)
	k := math.FMA(a2, c.halfPerLn2, c.round)
	r := math.FMA(-(k - c.round), c.twoLn2, a2) // -2r
	e := math.FMA(polynomial(c.gauss[:], r), r, c.one)
	e = math.Float64frombits(math.Float64bits(k)<<52 + math.Float64bits(e))
	t := float64(float64(z*polynomial(c.mills[:], z)) * e)
	if x > 0 {
		return x - t
	}
	return math.Copysign(t, x)
}

// ActGELUNear evaluates GELU as the kernels of amd64 for rows do where no number near
// by is greater than 3.5, the greatest |x| that it is for: x (1/2 + x P(x^2 - 6.125)).
// It takes two thirds of ActGELU's operations, and neither a quotient nor an exponential.
//
// P is the polynomial for (Phi(x) - 1/2)/x that interpolates it at 18 Chebyshev nodes of
// 0 <= x^2 <= 12.25. It misses less than 2^-50.6 of it (TestActPolynomials), its evaluation
// less than 2^-53 (TestActGELUNear), and |P'| < 0.067 times the rounding of x^2 - 6.125 is
// less than 2^-54: together 2^-50.27. By |x| <= 3.5 that becomes 2^-48.4, where the sum is
// Phi(x) > 2^-12.07, and so less than 2^-36.3 of that; it is rounded, and the product.
func ActGELUNear(x float64) float64 {
	c := &actTable
	p := polynomial(c.near.phi[:], math.FMA(x, x, c.near.middle))
	return float64(math.FMA(x, p, c.half) * x)
}

// ActErf evaluates erf x = 2 sqrt 2 x P(2 x^2 - 6.125) for |x| <= 2.47. P is ActGELUNear's polynomial
// for (Phi(u) - 1/2)/u with u = sqrt 2 x, which is at most 3.5 there. P is off by 2^-50.27 at most and greater than
// 1/8, so that its relative error is below 2^-47.2; three roundings come to it. Beyond 2.47 the result is huge, so that
// the guard leaves it open.
func ActErf(x float64) float64 {
	c := &actTable
	p := polynomial(c.near.phi[:], math.FMA(x+x, x, c.near.middle))
	y := float64(float64(p*x) * c.erfScale)
	return float64(y * (float64((max(math.Abs(x), c.erfFar)-c.erfFar)*c.huge) + 1))
}

// ActGELUTanh evaluates x/2 (1 + tanh(s/2)) = x/(1 + e^-s),
// s = sqrt(8/pi) (x + 0.044715 x^3), as the kernels do.
//
// s, cut off at 700, is good to 4 * 2^-53 |s| < 2^-41 and that is an error of
// e^-s relative to itself; with actExp's own, less than 2^-37.9 in all, of which
// the share e^-s/(1+e^-s) < 1 is left, and two roundings. Cut off at -700, the
// result is less than 2^-800.
func ActGELUTanh(x float64) float64 {
	c := &actTable
	s := float64(math.FMA(float64(x*x), c.beta, c.alpha) * x) // -s
	return x / (1 + actExp(max(min(s, c.steep), c.shallow)))
}

// ActSiLU evaluates x/(1 + e^-x) as the kernels do, with the error of actExp, of
// which the share e^-x/(1+e^-x) < 1 is left, and two roundings. An |x| greater
// than 700 is that in the exponential.
func ActSiLU(x float64) float64 {
	c := &actTable
	return x / (1 + actExp(-max(min(x, c.steep), c.shallow)))
}

// ActSigmoid evaluates 1/(1 + e^-x) as ActSiLU does x/(1 + e^-x), with its error. The numerator is 1 + 0 r, with the
// exponential's r, and so NaN where x is.
func ActSigmoid(x float64) float64 {
	if x != x {
		return x
	}
	c := &actTable
	return 1 / (1 + actExp(-max(min(x, c.steep), c.shallow)))
}

// ActTanh evaluates tanh x as the kernels do: -t/(t+2), t = e^(-2|x|) - 1.
//
// With actExp's k, r and q it is t = (2^k - 1) + 2^k r q. For k = 0 that is r q,
// good to 2^-36.9 of itself, and the condition of -t/(t+2) is 2/(t+2) < 1.18, as
// t > -0.3: 2^-36.6. For k = -1 the error is less than 2^-39.7 and |t| at least
// 0.29; for k < -1 even less for a greater t; the condition is at most 2. -2|x| is
// cut off at -700.
func ActTanh(x float64) float64 {
	c := &actTable
	scale, r, q := actExpParts(max(float64(math.Abs(x)*c.two), c.shallow))
	t := math.FMA(scale, float64(q*r), scale-1)
	return math.Copysign(t/(t-c.two), x)
}

// actExp returns e^v for |v| <= 700: 2^k (1 + r q), where k is the integer nearest
// to v/ln 2, r = v - k ln 2, and q the polynomial for (e^r - 1)/r that
// interpolates it at 8 Chebyshev nodes of |r| <= h = ln(2)/2.
//
// The k-th derivative of (e^r-1)/r is at most e^h/(k+1), so q is wrong by at
// most 2 (h/2)^8/8! * e^h/9 = 6.4e-12, less than 2^-36.9 of itself, and e^r by
// h times that, 2^-38.7, or 2^-38.2 of itself. k times the error of ln 2 is below
// 2^-45, and |r| <= h + 2^-43.
func actExp(v float64) float64 {
	scale, r, q := actExpParts(v)
	return float64(math.FMA(q, r, 1) * scale)
}

// ExpBelowErr bounds the relative error of what Act.ExpBelow makes of x >= top-700:
// actExp's 2^-38.2 and, as x-top is rounded, 2^-53 |x-top| < 2^-43.5. Where x is less, the
// result is less than 2^-1009, and so is e^(x-top).
const ExpBelowErr = 0x1p-38

// actExpParts returns 2^k, r and q of actExp.
func actExpParts(v float64) (scale, r, q float64) {
	c := &actTable
	k := math.FMA(v, c.perLn2, c.round)
	scale = math.Float64frombits(math.Float64bits(k)<<52 + math.Float64bits(1))
	r = math.FMA(-(k - c.round), c.ln2, v)
	return scale, r, polynomial(c.exp[:], r)
}

// polynomial evaluates by Horner's rule, c[0] the constant.
func polynomial(c []float64, u float64) float64 {
	p := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		p = math.FMA(p, u, c[i])
	}
	return p
}

// ActKernels returns the kernels of the backend that runs, nil if it has none.
func ActKernels() *Act { return current().act }
