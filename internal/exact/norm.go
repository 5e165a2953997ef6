package exact

import (
	"encoding/binary"
	"math"
	"math/big"
)

// Moments are the count, the exact sum and the exact sum of squares of
// float32 numbers (or of a format that float32 contains). The zero value is
// that of no numbers.
type Moments struct {
	n            int
	sum, squares Sum
}

// Add adds the numbers of xs. The square of a float32 number is exact in
// float64, so nothing is lost.
func (m *Moments) Add(xs []float64) {
	m.n += len(xs)
	for _, x := range xs {
		m.sum.Add(x)
		m.squares.Add(x * x)
	}
}

// AddSums adds n numbers that others have added up: sums and squares are numbers
// that together make their exact sum and sum of squares. Sum.Add says what they
// may be.
func (m *Moments) AddSums(n int, sums, squares []float64) {
	m.n += n
	for _, s := range sums {
		m.sum.Add(s)
	}
	for _, s := range squares {
		m.squares.Add(s)
	}
}

// Merge adds the numbers that o has seen. No order of merging changes the
// result.
func (m *Moments) Merge(o *Moments) {
	m.n += o.n
	m.sum.merge(&o.sum)
	m.squares.merge(&o.squares)
}

// AboutZero returns the moments as if the mean were 0: their variance is the mean square.
// (They are those of the numbers and their negatives, taken together.)
func (m *Moments) AboutZero() Moments { return Moments{n: m.n, squares: m.squares} }

// merge adds t to s.
func (s *Sum) merge(t *Sum) {
	s.carry()
	o := *t
	o.carry()
	for i := range s.limb {
		s.limb[i] += o.limb[i]
	}
	s.pending = 1 // a limb now holds at most what one Add leaves on a carried one
	s.special += o.special
}

// Standard is what a normalisation subtracts and divides by: a mean mu and
// the V = variance + eps under the square root, both without error.
//
// They are kept as mu = sum/n and V = v/n^2, where sum and v are dyadic: then
// (x-mu)/sqrt(V) = (n x - sum)/sqrt(v) and no division is needed to compare it
// with anything.
type Standard struct {
	// MuHi is the float64 nearest to mu and MuLo the one nearest to mu-MuHi.
	// V is the float64 nearest to variance + eps. They are NaN (or infinite,
	// as IEEE arithmetic has it) if a number was not finite.
	MuHi, MuLo, V float64

	n, sum, v *big.Float // nil if a number was not finite
}

// wide returns a number with room for every sum and product formed here
// without rounding: all of them are multiples of 2^-6500 below 2^6500, even
// for parameters at the limits of float64. (A big.Float keeps only the words
// it needs.)
func wide() *big.Float { return new(big.Float).SetPrec(13000) }

// narrow returns a number of 128 bits.
func narrow() *big.Float { return new(big.Float).SetPrec(128) }

// wideOf returns a finite x as such a number.
func wideOf(x float64) *big.Float { return wide().SetFloat64(x) }

// wide returns a finite sum as such a number, made of the limbs from the first
// to the last that is not zero.
func (s *Sum) wide() *big.Float {
	t := *s
	t.carry()
	negative := t.limb[limbs-1] < 0
	if negative {
		for i := range t.limb {
			t.limb[i] = -t.limb[i]
		}
		t.carry()
	}
	first, end := 0, limbs
	for end > 0 && t.limb[end-1] == 0 {
		end--
	}
	if end == 0 {
		return wide()
	}
	for t.limb[first] == 0 {
		first++
	}
	var b [4 * limbs]byte
	for i := first; i < end; i++ {
		binary.BigEndian.PutUint32(b[4*(end-1-i):], uint32(t.limb[i]))
	}
	m := new(big.Int).SetBytes(b[:4*(end-first)])
	if negative {
		m.Neg(m)
	}
	f := wide().SetInt(m)
	return f.SetMantExp(f, 32*first+low)
}

// Standard returns the mean of the numbers and their biased variance
// sum((x-mu)^2)/n plus eps. With S the sum and Q the sum of squares,
//
//	mu = S/n,   V = (n Q - S^2 + n^2 eps)/n^2.
//
// eps must be finite. There must be at least one number.
func (m *Moments) Standard(eps float64) *Standard {
	if !m.squares.Finite() {
		return &Standard{MuHi: math.NaN(), V: math.NaN()}
	}
	n, sum := wideOf(float64(m.n)), m.sum.wide()
	v := m.squares.wide()
	v.Mul(v, n)
	v.Sub(v, wide().Mul(sum, sum))
	nn := wide().Mul(n, n)
	v.Add(v, wide().Mul(nn, wideOf(eps)))

	s := &Standard{n: n, sum: sum, v: v, V: nearest(v, nn), MuHi: nearest(sum, n)}
	s.MuLo = nearest(wide().Sub(sum, wide().Mul(n, wideOf(s.MuHi))), n)
	return s
}

