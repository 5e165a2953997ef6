package factor

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// orthogonal claims of each column of q that its products with all are those of the identity. A deviation is that of a
// column.
func (t *trial) orthogonal(name string, q matrix, deviation float64) {
	columns := q.transposed()
	var s sum
	for j := range columns.rows {
		off := make([]float64, columns.rows)
		for i := range columns.rows {
			s.reset()
			for k := range q.rows {
				s.add(columns.at(i, k), columns.at(j, k))
			}
			want := 0.0
			if i == j {
				want = 1
			}
			off[i] = s.whole.Add(-want).Hi
		}
		// the error of a column, and those of all others along it
		t.column(name, off, float64(2*deviation), j)
	}
}

// qr: A = Q R. A right R is 0 below the diagonal, and of any signs. The error of a column is that of as many
// reflections as there are: Connolly and Higham, Probabilistic rounding error analysis of Householder QR
// factorization (2023), have sqrt(mn) in place of Higham's m n (Theorem 19.4); of this the inner products of a
// column have sqrt(m) together, since the numbers that reflections leave have its norm, and other roundings
// sqrt(n).
func (t *trial) qr(a, q, r matrix) {
	t.tells = t.tells || a.rows*a.cols > 0
	t.triangle(r)
	columns := a.transposed()
	deviation := t.reflected(a.rows, a.cols)
	for j := range a.cols {
		off := product(q, r, a, j)
		t.column("Q times R is the matrix, column by column", off, float64(deviation*norm(columns.row(j)))+t.floor(a), j)
	}
	t.orthogonal("the columns of Q are orthogonal", q, deviation)
}

// product is how far column j of q r is off that of a.
func product(q, r, a matrix, j int) []float64 {
	var s sum
	off := make([]float64, a.rows)
	for i := range a.rows {
		s.reset()
		for k := range q.cols {
			s.add(q.at(i, k), r.at(k, j))
		}
		off[i] = s.whole.Add(-a.at(i, j)).Hi
	}
	return off
}

// triangle claims zeros below the diagonal.
func (t *trial) triangle(r matrix) {
	for i := range r.rows {
		for j := range min(i, r.cols) {
			t.exactly("the other triangle is 0", r.at(i, j) == 0, i, j)
		}
	}
}

// alone is qr without Q: R^T R = A^T A, where each column is off as it is with Q.
func (t *trial) alone(a, r matrix) {
	t.triangle(r)
	of, by := a.transposed(), r.transposed()
	deviation := t.reflected(a.rows, a.cols)
	var s sum
	for i := range a.cols {
		for j := range i + 1 {
			s.reset()
			for k := range a.rows {
				s.add(of.at(i, k), of.at(j, k))
			}
			for k := range r.rows {
				s.add(-by.at(i, k), by.at(j, k))
			}
			most := float64(norm(of.row(i)) * norm(of.row(j)))
			t.tells = t.tells || most > 0
			t.likely("R^T R is A^T A", math.Abs(s.whole.Hi), float64(2*deviation*most)+t.least, i, j)
		}
	}
}

// eigh: A V = V diag(w), w ascending and V orthogonal. Reductions and rotations are off by those of the norm of A:
// backward stable, so (Weyl) the eigenvalues, too.
func (t *trial) eigh(a matrix, w []float64, v matrix) {
	t.tells = t.tells || a.rows > 0
	t.better(a.symmetric(t.Spec.UPLO == "U"), func(t *trial, a matrix) {
		t.ascending(w)
		most := min(largest(w), a.norm())
		deviation := t.rotated(a.rows)
		var s sum
		for j := range v.cols {
			off := make([]float64, a.rows)
			for i := range a.rows {
				s.reset()
				for k := range a.cols {
					s.add(a.at(i, k), v.at(k, j))
				}
				s.add(-w[j], v.at(i, j))
				off[i] = s.whole.Hi
			}
			t.column("the matrix times an eigenvector is its eigenvalue times it", off, float64(deviation*most)+t.floor(a), j)
		}
		// by relatively robust representations eigenvectors of near eigenvalues are less so, and as right
		t.orthogonal("the eigenvectors are orthogonal", v, max(deviation, represented*float64(v.cols)*t.unit/t.limit))
	})
}

// floor is for what subnormal numbers lose.
func (t *trial) floor(a matrix) float64 { return t.least * float64(a.rows+a.cols) }

// ascending claims an order.
func (t *trial) ascending(w []float64) {
	for j := range w {
		t.exactly("the eigenvalues are ascending", j == 0 || w[j-1] <= w[j], j)
	}
}

// largest is the greatest magnitude.
func largest(w []float64) (most float64) {
	for _, v := range w {
		most = max(most, math.Abs(v))
	}
	return most
}

// eigenvalues compares them with those of float64 steps.
func (t *trial) eigenvalues(a matrix, w []float64) {
	t.better(a.symmetric(t.Spec.UPLO == "U"), func(t *trial, a matrix) {
		t.ascending(w)
		t.values("the eigenvalues are those of the matrix", w, spectrum(a), a)
	})
}

// values compares numbers with those that float64 steps give, which are off themselves.
func (t *trial) values(name string, w, want []float64, a matrix) {
	most := largest(want)
	t.tells = t.tells || most > 0
	deviation := t.rotated(a.rows+a.cols) + computedHere.rotated(a.rows+a.cols)
	for j := range w {
		t.likely(name, math.Abs(w[j]-want[j]), float64(deviation*most)+t.floor(a), j)
	}
}

// computedHere is the arithmetic of the values that kernels' are compared with.
var computedHere = computed(fp16.Float64)

// svd: A = U diag(s) Vh, s descending and not negative, U and V orthogonal.
func (t *trial) svd(a, u matrix, s []float64, vh matrix) {
	t.tells = t.tells || a.rows*a.cols > 0
	t.descending(s)
	most := min(largest(s), a.norm())
	deviation := t.rotated(a.rows + a.cols)
	scaled := zeros(u.rows, len(s))
	for i := range u.rows {
		for j, v := range s {
			scaled.a[i*len(s)+j] = float64(u.at(i, j) * v)
		}
	}
	// the products U s are rounded to float64 here
	here := computedHere.of(float64(2*len(s)), 0)
	rest := matrix{min(len(s), vh.rows), vh.cols, vh.a[:min(len(s), vh.rows)*vh.cols]}
	for j := range a.cols {
		off := product(scaled, rest, a, j)
		t.column("U s Vh is the matrix, column by column", off, float64((deviation+here)*most)+t.floor(a), j)
	}
	t.orthogonal("the columns of U are orthogonal", u, deviation)
	t.orthogonal("the rows of Vh are orthogonal", vh.transposed(), deviation)
}

// descending claims the order of singular values.
func (t *trial) descending(s []float64) {
	for j := range s {
		t.exactly("the singular values are descending, and not negative", s[j] >= 0 && (j == 0 || s[j-1] >= s[j]), j)
	}
}

// singular compares singular values with the eigenvalues of the matrix beside its transpose.
func (t *trial) singular(a matrix, s []float64) {
	t.descending(s)
	t.values("the singular values are those of the matrix", s, spread(a), a)
}
