package factor

// cholesky: A = L L^T, by rows of L, whose upper triangle is 0 and whose diagonal is positive.
func (t *trial) cholesky(a, l matrix) {
	forms := a.symmetric(t.Spec.Upper)
	if t.Spec.Upper {
		l = l.transposed()
	}
	if !t.definite(forms[0]) && !l.finite() {
		t.unjudged++
		return
	}
	t.tells = t.tells || a.rows > 0
	t.better(forms, func(t *trial, a matrix) {
		var s sum
		for i := range l.rows {
			for j := range l.cols {
				if j > i {
					t.exactly("the other triangle is 0", l.at(i, j) == 0, i, j)
					continue
				}
				if i == j {
					lost := a.at(i, i) <= float64(t.least*t.least) // below what the format has
					t.exactly("the diagonal is positive", l.at(i, i) > 0 || l.at(i, i) == 0 && lost, i, i)
				}
				s.reset()
				for k := range j + 1 {
					s.add(l.at(i, k), l.at(j, k))
				}
				off, bound, deviation := s.against(a.at(i, j), t.arithmetic, 2)
				t.within("the factor's product is the matrix", off, bound, deviation, i, j)
			}
		}
	})
}

// definite reports whether elimination finds a matrix positive definite, in float64.
func (t *trial) definite(a matrix) bool {
	n := a.rows
	l := matrix{n, n, append([]float64(nil), a.a...)}
	for k := range n {
		d := l.at(k, k)
		if !(d > float64(gamma(float64(n+beside), t.unit)*a.at(k, k))) {
			return false
		}
		for i := k + 1; i < n; i++ {
			f := l.at(i, k) / d
			for j := k + 1; j <= i; j++ {
				l.a[i*n+j] -= float64(f * l.at(j, k))
			}
		}
	}
	return true
}

// triangular: T X = B by rows, T being the triangle of A that is named, or its transpose; X A = B is A^T X^T = B^T.
func (t *trial) triangular(a, b, x matrix) {
	upper := t.Spec.Upper
	if t.Spec.Transpose != !t.Spec.Left {
		a, upper = a.transposed(), !upper
	}
	if !t.Spec.Left {
		b, x = b.transposed(), x.transposed()
	}
	judged := x.rows*x.cols == 0
	for c := range x.cols {
		if t.holds(t.substituted(a, b, c, upper)) {
			judged = true
			t.substitution(a, b, x, c, upper)
		}
	}
	if !judged {
		t.unjudged++
	}
}

// substitution judges one of what is solved for.
func (t *trial) substitution(a, b, x matrix, c int, upper bool) {
	var s sum
	for i := range x.rows {
		s.reset()
		first, last := 0, i
		if upper {
			first, last = i+1, x.rows
		}
		for k := first; k < last; k++ {
			s.add(a.at(i, k), x.at(k, c))
		}
		d := a.at(i, i)
		if t.Spec.Unitriangular {
			d = 1
		}
		s.add(d, x.at(i, c))
		t.tells = t.tells || b.at(i, c) != 0
		off, bound, deviation := s.against(b.at(i, c), t.arithmetic, 1)
		t.within("the triangle times the solution is the right side", off, bound, deviation, i, c)
	}
}

// substituted is a column of the solution in float64.
func (t *trial) substituted(a, b matrix, c int, upper bool) []float64 {
	n := a.rows
	x := make([]float64, n)
	for k := range n {
		i, first, last := k, 0, k
		if upper {
			i, first, last = n-1-k, n-k, n
		}
		v := b.at(i, c)
		for j := first; j < last; j++ {
			v -= float64(a.at(i, j) * x[j])
		}
		if !t.Spec.Unitriangular {
			v /= a.at(i, i)
		}
		x[i] = v
	}
	return x
}
