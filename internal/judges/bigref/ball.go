package bigref

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
)

// A Ball is a real number of which two float64 are known: it lies within Err of Hi + Lo.
// It is what a judge tries first, as it is a hundred times faster than big numbers: where
// everything in it rounds to one number, Round says so, and elsewhere the judge goes on with
// fractions or more bits.
//
// Every operation adds to Err what it left out, as it is: sums and products are taken with
// their remainders (Knuth's and Dekker's), and the remainders that two words have no room for
// count as errors. So a result that two words hold has the Err 0, and even ties are decided.
// Functions are series of such operations, with a bound for the terms that are left out, so
// that nothing is believed of the functions of package math, not even their last digits.
//
// What overflows becomes NaN or has an infinite Err, and is never decided. Below 2^-900
// products and their remainders may be rounded off by less than slack.
type Ball struct{ Hi, Lo, Err float64 }

const slack = 0x1p-1060

// Exactly is the ball that x fills.
func Exactly(x float64) Ball { return Ball{Hi: x} }

// up returns a bound of the sum e was meant to be: up to 16 terms, none negative, with up to
// three roundings each. They are off by 2^-48 of all, and by 16 times 2^-1075 where they
// underflow. What is 0 is exact: where a term may underflow to 0, slack is one too.
func up(e float64) float64 {
	if e == 0 {
		return 0
	}
	return e*(1+0x1p-40) + slack
}

