package norm

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
)

// A line is the function x -> gamma (x-mu)/sqrt(V) + beta of one channel, with
// V = var + eps.
type line struct {
	std         *exact.Standard
	gamma, beta float64
	muHi, muLo  float64 // mu to twice the precision
	slope       float64 // gamma/sqrt(V)
}

func newLine(std *exact.Standard, gamma, beta float64) *line {
	l := &line{std, gamma, beta, std.MuHi, std.MuLo, gamma / math.Sqrt(std.V)}
	// Outside this range, where it is for V <= 0 and for parameters that are not
	// finite, the bound below says nothing. A NaN makes the guard flag every
	// element. (gamma = 0 gives 0 or, for V <= 0, NaN.)
	if a := math.Abs(l.slope); gamma != 0 && !(a > 0x1p-500 && a < 0x1p500) {
		l.slope = math.NaN()
	}
	return l
}

// eval returns the float64 evaluation y of the line at x, and a bound E on its
// distance from the exact value. With u = 2^-53, D = x-mu, and terms of order
// u^2 absorbed at the end:
//
//   - muHi is the float64 nearest to mu and x is a float64, so muHi is no
//     farther from mu than x: |mu-muHi| <= |D| and |x-muHi| <= 2|D|. The first
//     difference rounds by 2u|D|, muLo is off by u|D|, the second difference
//     rounds by u|D|: d = D (1+4u), however close x is to mu.
//   - V is off by u, its root by u/2 and a rounding, the quotient by another:
//     slope is off by 5/2 u.
//   - The product rounds: t is off by 15/2 u, hence by less than 8u|t|, and the
//     sum rounds by u|y|.
//   - 2^-1000 covers what underflows; it is far below every format.
//
// If x = mu or gamma = 0 the value is beta, without error; by the first item
// d = 0 only if x = mu. A t of 0 excludes the specials, where slope or d is not
// finite.
func (l *line) eval(x float64) (y, bound float64) {
	d := (x - l.muHi) - l.muLo
	t := float64(d * l.slope)
	if t == 0 && (d == 0 || l.slope == 0) {
		return l.beta + 0, 0 // -0 + 0 is +0
	}
	y = t + l.beta
	return y, float64(0x1p-50*math.Abs(t)) + float64(0x1p-53*math.Abs(y)) + 0x1p-1000
}

// apply writes the line at every x of src, rounded once to f, to dst: by the
// kernel, if there is one, as far as it goes.
func (l *line) apply(by kernel, dst, src []float64, f fp16.Format) {
	n := l.applyBlocks(by, dst, src, f)
	for i, x := range src[n:] {
		dst[n+i] = l.at(x, f)
	}
}

// at returns the line at x, rounded once to f.
func (l *line) at(x float64, f fp16.Format) float64 {
	y, ok := f.Decide(l.eval(x))
	if !ok {
		y = f.Round(l.std.Settle(x, l.gamma, l.beta))
	}
	return y
}
