// Package measure has what differences are measured with: the match of a residual with
// a signature, sums over the parts of a state in which a fault may sit, moments. It is
// arithmetic on slices of numbers, and knows nothing of devices and faults.
package measure

import "math"

// Refutes reports whether an amplitude around the emulation is well below 1. What
// roundings have by themselves, where numbers are nearly equal, may look like a
// fault from the exact step; the emulation has the same roundings. To doubt a fault
// takes less than to name one.
func (m *Match) Refutes() bool { return m.QQ > 0 && m.C < 0.5 && 1-m.C > LeastT/2*m.Sigma }

// Match is a residual r held against a signature q, both in units of the
// expected standard deviation of each element:
//
//	c    = <r,q>/<q,q>           the amplitude of the signature in the residual
//	gain = 1 - |r-cq|^2/|r|^2    the share of the residual that it explains
//	t    = c / sigma_c
//
// Were errors independent, sigma_c would be rms(r-cq)/sqrt<q,q>. Rounding
// errors are not: those of one channel share the errors of its statistics, and
// neighbours those of their windows. So sigma_c is the greatest of that, of the
// sandwich estimate over K clusters of neighbours,
//
//	sqrt(K/(K-1) sum over clusters of (sum of q (r-cq))^2) / <q,q>
//
// and of the amplitudes that residuals of correct devices have (see [Match.Spread]).
type Match struct {
	N          int     // elements
	rr, RQ, QQ float64 // <r,r>, <r,q> and <q,q>
	C, T, Gain float64 // c, t and gain
	Sigma      float64 // sigma_c
	After      float64 // rms(r-q)
	Shown      float64 // what t multiplies c by: 1, or less for a family, see [Match.Tuned]
}

// Hold returns the match of r with q; cluster says to which cluster each
// element belongs, of which there are so many.
func Hold(r, q []float64, cluster []int32, clusters int) Match {
	m := Match{N: len(r), Shown: 1}
	for i, v := range r {
		m.rr += float64(v * v)
		m.RQ += float64(v * q[i])
		m.QQ += float64(q[i] * q[i])
	}
	if m.QQ == 0 || m.N == 0 {
		m.After = math.Sqrt(m.rr / float64(max(m.N, 1)))
		return m
	}
	m.C = m.RQ / m.QQ
	score := make([]float64, clusters)
	var rest float64
	for i, v := range r {
		d := v - float64(m.C*q[i])
		rest += float64(d * d)
		score[cluster[i]] += float64(q[i] * d)
	}
	var between float64
	for _, u := range score {
		between += float64(u * u)
	}
	if clusters > 1 {
		between *= float64(clusters) / float64(clusters-1)
	}
	n := float64(m.N)
	m.Sigma = math.Sqrt(max(rest/n/m.QQ, between/m.QQ/m.QQ))
	m.T = m.C / m.Sigma
	if m.rr > 0 {
		m.Gain = 1 - rest/m.rr
	}
	m.After = math.Sqrt(max(m.rr-2*m.RQ+m.QQ, 0) / n)
	return m
}

// Spread widens sigma to the amplitudes that q, which is the signature of amplitude
// k, has in residuals of correct devices.
//
// Around an emulation these have a mean: a rounding that falls otherwise can only
// fall to one side, whatever made it fall, so that all that moves numbers a little
// has a part of every other such thing. Where q explains most of the residual, the
// amplitude is held against twice that mean, with the scatter about it; sigma is
// then the one for which t says how far above it is.
func (m *Match) Spread(correct [][]float64, q []float64, k float64) {
	if len(correct) == 0 || m.QQ == 0 {
		return
	}
	n, qq := float64(len(correct)), Dot(q, q)
	var sum, squares float64
	for _, r := range correct {
		c := k * Dot(r, q) / qq
		sum += c
		squares += float64(c * c)
	}
	sigma := max(m.Sigma, math.Sqrt(squares/n))
	if base := 2 * math.Abs(sum) / n; n > 1 && m.Gain > 0.5 && math.Abs(m.C) > base {
		about := max(m.Sigma, math.Sqrt(max(squares-float64(sum*sum)/n, 0)/(n-1)))
		sigma = min(sigma, about*math.Abs(m.C)/(math.Abs(m.C)-base))
	}
	m.Sigma = sigma
	m.T = m.Shown * m.C / m.Sigma
}

// Cosine returns the cosine of the angle between a and b.
func Cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for i, v := range a {
		ab += float64(v * b[i])
		aa += float64(v * v)
		bb += float64(b[i] * b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// RootMeanSquareDiff returns the root mean square of a-b, NaN if it is none: see [RMSDiff].
func RootMeanSquareDiff(a, b []float64) float64 {
	var sum float64
	for i, x := range a {
		d := x - b[i]
		sum += float64(d * d)
	}
	return math.Sqrt(sum / float64(max(len(a), 1)))
}

// Tuned makes the match that of amplitude c of a family, which leaves rest; qq is
// <q,q> of the signature of that amplitude.
func (m *Match) Tuned(c float64, rest Match, qq float64) {
	m.C, m.Sigma, m.After = c, rest.Sigma, math.Sqrt(rest.rr/float64(rest.N))
	m.Gain = 1 - rest.rr/m.rr
	m.Shown = 0
	if less := m.rr - rest.rr; less > 0 && qq > 0 {
		m.Shown = min(1, math.Sqrt(less/qq))
	}
	m.T = m.Shown * c / rest.Sigma
}

// LeastT is what an amplitude must be, in its standard deviations, to be a fault's. A normal
// number is beyond 8 once in 10^15 times, and if sigma is too small by a fifth, once in
// 6*10^9: there are hundreds of hypotheses, and as many steps.
const LeastT = 8