// twoSum returns a+b without error.
func twoSum(a, b float64) (s, rest float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// twoProduct returns a*b, and how far it may be off: nothing, unless the product is so small
// that its remainder may be no float64.
func twoProduct(a, b float64) (p, rest, off float64) {
	p = float64(a * b)
	if a != 0 && b != 0 && !(math.Abs(p) > 0x1p-900) {
		off = slack
	}
	return p, math.FMA(a, b, -p), off
}

// Neg returns -a.
func (a Ball) Neg() Ball { return Ball{-a.Hi, -a.Lo, a.Err} }

// Add returns a+b. The remainders g and h have no room.
func (a Ball) Add(b Ball) Ball {
	s, e := twoSum(a.Hi, b.Hi)
	t, f := twoSum(a.Lo, b.Lo)
	e, g := twoSum(e, t)
	s, e = twoSum(s, e)
	e, h := twoSum(e, f)
	s, e = twoSum(s, e)
	return Ball{s, e, up(a.Err + b.Err + math.Abs(g) + math.Abs(h))}
}

// Sub returns a-b.
func (a Ball) Sub(b Ball) Ball { return a.Add(b.Neg()) }

// Mul returns a*b: with values A and B of which a and b are off by at most their errors,
// |AB - ab| <= |a| b.Err + |b| a.Err + a.Err b.Err.
func (a Ball) Mul(b Ball) Ball {
	p, e, off := twoProduct(a.Hi, b.Hi)
	if a.Lo == 0 && b.Lo == 0 && a.Err == 0 && b.Err == 0 {
		return Ball{p, e, off}
	}
	q, e1, off1 := twoProduct(a.Hi, b.Lo)
	r, e2, off2 := twoProduct(a.Lo, b.Hi)
	l, e3, off3 := twoProduct(a.Lo, b.Lo)
	e, g1 := twoSum(e, q)
	e, g2 := twoSum(e, r)
	e, g3 := twoSum(e, l)
	err := math.Abs(e1) + math.Abs(e2) + math.Abs(e3) + math.Abs(g1) + math.Abs(g2) + math.Abs(g3) + off +
		off1 + off2 + off3
	if a.Err != 0 || b.Err != 0 {
		sa, sb := math.Abs(a.Hi)+math.Abs(a.Lo), math.Abs(b.Hi)+math.Abs(b.Lo)
		err += float64(sa*b.Err) + float64((sb+b.Err)*a.Err) + slack
	}
	p, e = twoSum(p, e)
	return Ball{p, e, up(err)}
}

// Quo returns a/b. With the quotient q of the first words and r = a - q b, which is a ball of
// its own, it is q + r/b. A quotient of the first words for r/b is off by its rounding, by
// what else is in r over the least |b|, and, as |1/b - 1/b.Hi| is at most (|b.Lo| + b.Err)
// over |b.Hi| and the least |b|, by that times |r.Hi|.
func (a Ball) Quo(b Ball) Ball {
	q := a.Hi / b.Hi
	r := a.Sub(b.Mul(Exactly(q)))
	if r == (Ball{}) {
		return Exactly(q)
	}
	width := math.Abs(b.Lo) + b.Err
	least := math.Abs(b.Hi) - 2*width
	if !(least > 0) {
		return unknown
	}
	more := r.Hi / b.Hi
	err := math.Abs(more)*0x1p-53 + (math.Abs(r.Lo)+r.Err)/least + math.Abs(more)*width/least + slack
	q, more = twoSum(q, more)
	return Ball{q, more, up(err)}
}

// unknown is a ball that is never decided.
var unknown = Ball{Err: math.Inf(1)}

// Sqrt returns the square root of a number above 0, or exactly 0. With the root s of the
// first word and r = a - s^2, a ball of its own, it is s + r/(s + sqrt(a)). That r/(2s) is
// near it: it is off by at most r^2/(2 s^3), and by its rounding.
func (a Ball) Sqrt() Ball {
	if a == (Ball{}) {
		return a
	}
	if !(a.Err < a.Hi/4) {
		return unknown
	}
	s := math.Sqrt(a.Hi)
	r := a.Sub(Exactly(s).Mul(Exactly(s)))
	if r == (Ball{}) {
		return Exactly(s)
	}
	more := r.Hi / (2 * s)
	size := math.Abs(r.Hi) + math.Abs(r.Lo) + r.Err
	err := math.Abs(more)*0x1p-53 + (math.Abs(r.Lo)+r.Err)/s + size/s*(size/s)/s + slack
	s, more = twoSum(s, more)
	return Ball{s, more, up(err)}
}

// Of returns the ball of a fraction.
func Of(r *big.Rat) Ball {
	hi, exactly := r.Float64()
	if exactly || hi-hi != 0 {
		return Exactly(hi)
	}
	rest := new(big.Rat).Sub(r, Rat(hi))
	lo, exactly := rest.Float64()
	if exactly {
		return Ball{Hi: hi, Lo: lo}
	}
	return Ball{hi, lo, up(math.Abs(lo)*0x1p-52 + slack)}
}

// wordsOf returns the ball of a number of more than 120 bits whose last bits may be wrong.
func wordsOf(x *big.Float) Ball {
	hi, _ := x.Float64()
	lo, _ := new(big.Float).Sub(x, new(big.Float).SetFloat64(hi)).Float64()
	return Ball{hi, lo, up(math.Abs(hi)*0x1p-105 + slack)}
}

var (
	ln2       = wordsOf(Log(intF(200, 2), 200))
	factorial = func() (c [10]Ball) { // one over
		n := int64(1)
		for i := range c {
			n *= max(int64(i), 1)
			c[i] = Of(big.NewRat(1, n))
		}
		return c
	}()
)

// Exp returns e^a. With a whole number k and r = (a - k ln 2)/2^8, it is 2^k times the 2^8th
// power of e^r, for any k; this one leaves |r| < 2^-9, so that of Taylor's series for e^r - 1
// the terms from r^10/10! on come to less than |r|^10 2^-21. That difference is squared: of
// t = e^r - 1 it makes 2t + t^2.
func (a Ball) Exp() Ball {
	switch {
	case a == (Ball{}):
		return Exactly(1)
	case a.Hi < -700 && a.Err < 1:
		return Ball{Err: 0x1p-1000} // e^-699 is less
	case !(math.Abs(a.Hi) <= 700 && a.Err < 1):
		return unknown
	}
	k := math.Round(a.Hi / math.Ln2)
	r := a.Sub(ln2.Mul(Exactly(k))).Mul(Exactly(0x1p-8))
	size := math.Abs(r.Hi) + r.Err
	if !(size < 0x1p-9) {
		return unknown
	}
	t := factorial[9]
	for n := 8; n > 0; n-- {
		t = t.Mul(r).Add(factorial[n])
	}
	t = t.Mul(r)
	s2 := size * size
	t.Err = up(t.Err + s2*s2*s2*s2*s2*0x1p-20 + slack)
	for range 8 {
		t = t.Mul(t.Add(Exactly(2)))
	}
	t = t.Add(Exactly(1))
	by := math.Ldexp(1, int(k))
	return t.Mul(Exactly(by))
}

// Log returns the natural logarithm of a number above 0. For any y it is y + log(1+t) with
// t = a e^-y - 1; with one that leaves |t| < 2^-20 the terms of log(1+t) after t - t^2/2 come
// to less than |t|^3.
func (a Ball) Log() Ball {
	if !(a.Hi > 0) {
		return unknown
	}
	y := Exactly(math.Log(a.Hi))
	t := a.Mul(y.Neg().Exp()).Sub(Exactly(1))
	if t == (Ball{}) {
		return y
	}
	size := math.Abs(t.Hi) + math.Abs(t.Lo) + t.Err
	if !(size < 0x1p-20) {
		return unknown
	}
	u := t.Sub(t.Mul(t).Mul(Exactly(0.5)))
	u.Err = up(u.Err + size*size*size + slack)
	return y.Add(u)
}

// Round returns the number of format f that all of the ball rounds to, ties to even, if there
// is one; float64 is never decided. Exact zeros are +0.
//
// With n numbers of f from 0 to v, the greatest not above Hi, and ulp above it, what decides
// is the middle of v and the next: what lies above goes to the next, and below to v. That
// holds for all numbers from v - ulp/4 to the next + ulp/4, as the middles beyond are as far.
func (a Ball) Round(f fp16.Format) (float64, bool) {
	if f == fp16.Float64 || !(math.Abs(a.Hi) < 0x1p1000) {
		return 0, false
	}
	if a.Hi < 0 {
		y, ok := a.Neg().Round(f)
		return -y, ok
	}
	if a.Hi == 0 {
		return 0, a.Lo == 0 && a.Err == 0
	}
	g := gridOf(f)
	_, e := math.Frexp(a.Hi) // 2^(e-1) <= Hi < 2^e
	ulp := math.Ldexp(1, max(e-1, g.emin)-(g.p-1))
	n := math.Floor(a.Hi / ulp)
	width := math.Abs(a.Lo) + a.Err
	if !(width < ulp/8) || n == 0 && !(a.Hi > 2*width) {
		return 0, false
	}
	above, left := twoSum(a.Hi, -(n+0.5)*ulp)
	above, more := twoSum(above, a.Lo)
	width = up(math.Abs(left) + math.Abs(more) + a.Err)
	switch {
	case above > width, above == 0 && width == 0 && math.Mod(n, 2) == 1:
		n++
	case above < -width, above == 0 && width == 0:
	default:
		return 0, false
	}
	if y := n * ulp; y < math.Ldexp(1, g.emax+1) {
		return y, true
	}
	return math.Inf(1), true
}

// Near returns what a number rounds to of which y is off by at most that part of y, if that is
// one number. A y that under- or overflows is a zero or infinity of its sign in all formats
// but float64. Package math states errors of less than a unit in the last place, 2^-52, of
// its functions: 2^-36 is far above those of some of them one after the other, where no
// difference cancels.
func Near(y, part float64, f fp16.Format) (float64, bool) {
	switch size := math.Abs(y); {
	case f == fp16.Float64:
		return 0, false
	case size < 0x1p-1000:
		return math.Copysign(0, y), true
	case size > 0x1p1000:
		return math.Copysign(math.Inf(1), y), true
	}
	return Ball{Hi: y, Err: up(math.Abs(y) * part)}.Round(f)
}

// Or returns what the ball rounds to, or what a slower judge says where it does not tell.
func (a Ball) Or(f fp16.Format, slower func() float64) float64 {
	if y, ok := a.Round(f); ok {
		return y
	}
	return slower()
}
