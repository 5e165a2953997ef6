package exact

import (
	"math"
	"math/big"
)

// Cosines is a sum of cosines of rational parts of a turn,
//
//	s = sum over m of c[m] cos(2 pi m/n),
//
// with exact coefficients, as an element of a discrete Fourier transform is one.
//
// Such a sum may be rational, and then so near to a rounding's border as to lie on it.
// It is a number of the field of the n-th roots of unity, whose elements have one form
// only in a basis. So s is rational if and only if its coordinates are those of 1 times a
// number, which is its value. Any other sum is found by raising the precision until its
// rounding is certain, which ends because it is no float64.
type Cosines struct {
	n     int
	c     []*big.Int // in units of 2^exp, of m below n/4, to which all others fold
	exp   int
	roots map[int][]*big.Int // see root
}

// NewCosines returns an empty sum whose angles are multiples of 1/turn of a turn.
func NewCosines(turn int) *Cosines {
	n := turn
	for n%8 != 0 { // the square root of 2 needs an eighth of a turn
		n *= 2
	}
	s := &Cosines{n: n, c: make([]*big.Int, n/4), roots: map[int][]*big.Int{}}
	for m := range s.c {
		s.c[m] = new(big.Int)
	}
	return s
}

// N returns in how many parts the sum divides a turn, a multiple of 8.
func (s *Cosines) N() int { return s.n }

// Set makes it the sum of c[m] cos(2 pi m/N) for m below N.
func (s *Cosines) Set(c []Sum) {
	s.exp = low
	for m := range s.c {
		s.c[m].SetInt64(0)
	}
	for m := range c {
		if v, _ := c[m].Int(); v.Sign() != 0 {
			switch at, sign := s.fold(m); sign {
			case 1:
				s.c[at].Add(s.c[at], v)
			case -1:
				s.c[at].Sub(s.c[at], v)
			}
		}
	}
}

// SetInt makes it the sum of c[m] 2^exp cos(2 pi m/N) for m below N. It changes c, whose
// numbers' magnitudes must add up to less than 2^63.
func (s *Cosines) SetInt(c []int64, exp int) {
	s.exp = exp
	for m := s.n / 4; m < s.n; m++ {
		at, sign := s.fold(m)
		c[at] += int64(sign) * c[m]
	}
	for m := range s.c {
		s.c[m].SetInt64(c[m])
	}
}

// fold returns an angle below a quarter whose cosine, times sign, is that of m; any and 0
// where it is 0.
func (s *Cosines) fold(m int) (at, sign int) {
	sign = 1
	if m > s.n/2 {
		m = s.n - m
	}
	if m > s.n/4 {
		m, sign = s.n/2-m, -1
	}
	if m == s.n/4 {
		return 0, 0
	}
	return m, sign
}

// Odd returns the sum divided by count, or by its square root, rounded to odd; +0 for
// an exact zero. Of the prime factors of count none may be foreign to N.
//
// What is below float64's range may be returned as a zero or subnormal number of its
// sign: every format rounds it to that zero.
func (s *Cosines) Odd(count int, root bool) float64 {
	c, size := s.c, new(big.Int)
	for m := range c {
		size.Add(size, new(big.Int).Abs(c[m]))
	}
	if size.Sign() == 0 {
		return 0
	}
	divided := func(v *big.Int, exp int) float64 {
		if !root {
			return Quotient(v, exp, big.NewInt(int64(count)))
		}
		y := SqrtQuotient(new(big.Int).Mul(v, v), 2*exp, big.NewInt(int64(count)))
		return math.Copysign(y, float64(v.Sign()))
	}
	for w := uint(128); ; w *= 2 {
		// Each cosine is off by one unit at most.
		v, p := new(big.Int), new(big.Int)
		for m, cos := range quarter(s.n, w) {
			if m < len(c) && c[m].Sign() != 0 {
				v.Add(v, p.Mul(c[m], cos))
			}
		}
		least, most := new(big.Int).Sub(v, size), new(big.Int).Add(v, size)
		if least.Sign() == most.Sign() {
			if y := divided(least, s.exp-int(w)); y == divided(most, s.exp-int(w)) {
				return y
			}
		}
		if w > 128 {
			continue
		}
		if num, den, ok := s.rational(count, root); ok {
			return Quotient(num, s.exp, den)
		}
	}
}