// Variance returns the exact sum of (x-mu)^2 over the count less a correction, rounded to
// odd, or its root. The numbers must be finite, and more of them than the correction.
func (m *Moments) Variance(correction int, root bool) float64 {
	// (n Q - S^2)/(n (n - correction))
	n := big.NewInt(int64(m.n))
	v, exp := m.squares.Int()
	v.Mul(v, n)
	s, half := m.sum.Int()
	s.Mul(s, s)
	if d := exp - 2*half; d > 0 {
		v.Lsh(v, uint(d))
		exp = 2 * half
	} else {
		s.Lsh(s, uint(-d))
	}
	v.Sub(v, s)
	n.Mul(n, big.NewInt(int64(m.n-correction)))
	if root {
		return SqrtQuotient(v, exp, n)
	}
	return Quotient(v, exp, n)
}

// RootSquares returns the root of the exact sum of squares of finite numbers, rounded to odd.
func (m *Moments) RootSquares() float64 {
	q, exp := m.squares.Int()
	return SqrtQuotient(q, exp, big.NewInt(1))
}

// Running returns the standard of a given mean and variance.
func Running(mean, variance, eps float64) *Standard {
	s := &Standard{MuHi: mean, V: variance + eps}
	if finite(mean) && finite(variance) && finite(eps) {
		s.n, s.sum, s.v = wideOf(1), wideOf(mean), wide().Add(wideOf(variance), wideOf(eps))
	}
	return s
}

// nearest returns the float64 nearest to a/b.
func nearest(a, b *big.Float) float64 {
	v, _ := new(big.Float).SetPrec(53).Quo(a, b).Float64()
	return v
}

func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }

// Settle returns y = gamma (x-mu)/sqrt(V) + beta rounded to odd, NaN if V is
// not positive. An exact zero is +0. If an argument is not finite it returns
// what IEEE arithmetic makes of the formula.
//
// Where y lies relative to a number g is decided without error: the sign of
//
//	y - g = P/sqrt(v) - b,   P = gamma (n x - sum),   b = g - beta,
//
// is the sign of P - b sqrt(v): that of P or -b if these agree or one is zero,
// else P's times that of P^2 - b^2 v. So it is enough to approximate y by
// math/big, take the nearest float64 g, and ask on which side of g the exact y
// lies, or whether it is g.
func (s *Standard) Settle(x, gamma, beta float64) float64 {
	switch {
	case !(s.V > 0):
		return math.NaN()
	case s.v == nil || !finite(x) || !finite(gamma) || !finite(beta):
		d := (x - s.MuHi) - s.MuLo
		return float64(gamma*(d/math.Sqrt(s.V))) + beta
	}
	p := wide().Mul(s.n, wideOf(x))
	p.Sub(p, s.sum)
	p.Mul(p, wideOf(gamma))
	if p.Sign() == 0 {
		return beta + 0
	}
	pp := wide().Mul(p, p)
	// compare returns the sign of y - g.
	compare := func(g float64) int {
		b := wide().Sub(wideOf(g), wideOf(beta))
		switch sign := p.Sign(); {
		case b.Sign() != sign:
			return sign
		default:
			b.Mul(b, b)
			return sign * pp.Cmp(b.Mul(b, s.v))
		}
	}
	if compare(0) == 0 {
		return 0
	}
	// The exact value is g or between g and the next float64 on its side; one
	// of these two has an odd last bit. (g may be an infinity or a zero: the
	// next is the greatest or least number then, both odd.)
	g, _ := s.approximate(p, beta).Float64()
	side := compare(g)
	if side == 0 || math.Float64bits(g)&1 == 1 {
		return g
	}
	return math.Nextafter(g, math.Inf(side))
}

// approximate returns p/sqrt(v) + beta, which must not be zero, to a relative
// error below 2^-58.
//
// With precision k the quotient t carries two roundings, so it errs by less
// than 2^(2-k) |t|, and the sum y by that and 2^-k |y|. With |t| < 2^a and
// |y| >= 2^(b-1) the first is below 2^(3-k+a-b) |y|. Where beta cancels t the
// precision doubles until k-(a-b) >= 64, which happens as y is not zero.
func (s *Standard) approximate(p *big.Float, beta float64) *big.Float {
	for k := uint(128); ; k *= 2 {
		t := new(big.Float).SetPrec(k).Sqrt(s.v)
		t.Quo(p, t)
		y := new(big.Float).SetPrec(k).Add(t, big.NewFloat(beta))
		if y.Sign() != 0 && int(k)-(t.MantExp(nil)-y.MantExp(nil)) >= 64 {
			return y
		}
	}
}
