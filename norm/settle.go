package norm

import (
	"math"
	"sync"

	"github.com/refrun/refrun/internal/exact"
)

// Image is where the rows of 8 channels come from: see package conv.
type Image interface {
	// Row returns the pixels of line y of a block of 8 channels of sample n,
	// [W][8].
	Row(n, b, y int) []float32
}

// Exact is memory for the exact statistics of groups, which are formed where a
// guard leaves an element open. Operations that do not run at once may share
// it.
type Exact struct{ groups []group }

// Bytes returns its memory.
func (e *Exact) Bytes() int64 { return 1024 * int64(len(e.groups)) } // of a group: less

// group is the exact statistics of one sample's group of channels.
type group struct {
	mu      sync.Mutex
	known   bool
	moments exact.Moments
	lineOf  precise
	std     *exact.Standard // nil until needed
}

// numbers is memory for numbers of one channel.
var numbers = sync.Pool{New: func() any { return new([block]float64) }}

// settle returns the line of channel c at x, whose evaluation was left open: in
// double-double arithmetic, which decides all but some of 2^30, or else exactly.
func (r *Rows) settle(x float64, img Image, n, c int) float64 {
	gamma, beta := at(r.gamma, c, 1), at(r.beta, c, 0)
	if r.running != nil {
		return newLine(r.running[c], gamma, beta).at(x, r.format)
	}
	k := c / r.perGroup
	g := &r.exact.groups[n*r.groups+k]
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known {
		g.moments, g.std = exact.Moments{}, nil
		if r.sumsExact() {
			r.exactTotal(g, n)
		} else {
			buf := numbers.Get().(*[block]float64)
			for c := k * r.perGroup; c < (k+1)*r.perGroup; c++ {
				r.addChannel(&g.moments, img, n, c, buf)
			}
			numbers.Put(buf)
		}
		g.lineOf = newPrecise(&g.moments, r.eps)
		g.known = true
	}
	if y, ok := g.lineOf.at(x, gamma, beta); ok {
		return r.format.Round(y)
	}
	if g.std == nil {
		g.std = g.moments.Standard(r.eps)
	}
	return newLine(g.std, gamma, beta).at(x, r.format)
}

// addChannel adds the numbers of a channel.
func (r *Rows) addChannel(m *exact.Moments, img Image, n, c int, buf *[block]float64) {
	k := 0
	for y := range r.h {
		row := img.Row(n, c/8, y)
		for i := c % 8; i < len(row); i += 8 {
			buf[k] = float64(row[i])
			if k++; k == block {
				addMoments(m, buf[:])
				k = 0
			}
		}
	}
	addMoments(m, buf[:k])
}

// precise is what a line needs in double-double arithmetic: with M numbers, S
// their sum and Q their sum of squares, and A = M Q - S^2 + M^2 eps, it is
// gamma (M x - S)/sqrt(A) + beta.
type precise struct {
	ok      bool
	moments *exact.Moments
	n       float64
	sum     double
	root    double  // sqrt(A)
	err     float64 // bound of the relative error of root
}

// newPrecise returns the line of those moments. In units of u^2 = 2^-106, S and Q
// are off by 4 of themselves, M Q by 4+2, S^2 <= M Q by 8+5, M^2 eps by 2 (M^2 is
// exact), the difference by 3 M Q more and the sum by 3: A is off by less than
// 32 (M Q + M^2 eps), and its root by half of that of A, and 8.
func newPrecise(m *exact.Moments, eps float64) precise {
	n, s, q, ok := m.Pairs()
	if !ok || n >= 1<<29 {
		return precise{}
	}
	sum := quickSum(s[0], s[1])
	nq := quickSum(q[0], q[1]).scaled(n)
	e := twoProduct(n, n).scaled(eps)
	a := nq.minus(sum.times(sum)).plus(e)
	p := precise{moments: m, n: n, sum: sum, err: float64(0x1p-101*((nq.hi+e.hi)/a.hi)) + 0x1p-102}
	if p.ok = a.hi > 0 && p.err < 0x1p-40; p.ok {
		p.root = a.root()
	}
	return p
}

// at returns the line at x rounded to odd, or false if that is not certain.
//
// M x is exact as a double; P = M x - S is off by 3|P| + 4|S| units, gamma P by 2
// more, the quotient t by 15 and the sum y by 3. Terms of higher order, and gamma
// and beta, which are float32 numbers or so small or large that the caller does
// not come here, leave room in the bound.
func (p *precise) at(x, gamma, beta float64) (float64, bool) {
	if !p.ok || !moderate(gamma) || !(math.Abs(beta) < 0x1p200) {
		return 0, false
	}
	d := twoProduct(p.n, x).minus(p.sum)
	if math.Abs(d.hi) <= 0x1p-90*math.Abs(p.sum.hi) {
		if p.moments.IsMean(x) {
			return beta + 0, true
		}
		return 0, false
	}
	t := d.scaled(gamma).over(p.root)
	y := t.plus(double{beta, 0})
	err := float64((p.err+0x1p-100)*math.Abs(t.hi)) + float64(0x1p-103*math.Abs(gamma*(p.sum.hi/p.root.hi))) + float64(0x1p-104*math.Abs(y.hi))
	if !(math.Abs(y.lo) > 1.01*err) || !(math.Abs(y.hi) > 0x1p-400) {
		return 0, false
	}
	// The exact value is between y.hi and the next number on the side of y.lo.
	if math.Float64bits(y.hi)&1 == 1 {
		return y.hi, true
	}
	return math.Nextafter(y.hi, math.Inf(int(math.Copysign(1, y.lo)))), true
}

// moderate reports whether a factor keeps products of what occurs here normal.
func moderate(x float64) bool {
	a := math.Abs(x)
	return a >= 0x1p-200 && a < 0x1p200
}
