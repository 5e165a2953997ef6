package factor

import (
	"math"
	"slices"
)

// spectrum are the eigenvalues of a symmetric matrix, ascending, in float64: by reflections to three diagonals, and QR
// steps with Wilkinson's shift.
func spectrum(m matrix) []float64 {
	n := m.rows
	a := matrix{n, n, slices.Clone(m.a)}
	d, e := make([]float64, n), make([]float64, n) // e[i] is beside d[i] and d[i+1]
	for k := range max(n-2, 0) {
		a.reflect(k)
	}
	for i := range n {
		d[i] = a.at(i, i)
		if i+1 < n {
			e[i] = a.at(i+1, i)
		}
	}
	for low := range n {
		for range mostSteps {
			high := low
			for high+1 < n && math.Abs(e[high]) > float64(computedHere.unit*(math.Abs(d[high])+math.Abs(d[high+1]))) {
				high++
			}
			if high == low {
				break
			}
			step(d, e, low, high)
		}
	}
	slices.Sort(d)
	return d
}

// reflect makes column k zero below what is beside the diagonal.
func (m matrix) reflect(k int) {
	n := m.rows
	v := make([]float64, n)
	for i := k + 1; i < n; i++ {
		v[i] = m.at(i, k)
	}
	size := norm(v)
	if size == 0 {
		return
	}
	v[k+1] += math.Copysign(size, v[k+1])
	size = norm(v)
	for i := range v {
		v[i] /= size
	}
	p, along := make([]float64, n), 0.0
	for i := k; i < n; i++ {
		for j := k + 1; j < n; j++ {
			p[i] += float64(m.at(i, j) * v[j])
		}
		along += float64(p[i] * v[i])
	}
	for i := k; i < n; i++ {
		for j := k; j < n; j++ {
			w := float64(v[i]*(p[j]-float64(along*v[j]))) + float64(v[j]*(p[i]-float64(along*v[i])))
			m.a[i*n+j] -= float64(2 * w)
		}
	}
}

// step is a QR step, implicit, of the diagonals from low to high, which makes e[low] less.
func step(d, e []float64, low, high int) {
	g := (d[low+1] - d[low]) / float64(2*e[low])
	r := hypot(g, 1)
	g = d[high] - d[low] + e[low]/(g+math.Copysign(r, g))
	s, c, p := 1.0, 1.0, 0.0
	for i := high - 1; i >= low; i-- {
		f, b := float64(s*e[i]), float64(c*e[i])
		r = hypot(f, g)
		e[i+1] = r
		if r == 0 {
			d[i+1] -= p
			e[high] = 0
			return
		}
		s, c = f/r, g/r
		g = d[i+1] - p
		r = float64((d[i]-g)*s) + float64(2*c*b)
		p = float64(s * r)
		d[i+1] = g + p
		g = float64(c*r) - b
	}
	d[low] -= p
	e[low], e[high] = g, 0
}
