package factor

import "math"

// lu: A = P L U, where L has ones on its diagonal. Without pivots P is none, and A = L U.
func (t *trial) lu(a, p, l, u matrix) {
	if t.Spec.Pivot {
		order, ok := t.permutation(p)
		if !ok {
			return
		}
		a = a.ordered(order)
	}
	if t.breaks(a, l, u) {
		t.unjudged++
		return
	}
	for i := range l.rows {
		for j := i + 1; j < l.cols; j++ {
			t.exactly("the other triangle is 0", l.at(i, j) == 0, i, j)
		}
		if i < l.cols {
			t.exactly("the diagonal of L is 1", l.at(i, i) == 1, i)
		}
	}
	t.triangle(u)
	t.eliminated(a, l, u)
}

// packed is lu of factors in one matrix, and of exchanges of rows, which count from 1.
func (t *trial) packed(a, lu, pivots matrix) {
	order, ok := exchanged(pivots, a.rows)
	t.exactly("the pivots are rows from the diagonal on", ok)
	switch {
	case !ok:
	case t.breaks(a.ordered(order), lu, lu):
		t.unjudged++
	default:
		t.eliminated(a.ordered(order), lu, lu)
	}
}

// eliminated claims the product of the triangles of l and u, and that no number of L is beyond 1: the pivot is the
// largest number of its column.
func (t *trial) eliminated(a, l, u matrix) {
	t.tells = t.tells || largest(a.a) > 0
	var s sum
	for i := range a.rows {
		for j := range a.cols {
			s.reset()
			for k := range min(i, j) {
				s.add(l.at(i, k), u.at(k, j))
			}
			if i <= j {
				s.add(1, u.at(i, j))
			} else {
				s.add(l.at(i, j), u.at(j, j))
			}
			off, bound, deviation := s.against(a.at(i, j), t.arithmetic, 2)
			t.within("L times U is the matrix", off, bound, deviation, i, j)
			if i > j && t.Spec.Pivot {
				most := t.stored + gamma(beside, t.unit)
				t.within("no number of L is beyond 1", max(0, math.Abs(l.at(i, j))-1), most, most, i, j)
			}
		}
	}
}

// breaks reports whether the factors are not finite, as a right kernel's may be of this matrix: a pivot is lost, or
// larger than the format has.
func (t *trial) breaks(a, l, u matrix) bool {
	if l.finite() && u.finite() {
		return false
	}
	n := min(a.rows, a.cols)
	square := zeros(n, n)
	for i := range n {
		copy(square.row(i), a.row(i)[:n])
	}
	e, ok := eliminateBy(square, t.Spec.Pivot)
	if !ok || !t.holds(e.lu.a) {
		return true
	}
	lost := float64(gamma(float64(n+beside), t.unit) * largest(a.a))
	for i := range n {
		if !(math.Abs(e.lu.at(i, i)) > lost) {
			return true
		}
	}
	return false
}

// permutation is which row of the matrix each row of L times U is.
func (t *trial) permutation(p matrix) ([]int, bool) {
	order, ones := make([]int, p.cols), make([]int, p.cols)
	right := true
	for i := range p.rows {
		inRow, other := 0, false
		for j := range p.cols {
			switch p.at(i, j) {
			case 1:
				order[j] = i
				inRow++
				ones[j]++
				other = other || ones[j] > 1
			case 0:
			default:
				other = true
			}
		}
		holds := inRow == 1 && !other
		t.exactly("P has a one in each row and column", holds, i)
		right = right && holds
	}
	return order, right
}

// exchanged is the order of so many rows after exchanges, which count from 1, or false if there is no such row.
func exchanged(pivots matrix, rows int) ([]int, bool) {
	order := make([]int, rows)
	for i := range order {
		order[i] = i
	}
	for i, p := range pivots.a {
		with := int(p) - 1
		if with < i || with >= rows {
			return nil, false
		}
		order[i], order[with] = order[with], order[i]
	}
	return order, true
}

// ordered has the rows of a matrix in that order.
func (m matrix) ordered(order []int) matrix {
	o := zeros(m.rows, m.cols)
	for to, from := range order {
		copy(o.row(to), m.row(from))
	}
	return o
}

// unordered puts them back.
func (m matrix) unordered(order []int) matrix {
	o := zeros(m.rows, m.cols)
	for from, to := range order {
		copy(o.row(to), m.row(from))
	}
	return o
}

// solveBy: A X = B, A being known by its factors: what two substitutions are off.
func (t *trial) solveBy(a, squares, b, x matrix) {
	if t.Spec.Adjoint {
		a, squares = a.transposed(), squares.transposed()
	}
	if !t.Spec.Left {
		a, squares, b, x = a.transposed(), squares.transposed(), b.transposed(), x.transposed()
	}
	if x.rows == 0 || x.cols == 0 {
		return
	}
	e, ok := eliminate(a)
	if !ok {
		t.unjudged++
		return
	}
	e.squares = squares
	t.residual("the matrix times the solution is the right side", a, b, x, e)
}

// unpacked is the matrix of factors in one, and the sums of the squares of their products' terms.
func unpacked(lu matrix, order []int) (a, squares matrix) {
	a, squares = zeros(lu.rows, lu.cols), zeros(lu.rows, lu.cols)
	var s sum
	for i := range lu.rows {
		for j := range lu.cols {
			s.reset()
			for k := range min(i, j) {
				s.add(lu.at(i, k), lu.at(k, j))
			}
			if i <= j {
				s.add(1, lu.at(i, j))
			} else {
				s.add(lu.at(i, j), lu.at(j, j))
			}
			a.row(i)[j], squares.row(i)[j] = s.whole.Hi, s.squares
		}
	}
	return a.unordered(order), squares.unordered(order)
}

// squared is L L^T of the lower triangle, and the sums of the squares of its terms.
func squared(l matrix) (a, squares matrix) {
	a, squares = zeros(l.rows, l.rows), zeros(l.rows, l.rows)
	var s sum
	for i := range l.rows {
		for j := range i + 1 {
			s.reset()
			for k := range j + 1 {
				s.add(l.at(i, k), l.at(j, k))
			}
			a.row(i)[j], a.row(j)[i] = s.whole.Hi, s.whole.Hi
			squares.row(i)[j], squares.row(j)[i] = s.squares, s.squares
		}
	}
	return a, squares
}
