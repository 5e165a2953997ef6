package factor

import (
	"math"
	"slices"
)

// elimination is a matrix as rows of L times those of U, with the rows changed so that no number of L is beyond 1.
type elimination struct {
	lu    matrix
	order []int
	// squares are the sums of the squares of L's and U's terms, for each number of the matrix in its own place.
	squares matrix
}

// eliminate is a matrix's, or false if it is singular.
func eliminate(a matrix) (*elimination, bool) { return eliminateBy(a, true) }

// eliminateBy is eliminate with pivots, or the rows in their order.
func eliminateBy(a matrix, pivots bool) (*elimination, bool) {
	n := a.rows
	e := &elimination{lu: matrix{n, n, append([]float64(nil), a.a...)}, order: make([]int, n), squares: zeros(n, n)}
	for i := range n {
		e.order[i] = i
	}
	for k := range n {
		p := k
		for i := k + 1; i < n && pivots; i++ {
			if math.Abs(e.lu.at(i, k)) > math.Abs(e.lu.at(p, k)) {
				p = i
			}
		}
		if e.lu.at(p, k) == 0 {
			return nil, false
		}
		e.order[k], e.order[p] = e.order[p], e.order[k]
		top, other := e.lu.row(k), e.lu.row(p)
		for j := range n {
			top[j], other[j] = other[j], top[j]
		}
		for i := k + 1; i < n; i++ {
			row := e.lu.row(i)
			row[k] /= top[k]
			for j := k + 1; j < n; j++ {
				row[j] -= float64(row[k] * top[j])
			}
		}
	}
	for i := range n {
		sums := e.squares.row(e.order[i])
		for k := range i + 1 {
			l := 1.0
			if k < i {
				l = e.lu.at(i, k)
			}
			for j := k; j < n; j++ {
				p := float64(l * e.lu.at(k, j))
				sums[j] += float64(p * p)
			}
		}
	}
	return e, true
}

// solved is a column of the solution.
func (e *elimination) solved(b matrix, c int) []float64 {
	n := b.rows
	x := make([]float64, n)
	for i := range n {
		v := b.at(e.order[i], c)
		for j := range i {
			v -= float64(e.lu.at(i, j) * x[j])
		}
		x[i] = v
	}
	for i := n - 1; i >= 0; i-- {
		for j := i + 1; j < n; j++ {
			x[i] -= float64(e.lu.at(i, j) * x[j])
		}
		x[i] /= e.lu.at(i, i)
	}
	return x
}

// size is the norm of the solution.
func (e *elimination) size(b matrix) (all float64) {
	for c := range b.cols {
		all = hypot(all, norm(e.solved(b, c)))
	}
	return all
}

// solve: A X = B. The residual of elimination with any choice of pivots is the sum of what its products, and those
// of the two substitutions, are off: for a row of A each number has the error of a sum of products of L and U,
// times x. The rows share one limit, since a kernel may choose other pivots.
func (t *trial) solve(a, b, x matrix) {
	if t.Spec.Transpose {
		a = a.transposed()
	}
	if !t.Spec.Left {
		a, b, x = a.transposed(), b.transposed(), x.transposed()
	}
	e, ok := eliminate(a)
	if !ok || x.rows == 0 || x.cols == 0 {
		if !ok {
			t.unjudged++
		}
		return
	}
	t.residual("the matrix times the solution is the right side", a, b, x, e)
}

// residual claims it of each column of a solution that the output's format holds.
func (t *trial) residual(name string, a, b, x matrix, e *elimination) {
	var s sum
	judged := false
	for c := range x.cols {
		if !t.holds(e.solved(b, c)) {
			continue
		}
		judged = true
		off, deviation := make([]float64, x.rows), 0.0
		for i := range x.rows {
			s.reset()
			variance := float64(b.at(i, c) * b.at(i, c))
			for k := range x.rows {
				s.add(a.at(i, k), x.at(k, c))
				square := e.squares.at(i, k) + float64(a.at(i, k)*a.at(i, k))
				variance += float64(eliminations * square * x.at(k, c) * x.at(k, c))
			}
			off[i] = math.Abs(s.whole.Add(-b.at(i, c)).Hi)
			variance = float64(float64(x.rows+beside)*t.unit*t.unit*variance) + float64(t.stored*t.stored*s.squares)
			deviation = max(deviation, math.Sqrt(uniform*variance)+float64(t.least*(s.factors+float64(s.terms))))
			t.tells = t.tells || b.at(i, c) != 0
		}
		for i := range off {
			t.likely(name, off[i], deviation, i, c)
		}
	}
	if !judged {
		t.unjudged++
	}
}

// holds reports whether the output's format has such numbers, with room for errors.
func (t *trial) holds(x []float64) bool {
	most := t.Outputs[0].Format.Largest() / 2
	return !slices.ContainsFunc(x, func(v float64) bool { return !(math.Abs(v) < most) })
}

// inverse: A X = 1 or X A = 1. Of a method that computes an inverse one of them is near, and not both: Higham,
// chapter 14.
// A matrix that is singular to the unit roundoff may have any inverse.
func (t *trial) inverse(a, x matrix) {
	one := identity(a.rows)
	e, ok := eliminate(a)
	if !ok || a.rows == 0 {
		if a.rows > 0 {
			t.unjudged++
		}
		return
	}
	left := *t
	left.claims = nil
	left.residual("the matrix times its inverse is 1", a, one, x, e)
	if left.wrong() != nil {
		right := *t
		right.claims = nil
		if o, ok := eliminate(a.transposed()); ok {
			right.residual("the matrix times its inverse is 1", a.transposed(), one, x.transposed(), o)
			if right.wrong() == nil {
				left = right
			}
		}
	}
	if left.wrong() != nil && e.size(one)*a.norm() > float64(a.rows)/t.unit {
		t.unjudged++
		return
	}
	t.unjudged, t.tells = left.unjudged, left.tells
	for _, c := range left.claims {
		t.claim(c.Name).join(c)
	}
}
