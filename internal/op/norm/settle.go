package norm

import (
	"math"
	"sync"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/double"
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
	spread  double.Num      // see exact.Moments.Spread
	precise bool            // spread is known
	std     *exact.Standard // nil until needed
}

// settle returns the line of channel c at x, whose evaluation was left open: in
// double-double arithmetic, which decides nearly all, or else exactly. w is memory.
func (r *Rows) settle(x float64, img Image, n, c int, w *space) float64 {
	gamma, beta := at(r.gamma, c, 1), at(r.beta, c, 0)
	if r.running != nil {
		std := r.running[c]
		if d, a := double.Sum(x, -std.MuHi), r.spreads[c]; moderate(a.Hi) {
			if y, ok := settleLine(d, a, gamma, beta); ok {
				return r.format.Round(y)
			}
		}
		return newLine(std, gamma, beta).at(x, r.format)
	}
	k := c / r.perGroup
	g := &r.exact.groups[n*r.groups+k]
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known {
		g.moments = exact.Moments{}
		for c := k * r.perGroup; c < (k+1)*r.perGroup; c++ {
			r.addChannel(&g.moments, img, n, c, w)
		}
		g.know(r.eps)
	}
	if g.precise {
		if y, ok := settleLine(g.moments.Above(x), g.spread, gamma, beta); ok {
			return r.format.Round(y)
		}
	}
	if g.std == nil {
		g.std = g.moments.Standard(r.eps)
	}
	return newLine(g.std, gamma, beta).at(x, r.format)
}

// know is told that the moments are complete.
func (g *group) know(eps float64) {
	g.spread, g.precise = g.moments.Spread(eps)
	g.known, g.std = true, nil
}

// addChannel adds the numbers of a channel.
func (r *Rows) addChannel(m *exact.Moments, img Image, n, c int, w *space) {
	k, buf := 0, &w.before
	for y := range r.h {
		row := img.Row(n, c/8, y)
		for i := c % 8; i < len(row); i += 8 {
			buf[k] = float64(row[i])
			if k++; k == block {
				w.addMoments(m, buf[:])
				k = 0
			}
		}
	}
	w.addMoments(m, buf[:k])
}

// settleLine returns gamma D/sqrt(A) + beta rounded to odd, or false if that is not
// certain. D and A, and its root, are off by 4 units of 2^-106; a is not positive
// where the variance is not.
//
// The root is off by 2 for A and 8, gamma D by 2 more than D, the quotient by 15: 31
// in all, and the sum by 2. What may underflow on the way is far below every sum that
// Odd takes. A parameter that is not finite gives what IEEE arithmetic makes of it.
func settleLine(d, a double.Num, gamma, beta float64) (odd float64, ok bool) {
	switch {
	case !(a.Hi > 0):
		return math.NaN(), true
	case d.Hi != 0 && !moderate(d.Hi), gamma-gamma == 0 && math.Abs(gamma) >= 0x1p200:
		return 0, false // never so of float32 numbers
	case gamma-gamma != 0 || beta-beta != 0:
		return float64(gamma*sign(d.Hi)) + beta, true
	case d.Hi == 0 || gamma == 0:
		return beta + 0, true // -0 + 0 is +0
	}
	t := d.Scaled(gamma).Over(a.Root())
	y := t.Add(beta)
	return y.Odd(float64(0x1p-101*math.Abs(t.Hi)) + float64(0x1p-104*math.Abs(y.Hi)))
}

// sign returns -1, 0 or 1.
func sign(x float64) float64 {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}

// moderate reports whether a factor keeps products of what occurs here normal.
func moderate(x float64) bool {
	a := math.Abs(x)
	return a >= 0x1p-200 && a < 0x1p200
}
