package factor

import (
	"math"
	"slices"
)

// pinv: X is the inverse of A + E, of its singular values above the cut. Of full rank X A, or A X, is 1, and the other
// product is symmetric. With some cut X (A + E) X = X, both products with A + E are symmetric, and A + E less what X
// leaves of it is what was cut.
func (t *trial) pinv(a, x matrix) {
	if a.rows*a.cols == 0 {
		return
	}
	s := spread(a)
	most, cut := s[0], t.cut(a, s[0])
	d := t.rotated(a.rows + a.cols)
	rank := 0
	for _, v := range s {
		if math.Abs(v-cut) < 2*float64(t.limit*d*most) { // may be cut or not
			t.unjudged++
			return
		}
		if v > cut {
			rank++
		}
	}
	if rank == 0 {
		t.zeros(x)
		return
	}
	size := 1 / s[rank-1]
	off := float64(d*most*size) + float64(t.least*float64(a.rows+a.cols)*max(most, size))
	if 2*float64(t.limit*off) > 1 || !t.holds([]float64{size}) {
		t.unjudged++
		return
	}
	t.tells = true
	left, right := whole(x, a), whole(a, x)
	if rank < len(s) {
		again, back := whole(left, x), whole(a, left)
		t.alike("X A X is X", again, x, float64(off*size))
		t.alike("A X A is A, but for what is cut", back, a, 2*float64(off*most)+s[rank]/t.limit)
	} else if a.rows >= a.cols {
		t.alike("X A is 1", left, identity(a.cols), off)
	} else {
		t.alike("A X is 1", right, identity(a.rows), off)
	}
	if rank < a.rows {
		t.alike("A X is symmetric", right, right.transposed(), 2*off)
	}
	if rank < a.cols {
		t.alike("X A is symmetric", left, left.transposed(), 2*off)
	}
}

// cut is the singular value from which on they count: torch's rule.
func (t *trial) cut(a matrix, most float64) float64 {
	relative := t.Spec.Rtol
	if relative < 0 {
		relative = 0
		if t.Spec.Atol <= 0 {
			relative = float64(2 * t.unit * float64(max(a.rows, a.cols)))
		}
	}
	return max(t.Spec.Atol, float64(relative*most))
}

// zeros claims that all numbers are.
func (t *trial) zeros(x matrix) {
	for i := range x.rows {
		for j := range x.cols {
			t.exactly("what is cut is 0", x.at(i, j) == 0, i, j)
		}
	}
}

// alike claims that two matrices are, column by column.
func (t *trial) alike(name string, m, want matrix, deviation float64) {
	off := make([]float64, m.rows)
	for j := range m.cols {
		for i := range off {
			off[i] = m.at(i, j) - want.at(i, j)
		}
		t.column(name, off, deviation, j)
	}
}

// whole is a product, rounded once.
func whole(x, y matrix) matrix {
	m := zeros(x.rows, y.cols)
	var s sum
	for i := range m.rows {
		for j := range m.cols {
			s.reset()
			for k := range x.cols {
				s.add(x.at(i, k), y.at(k, j))
			}
			m.row(i)[j] = s.whole.Hi
		}
	}
	return m
}

// spread are the singular values of a matrix, descending: eigenvalues of the matrix beside its transpose.
func spread(a matrix) []float64 {
	n := a.rows + a.cols
	both := zeros(n, n)
	for i := range a.rows {
		for j := range a.cols {
			both.a[i*n+a.rows+j] = a.at(i, j)
			both.a[(a.rows+j)*n+i] = a.at(i, j)
		}
	}
	w := spectrum(both)
	slices.Reverse(w)
	return w[:min(a.rows, a.cols)]
}

// lstsq: the residual of a right x, times A^T, is 0: that of A + E and b + f is.
func (t *trial) lstsq(a, b, x matrix) {
	if a.rows*a.cols*b.cols == 0 {
		return
	}
	s := spread(a)
	most, least := s[0], s[len(s)-1]
	d := t.rotated(a.rows + a.cols)
	if !(2*float64(t.limit*d*most) < least) || least <= float64(t.Spec.Rcond*most) {
		t.unjudged++
		return
	}
	judged := false
	var dot sum
	rest, off := make([]float64, a.rows), make([]float64, a.cols)
	for c := range x.cols {
		right, solution := 0.0, 0.0
		for i := range rest {
			dot.reset()
			for k := range a.cols {
				dot.add(a.at(i, k), -x.at(k, c))
			}
			rest[i] = dot.whole.Add(b.at(i, c)).Hi
			right = hypot(right, b.at(i, c))
		}
		if !t.holds([]float64{right / least}) {
			continue
		}
		judged = true
		for k := range off {
			dot.reset()
			for i := range rest {
				dot.add(a.at(i, k), rest[i])
			}
			off[k] = dot.whole.Hi
			solution = hypot(solution, x.at(k, c))
		}
		t.tells = t.tells || right > 0
		size := norm(rest) + right + float64(most*solution)
		deviation := float64(d*most*size) + float64(t.least*float64(a.rows+a.cols)*(most*(most+1)+1))
		t.column("A^T times what is left is 0", off, deviation, c)
	}
	if !judged {
		t.unjudged++
	}
}
