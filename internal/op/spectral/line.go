package spectral

import (
	"math"
	"sync"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/double"
)

// u is the relative error of one float64 operation.
const u = 0x1p-53

// line is the transform of n numbers, X[k] = sum over j of x[j] w^(jk) with
// w = e^(-2 pi i/n), by Stockham's algorithm with decimation in frequency.
//
// n is the product of radices r: as many fours as go, then a two, then odd primes,
// ascending. A stage of radix r takes lines of n' = r m numbers, w' = e^(-2 pi i/n'), to
// r lines of m numbers each,
//
//	y_k[p] = w'^(pk) sum over j < r of x[p + j m] e^(-2 pi i jk/r)   for k < r, p < m
//
// line k having what is to become X[k], X[k+r], ... Interleaved by k they stand in the
// order of the next stage, and after the last one in that of X. The sum is, in order:
//
//	r = 2   x0 + x1, x0 - x1
//	r = 4   (x0 + x2) + (x1 + x3), (x0 - x2) - i (x1 - x3),
//	        (x0 + x2) - (x1 + x3), (x0 - x2) + i (x1 - x3)
//	else    x0, then one product after the other, j ascending
//
// and a product of a and w is (a.re w.re - a.im w.im, a.re w.im + a.im w.re). The one
// with w'^(pk) is left out in the last stage and for k = 0.
//
// Error. Each X[k] is a sum over j of x[j] times the roots on the only path from j to k.
// A complex sum is off by u of its size; a complex product by 2 sqrt(2) u of its size
// (N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.5), and
// the table's root, each part within 2^-54, by u/sqrt(2) more: together less than
// 3.54 u. So in a stage every x[j] on its way gains at most, in units of u,
//
//	1 for r = 2, 2 for r = 4, r - 1 + 3.54 else; 3.54 more but in the last stage,
//
// and X[k] is off by at most the sum of these times sum |x[j]|, but for terms of higher
// order. It is the same in several dimensions: the units of all axes add.
//
// Time grows with n times the sum of the radices, so with the square of a large prime.
type line struct {
	n        int
	radices  []int
	cos, sin []float64 // of w^k: cos[k] + i sin[k]
	units    float64   // the error above, in units of u

	// The same with two words, and radices that are primes; see double.go.
	primes  []int
	wide    []complexNum
	unitsDD float64
}

// times is a product's error.
const times = 3.54

// lines holds the line of each length that was asked for, 48 bytes for each of its
// numbers.
var lines sync.Map

func newLine(n int) *line {
	if l, ok := lines.Load(n); ok {
		return l.(*line)
	}
	l := &line{n: n, cos: make([]float64, n), sin: make([]float64, n), wide: make([]complexNum, n)}
	for rest, p := n, 2; rest > 1; {
		switch {
		case rest%4 == 0:
			l.radices, l.primes = append(l.radices, 4), append(l.primes, 2, 2)
			rest /= 4
		case rest%p == 0:
			l.radices, l.primes = append(l.radices, p), append(l.primes, p)
			rest /= p
		case p > rest/p:
			p = rest
		default:
			p++
		}
	}
	for i, r := range l.radices {
		switch r {
		case 2:
			l.units++
		case 4:
			l.units += 2
		default:
			l.units += float64(r-1) + times
		}
		if i < len(l.radices)-1 {
			l.units += times
		}
	}
	for _, p := range l.primes {
		l.unitsDD += float64(plusDD*(p-1) + timesDD)
		if p > 2 {
			l.unitsDD += timesDD
		}
	}
	quarters := 4 // the circle has 4n marks, or as few as give quarters
	for n*quarters/2%4 == 0 && quarters > 1 {
		quarters /= 2
	}
	c := exact.Circle(n * quarters)
	for k := range n {
		m := k * quarters
		l.wide[k] = complexNum{c[m], c[(m+len(c)/4)%len(c)]} // cos(a + 90 degrees) = -sin a
		l.cos[k], l.sin[k] = l.wide[k].re.Hi, l.wide[k].im.Hi
	}
	made, _ := lines.LoadOrStore(n, l)
	return made.(*line)
}

// plane is complex numbers in two slices.
type plane struct{ re, im []float64 }

func newPlane(n int) plane {
	b := make([]float64, 2*n)
	return plane{b[:n:n], b[n:]}
}

func (x plane) part(lo, hi int) plane { return plane{x.re[lo:hi:hi], x.im[lo:hi:hi]} }