// rational returns the value that Odd rounds as num 2^exp/den, if it is rational: if s
// is a rational multiple of the square root of d, where count = k^2 d and d has no
// squares in it; of 1, if there is no root. That root lies in the same field.
func (s *Cosines) rational(count int, root bool) (num, den *big.Int, ok bool) {
	k, d := count, 1
	if root {
		k = 1
		for _, p := range primes(count) {
			if d%p == 0 {
				d, k = d/p, k*p
			} else {
				d *= p
			}
		}
	}
	// 2 s is the sum of c[m] (z^m + z^-m), z the n-th root of unity.
	v := make([]*big.Int, s.n)
	for i := range v {
		v[i] = new(big.Int)
	}
	for m, x := range s.c {
		v[m].Add(v[m], x)
		v[(s.n-m)%s.n].Add(v[(s.n-m)%s.n], x)
	}
	coordinates(v)
	of := s.root(d)
	one := 0 // a place where the root's coordinate is not 0
	for of[one].Sign() == 0 {
		one++
	}
	l, r := new(big.Int), new(big.Int)
	for i := range v {
		if l.Mul(v[i], of[one]).Cmp(r.Mul(v[one], of[i])) != 0 {
			return nil, nil, false
		}
	}
	num, den = v[one], l.Mul(of[one], big.NewInt(2*int64(k)))
	if den.Sign() < 0 {
		num.Neg(num)
		den.Neg(den)
	}
	return num, den, true
}

// coordinates writes a sum of v[m] z^m, z the n-th root of unity, n = len(v), in a basis
// of the field. For each prime p of n, p^e the greatest power, and each m, the p numbers
// z^(m + t n/p) add up to 0; so the one of them whose exponent modulo p^e is
// (p-1) p^(e-1) or more is less the sum of the others. That changes exponents modulo p^e
// only, so that what one prime has cleared another leaves clear; and as many powers
// remain as the field's degree says, the product of the p^e - p^(e-1), so they are a
// basis.
func coordinates(v []*big.Int) {
	n := len(v)
	last := 0
	for _, p := range primes(n) {
		if p == last {
			continue
		}
		last = p
		q := p
		for n%(q*p) == 0 {
			q *= p
		}
		for m := range v {
			if m%q < q-q/p || v[m].Sign() == 0 {
				continue
			}
			for t := 1; t < p; t++ {
				to := v[(m+t*(n/p))%n]
				to.Sub(to, v[m])
			}
			v[m].SetInt64(0)
		}
	}
}

// root returns the coordinates of the square root of d, a product of different primes of
// n: that of 2 is z^(n/8) + z^(-n/8), and of any other p Gauss's sum of (a/p) z^(a n/p),
// divided by i where p is 3 modulo 4.
func (s *Cosines) root(d int) []*big.Int {
	if v, ok := s.roots[d]; ok {
		return v
	}
	n := s.n
	of := make([]int64, n)
	of[0] = 1
	for _, p := range primes(d) {
		if n%p != 0 {
			panic("exact: count with a prime factor that the angles have not")
		}
		next := make([]int64, n)
		times := func(shift int, by int64) {
			for m, x := range of {
				next[(m+shift)%n] += by * x
			}
		}
		turn := 0
		if p%4 == 3 {
			turn = n - n/4
		}
		square := make([]bool, p)
		for a := 1; a < p; a++ {
			square[a*a%p] = true
		}
		for a := 1; a < p && p > 2; a++ {
			if square[a] {
				times((a*(n/p)+turn)%n, 1)
			} else {
				times((a*(n/p)+turn)%n, -1)
			}
		}
		if p == 2 {
			times(n/8, 1)
			times(n-n/8, 1)
		}
		of = next
	}
	v := make([]*big.Int, n)
	for m, x := range of {
		v[m] = big.NewInt(x)
	}
	coordinates(v)
	s.roots[d] = v
	return v
}

// primes returns the prime factors of n, ascending, each as often as it divides n.
func primes(n int) []int {
	var ps []int
	for p := 2; p*p <= n; p++ {
		for n%p == 0 {
			ps = append(ps, p)
			n /= p
		}
	}
	if n > 1 {
		ps = append(ps, n)
	}
	return ps
}
