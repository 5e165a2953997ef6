package noisestat

import (
	"math"
	"slices"

	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// seen reports whether a pixel shows every draw by itself, as many independent
// outputs as there are channels do. Sums over few Laplace draws are far from
// normal: the largest draw of a tile may be most of it, and fourth powers have
// hardly a variance. But seen by themselves, draws can be made normal.
func (m *Model) seen() bool { return m.kappa != 0 && len(m.Rows) == len(m.W[0]) }

// excess is the excess kurtosis that the field's draws have: none, if they are
// made normal.
func (m *Model) excess() float64 {
	if m.seen() {
		return 0
	}
	return m.kappa
}

// straighten makes the Laplace draws in z normal. They are its parts along the
// directions of the channels, which are at right angles but for roundings; where
// these are most of a part, it is as normal as it can be.
func (w *whitener) straighten(z []float64) {
	add := make([]float64, w.k)
	for c := 0; c < len(w.v); c += w.k {
		v := w.v[c : c+w.k]
		n := measure.Dot(v, v)
		if n < 0.5 {
			return
		}
		x := measure.Dot(v, z) / math.Sqrt(n)
		d := (normalOfLaplace(x) - x) / math.Sqrt(n)
		for i, u := range v {
			add[i] += float64(d * u)
		}
	}
	for i, d := range add {
		z[i] += d
	}
}

// normalOfLaplace returns the number that is as likely to be exceeded by a standard
// normal one as x is by one with Laplace's distribution and variance 1: the root t
// of
//
//	ln erfc(t/sqrt 2) + sqrt(2) |x| = 0
//
// with the sign of x. The function is concave, and at t = sqrt(2 sqrt(2) |x|) below
// zero, since erfc(y) <= exp(-y^2): from there Newton's method comes down to the root.
func normalOfLaplace(x float64) float64 {
	want := math.Sqrt2 * math.Abs(x)
	t := math.Sqrt(2 * want)
	if !(want > 0 && want < 900) {
		return math.Copysign(t, x)
	}
	for range 40 {
		y := t / math.Sqrt2
		f := elem.Erfcx(y)
		down := (elem.Log(f) - float64(y*y) + want) / (-math.Sqrt(2/math.Pi) / f)
		t -= down
		if !(down > 1e-12*t) {
			break
		}
	}
	return math.Copysign(t, x)
}

// scores says how the score of a pixel for the draws' kurtosis (see kurtosis) is
// distributed where there are fewer outputs than channels, each within most of its
// mean: single Laplace draws have scores as large as a thousand others, and no sum
// of them is normal.
type scores struct{ most, mean, variance, n float64 }

// simulated is how many pixels say so.
const simulated = 1 << 14

// scores takes them from simulated draws.
func (m *Model) scores(rounding []float64) *scores {
	w := m.whitener(nil, rounding, false)
	if m.Kind != noise.Laplace || m.seen() || w == nil {
		return nil
	}
	all := make([]float64, simulated)
	z, add := make([]float64, w.k), make([]float64, w.k)
	var seed uint64
	draw := func() uint64 { seed++; return measure.Mix64(seed) }
	for p := range all {
		clear(z)
		for c := 0; c < len(w.v); c += w.k {
			bits := draw()
			x := -elem.Log((float64(bits>>12)+0.5)*0x1p-52) / math.Sqrt2
			if bits&1 != 0 {
				x = -x
			}
			for i, v := range w.v[c : c+w.k] {
				z[i] += float64(v * x)
			}
		}
		for i, v := range rounding {
			add[i] = math.Sqrt(v) * emulate.Deviate(draw(), 0)
		}
		w.solve(add)
		for i, v := range add {
			z[i] += v
		}
		all[p] = w.score(z)
	}
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	s := &scores{n: simulated, most: sorted[simulated-simulated/1000]}
	for _, v := range all {
		s.mean += s.within(v) / simulated
	}
	for _, v := range all {
		d := s.within(v) - s.mean
		s.variance += float64(d*d) / simulated
	}
	return s
}

// score is that of a pixel.
func (w *whitener) score(z []float64) (sum float64) {
	for c := 0; c < len(w.v); c += w.k {
		v := w.v[c : c+w.k]
		p, n := measure.Dot(v, z), measure.Dot(v, v)
		p *= p
		sum += float64(p*p) - float64(6*n*p) + float64(3*n*n)
	}
	return sum
}

func (s *scores) within(v float64) float64 { return min(v, s.most) }

// z returns how far a sum over n pixels is from its mean, in deviations of a normal
// number that is exceeded as rarely. Of numbers that exceed their mean by b at the
// most, Bernstein's inequality has P(Z > z) <= exp(-z^2/2/(1 + b z/(3 sd sqrt n))). The
// mean is no better known than its simulation is.
func (s *scores) z(sum, n float64) float64 {
	sd := math.Sqrt(s.variance)
	z := (sum - float64(n*s.mean)) / sd / math.Sqrt(n+float64(n*n)/s.n)
	return z / math.Sqrt(1+s.most*math.Abs(z)/(3*sd*math.Sqrt(n)))
}
