package spectral

import (
	"math"

	"github.com/refrun/refrun/internal/exact/double"
)

// complexNum is a complex number with two words for each part.
//
// Its operations err by some units of 2^-106 of the magnitudes of what they add, and not
// of the result, which may have cancelled; so much is enough here, and faster than the
// operations of double. Let u = 2^-53, and S = |a| + |b| for a sum, |a.re w.re| +
// |a.im w.im| for the real part of a product. First words are added without error, and
// the second one of the result is formed as lo of size c u S with an error of e u^2 S.
// The last two lines make the first word the rounded sum of both. They err only if lo is
// more than the first word, and then by less than 1.01 u of lo. In a sum c = 2 and e = 3,
// for the roundings of a.Lo + b.Lo, and of what is added to it. In a product c = 4 and
// e = 14: 1 for a.Lo w.Lo, which is left out, 3 for the two roundings of each line of
// cross, and 2, 1, 3 and 4 for those of the additions. That is 5.1 and 18.1 in all, and
// for both parts of a product, with the error of w, which is 1 for each part, less than
// sqrt(2) 19.1. Where a second word is more than u of the first one, since that has
// cancelled, the excess is of the size of the errors, and its part in later errors of
// higher order.
type complexNum struct{ re, im double.Num }

const (
	plusDD  = 6
	timesDD = 28
)

func plus(a, b double.Num) double.Num {
	s := a.Hi + b.Hi
	t := s - a.Hi
	lo := ((a.Hi - (s - t)) + (b.Hi - t)) + (a.Lo + b.Lo)
	h := s + lo
	return double.Num{Hi: h, Lo: lo - (h - s)}
}

// dot returns a c + b d.
func dot(a, c, b, d double.Num) double.Num {
	p, q := float64(a.Hi*c.Hi), float64(b.Hi*d.Hi)
	pl, ql := math.FMA(a.Hi, c.Hi, -p), math.FMA(b.Hi, d.Hi, -q)
	cross := math.FMA(a.Hi, c.Lo, float64(a.Lo*c.Hi)) + math.FMA(b.Hi, d.Lo, float64(b.Lo*d.Hi))
	s := p + q
	t := s - p
	lo := ((p - (s - t)) + (q - t)) + ((pl + ql) + cross)
	h := s + lo
	return double.Num{Hi: h, Lo: lo - (h - s)}
}

func (a *complexNum) times(w *complexNum) complexNum {
	return complexNum{dot(a.re, w.re, a.im, w.im.Neg()), dot(a.re, w.im, a.im, w.re)}
}

// transformDD is transform with two words for each number, in stages of prime radix:
// after an odd number of primes the result is in y.
//
// A stage of radix p adds plusDD (p-1) + 2 timesDD units of 2^-106 of sum |x[j]|, and one
// of radix 2, of which one product is exact, one product less.
func (l *line) transformDD(x, y []complexNum, s int) {
	n := l.n
	for _, r := range l.primes {
		m, turn := n/r, l.n/n
		for p := range m {
			if r == 2 {
				l.twoDD(x[s*p:s*(p+1)], x[s*(p+m):s*(p+m+1)], y[2*s*p:2*s*(p+1)], p*turn)
				continue
			}
			for q := range s {
				for k := range r {
					sum := x[q+s*p]
					for j := 1; j < r; j++ {
						at := x[q+s*(p+j*m)].times(&l.wide[j*k%r*(l.n/r)])
						sum = complexNum{plus(sum.re, at.re), plus(sum.im, at.im)}
					}
					y[q+s*(r*p+k)] = sum.times(&l.wide[p*k*turn])
				}
			}
		}
		x, y = y, x
		n /= r
		s *= r
	}
}

// twoDD sets y to the sums of a and b, and then to their differences times a root.
func (l *line) twoDD(a, b, y []complexNum, root int) {
	w := &l.wide[root]
	sums, differences := y[:len(a)], y[len(a):]
	for q := range a {
		a, b := &a[q], &b[q]
		sums[q] = complexNum{plus(a.re, b.re), plus(a.im, b.im)}
		d := complexNum{plus(a.re, b.re.Neg()), plus(a.im, b.im.Neg())}
		if root > 0 {
			d = d.times(w)
		}
		differences[q] = d
	}
}