// transform transforms s interleaved lines: number j of line q is at q+s*j. It goes to
// and fro between x and y; after an odd number of radices the result is in y.
func (l *line) transform(x, y plane, s int) {
	n := l.n
	for _, r := range l.radices {
		switch m := n / r; r {
		case 2:
			l.two(x, y, m, s)
		case 4:
			l.four(x, y, m, s)
		default:
			l.odd(x, y, r, m, s)
		}
		x, y = y, x
		n /= r
		s *= r
	}
}

// two is a stage of radix 2.
func (l *line) two(x, y plane, m, s int) {
	turn := l.n / (2 * m)
	xr, xi, yr, yi := x.re, x.im, y.re, y.im
	for p := range m {
		wr, wi := l.cos[p*turn], l.sin[p*turn]
		for q := range s {
			i, to := q+s*p, q+2*s*p
			ar, ai := xr[i]-xr[i+m*s], xi[i]-xi[i+m*s]
			if m > 1 {
				ar, ai = float64(ar*wr)-float64(ai*wi), float64(ar*wi)+float64(ai*wr)
			}
			yr[to], yi[to] = xr[i]+xr[i+m*s], xi[i]+xi[i+m*s]
			yr[to+s], yi[to+s] = ar, ai
		}
	}
}

// four is a stage of radix 4.
func (l *line) four(x, y plane, m, s int) {
	turn := l.n / (4 * m)
	xr, xi, yr, yi := x.re, x.im, y.re, y.im
	for p := range m {
		w1r, w1i := l.cos[p*turn], l.sin[p*turn]
		w2r, w2i := l.cos[2*p*turn], l.sin[2*p*turn]
		w3r, w3i := l.cos[3*p*turn], l.sin[3*p*turn]
		for q := range s {
			i, to := q+s*p, q+4*s*p
			ar, ai := xr[i]+xr[i+2*m*s], xi[i]+xi[i+2*m*s]
			br, bi := xr[i]-xr[i+2*m*s], xi[i]-xi[i+2*m*s]
			cr, ci := xr[i+m*s]+xr[i+3*m*s], xi[i+m*s]+xi[i+3*m*s]
			dr, di := xr[i+m*s]-xr[i+3*m*s], xi[i+m*s]-xi[i+3*m*s]
			er, ei := br+di, bi-dr
			fr, fi := ar-cr, ai-ci
			gr, gi := br-di, bi+dr
			if m > 1 {
				er, ei = float64(er*w1r)-float64(ei*w1i), float64(er*w1i)+float64(ei*w1r)
				fr, fi = float64(fr*w2r)-float64(fi*w2i), float64(fr*w2i)+float64(fi*w2r)
				gr, gi = float64(gr*w3r)-float64(gi*w3i), float64(gr*w3i)+float64(gi*w3r)
			}
			yr[to], yi[to] = ar+cr, ai+ci
			yr[to+s], yi[to+s] = er, ei
			yr[to+2*s], yi[to+2*s] = fr, fi
			yr[to+3*s], yi[to+3*s] = gr, gi
		}
	}
}

// odd is a stage of an odd radix.
func (l *line) odd(x, y plane, r, m, s int) {
	turn := l.n / (r * m)
	for p := range m {
		for k := range r {
			to := y.part(s*(r*p+k), s*(r*p+k+1))
			copy(to.re, x.re[s*p:])
			copy(to.im, x.im[s*p:])
			for j := 1; j < r; j++ {
				from := x.part(s*(p+j*m), s*(p+j*m+1))
				w := j * k % r * (l.n / r)
				c, d := l.cos[w], l.sin[w]
				for q := range s {
					a, b := from.re[q], from.im[q]
					to.re[q] += float64(a*c) - float64(b*d)
					to.im[q] += float64(a*d) + float64(b*c)
				}
			}
			if k == 0 || m == 1 {
				continue
			}
			c, d := l.cos[p*k*turn], l.sin[p*k*turn]
			for q := range s {
				a, b := to.re[q], to.im[q]
				to.re[q], to.im[q] = float64(a*c)-float64(b*d), float64(a*d)+float64(b*c)
			}
		}
	}
}

// scale is a division by count or by its square root.
type scale struct {
	count int
	root  bool
	div   float64
	wide  double.Num
}

func newScale(count int, root bool) scale {
	s := scale{count, root, float64(count), double.Num{Hi: float64(count)}}
	if root {
		s.div, s.wide = math.Sqrt(float64(count)), s.wide.Root()
	}
	return s
}
