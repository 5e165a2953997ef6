package spectral

import "github.com/refrun/refrun/internal/double"

// complexNum is a complex number with two words for each part.
type complexNum struct{ re, im double.Num }

func (a complexNum) plus(b complexNum) complexNum {
	return complexNum{a.re.Plus(b.re), a.im.Plus(b.im)}
}

func (a complexNum) minus(b complexNum) complexNum {
	return complexNum{a.re.Minus(b.re), a.im.Minus(b.im)}
}

func (a complexNum) times(b complexNum) complexNum {
	return complexNum{a.re.Times(b.re).Minus(a.im.Times(b.im)), a.re.Times(b.im).Plus(a.im.Times(b.re))}
}

// transformDD is transform with two words for each number, in stages of prime radix:
// after an odd number of primes the result is in y.
//
// In units of 2^-106 a sum is off by 3 of its size, and the parts of a product of a and w
// by 5 of |a.re w.re| and of |a.im w.im| and 3 of their sum, which is 8 sqrt(2) |a w| for
// the whole at most; a root of the table is off by sqrt(2). So a product counts less than
// 13, and a stage of radix p adds 3 (p-1) + 2*13 units of sum |x[j]|, as in line.
func (l *line) transformDD(x, y []complexNum, s int) {
	n := l.n
	for _, r := range l.primes {
		m, turn := n/r, l.n/n
		for p := range m {
			for q := range s {
				for k := range r {
					sum := x[q+s*p]
					for j := 1; j < r; j++ {
						switch at, w := x[q+s*(p+j*m)], j*k%r*(l.n/r); {
						case w == 0:
							sum = sum.plus(at)
						case r == 2:
							sum = sum.minus(at)
						default:
							sum = sum.plus(at.times(l.wide[w]))
						}
					}
					if p*k > 0 {
						sum = sum.times(l.wide[p*k*turn])
					}
					y[q+s*(r*p+k)] = sum
				}
			}
		}
		x, y = y, x
		n /= r
		s *= r
	}
}
