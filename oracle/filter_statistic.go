package oracle

import "math"

// match is a residual r held against a signature q, both in units of the
// expected standard deviation of each element:
//
//	c    = <r,q>/<q,q>           the amplitude of the signature in the residual
//	gain = 1 - |r-cq|^2/|r|^2    the share of the residual that it explains
//	t    = c / sigma_c
//
// Were errors independent, sigma_c would be rms(r-cq)/sqrt<q,q>. Rounding
// errors are not: those of one channel share the errors of its statistics, and
// neighbours those of their windows. So sigma_c is the greatest of that, of the
// sandwich estimate over clusters of neighbours, sum over clusters of
// (sum of q (r-cq))^2 / <q,q>^2, and of the amplitudes that residuals of correct
// devices have (see spread).
type match struct {
	n          int
	rr, rq, qq float64
	c, t, gain float64
	sigma      float64
	after      float64 // rms(r-q)
	shown      float64 // the share of c by which t goes, see filter.tune
}

// held returns the match of r with q; cluster says to which cluster each
// element belongs, of which there are so many.
func held(r, q []float64, cluster []int32, clusters int) match {
	m := match{n: len(r), shown: 1}
	for i, v := range r {
		m.rr += float64(v * v)
		m.rq += float64(v * q[i])
		m.qq += float64(q[i] * q[i])
	}
	if m.qq == 0 || m.n == 0 {
		m.after = math.Sqrt(m.rr / float64(max(m.n, 1)))
		return m
	}
	m.c = m.rq / m.qq
	score := make([]float64, clusters)
	var rest float64
	for i, v := range r {
		d := v - float64(m.c*q[i])
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
	n := float64(m.n)
	m.sigma = math.Sqrt(max(rest/n/m.qq, between/m.qq/m.qq))
	m.t = m.c / m.sigma
	if m.rr > 0 {
		m.gain = 1 - rest/m.rr
	}
	m.after = math.Sqrt(max(m.rr-2*m.rq+m.qq, 0) / n)
	return m
}

// spread widens sigma to the amplitudes that q, which is the signature of amplitude
// k, has in residuals of correct devices.
//
// Around an emulation these have a mean: a rounding that falls otherwise can only
// fall to one side, whatever made it fall, so that all that moves numbers a little
// has a part of every other such thing. Where q explains most of the residual, the
// amplitude is held against twice that mean, with the scatter about it; sigma is
// then the one for which t says how far above it is.
func (m *match) spread(correct [][]float64, q []float64, k float64) {
	if len(correct) == 0 || m.qq == 0 {
		return
	}
	n, qq := float64(len(correct)), dot(q, q)
	var sum, squares float64
	for _, r := range correct {
		c := k * dot(r, q) / qq
		sum += c
		squares += float64(c * c)
	}
	sigma := max(m.sigma, math.Sqrt(squares/n))
	if base := 2 * math.Abs(sum) / n; n > 1 && m.gain > 0.5 && math.Abs(m.c) > base {
		about := max(m.sigma, math.Sqrt(max(squares-float64(sum*sum)/n, 0)/(n-1)))
		sigma = min(sigma, about*math.Abs(m.c)/(math.Abs(m.c)-base))
	}
	m.sigma = sigma
	m.t = m.shown * m.c / m.sigma
}

// cosine returns the cosine of the angle between a and b.
func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for i, v := range a {
		ab += float64(v * b[i])
		aa += float64(v * v)
		bb += float64(b[i] * b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// rootMean returns the root mean square of v.
func rootMean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += float64(x * x)
	}
	return math.Sqrt(sum / float64(max(len(v), 1)))
}

// rootMeanDiff returns that of a-b.
func rootMeanDiff(a, b []float64) float64 {
	var sum float64
	for i, x := range a {
		d := x - b[i]
		sum += float64(d * d)
	}
	return math.Sqrt(sum / float64(max(len(a), 1)))
}
