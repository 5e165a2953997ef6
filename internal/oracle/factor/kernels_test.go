package factor

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Kernels that keep every result in a format, in plain loops.

// in rounds to a format.
type in fp16.Format

func (f in) of(v float64) float64 { return fp16.Format(f).Round(v) }

// less is c - sum of x y, in order.
func (f in) less(c float64, x, y []float64) float64 {
	for k := range x {
		c = f.of(c - f.of(x[k]*y[k]))
	}
	return c
}

func (f in) cholesky(a matrix) matrix {
	n := a.rows
	l := zeros(n, n)
	for j := range n {
		for i := j; i < n; i++ {
			v := f.less(a.at(i, j), l.row(i)[:j], l.row(j)[:j])
			if i == j {
				l.row(i)[j] = f.of(math.Sqrt(v))
			} else {
				l.row(i)[j] = f.of(v / l.at(j, j))
			}
		}
	}
	return l
}

// lower solves L X = B.
func (f in) lower(l, b matrix, unit bool) matrix {
	x := b.transposed()
	for c := range x.rows {
		for i := range l.rows {
			v := f.less(x.at(c, i), l.row(i)[:i], x.row(c)[:i])
			if !unit {
				v = f.of(v / l.at(i, i))
			}
			x.row(c)[i] = v
		}
	}
	return x.transposed()
}

// upper solves U X = B: the rows and columns of a lower one, the other way round.
func (f in) upper(u, b matrix, unit bool) matrix {
	return turned(f.lower(turned(u), flipped(b), unit), false)
}

func turned(m matrix, both ...bool) matrix {
	t := zeros(m.rows, m.cols)
	for i := range m.rows {
		for j := range m.cols {
			to := m.cols - 1 - j
			if len(both) > 0 {
				to = j
			}
			t.row(m.rows - 1 - i)[to] = m.at(i, j)
		}
	}
	return t
}

func flipped(m matrix) matrix { return turned(m, false) }

// lu is by elimination, with the largest pivot of a column or with that on the diagonal; the pivots count from 1.
func (f in) lu(a matrix, largest bool) (lu, pivots matrix) {
	m, n := a.rows, a.cols
	lu, pivots = matrix{m, n, append([]float64(nil), a.a...)}, zeros(min(m, n), 1)
	for k := range pivots.rows {
		p := k
		for i := k; i < m && largest; i++ {
			if math.Abs(lu.at(i, k)) > math.Abs(lu.at(p, k)) {
				p = i
			}
		}
		pivots.a[k] = float64(p + 1)
		swap(lu, k, p)
		for i := k + 1; i < m && lu.at(k, k) != 0; i++ {
			lu.row(i)[k] = f.of(lu.at(i, k) / lu.at(k, k))
			for j := k + 1; j < n; j++ {
				lu.row(i)[j] = f.of(lu.at(i, j) - f.of(lu.at(i, k)*lu.at(k, j)))
			}
		}
	}
	return lu, pivots
}

func swap(m matrix, i, j int) {
	for c := range m.cols {
		m.row(i)[c], m.row(j)[c] = m.row(j)[c], m.row(i)[c]
	}
}

// split are P, L and U.
func split(lu, pivots matrix) (p, l, u matrix) {
	k := min(lu.rows, lu.cols)
	p, l, u = identity(lu.rows), zeros(lu.rows, k), zeros(k, lu.cols)
	for i := range lu.rows {
		for j := range lu.cols {
			switch {
			case i > j:
				l.row(i)[j] = lu.at(i, j)
			default:
				u.row(i)[j] = lu.at(i, j)
			}
		}
		if i < k {
			l.row(i)[i] = 1
			swap(p, i, int(pivots.a[i])-1)
		}
	}
	return p.transposed(), l, u
}

// solve is by elimination with partial pivoting.
func (f in) solve(a, b matrix) matrix {
	lu, pivots := f.lu(a, true)
	return f.upper(lu, f.lower(lu, exchange(b, pivots), true), false)
}

// det is the product of the diagonal, its sign and the sum of its logarithms.
func (f in) det(a matrix) (det, sign, log float64) {
	lu, pivots := f.lu(a, true)
	det, sign = 1, 1
	for i, p := range pivots.a {
		v := lu.at(i, i)
		if int(p) != i+1 {
			det, sign = -det, -sign
		}
		det = f.of(det * v)
		sign *= math.Copysign(1, v)
		log = f.of(log + f.of(math.Log(math.Abs(v))))
	}
	return det, sign, log
}

// qr is by Householder's reflections; without reflect it is Gram-Schmidt once.
func (f in) qr(a matrix, reflect bool) (q, r matrix) {
	m, n := a.rows, a.cols
	if !reflect {
		return f.gramSchmidt(a)
	}
	k := min(m, n)
	w, all := a.transposed(), identity(m) // rows are columns
	for c := range k {
		v := make([]float64, m)
		copy(v[c:], w.row(c)[c:])
		size := f.of(math.Sqrt(-f.less(0, v, v)))
		if size == 0 {
			continue
		}
		v[c] = f.of(v[c] + math.Copysign(size, v[c]))
		beta := f.of(2 / -f.less(0, v, v))
		for _, of := range []matrix{w, all} {
			for i := range of.rows {
				along := f.of(beta * -f.less(0, v, of.row(i)))
				for j := range v {
					of.row(i)[j] = f.of(of.row(i)[j] - f.of(along*v[j]))
				}
			}
		}
		for j := c + 1; j < m; j++ {
			w.row(c)[j] = 0
		}
	}
	q, r = zeros(m, k), zeros(k, n) // the reflections of the identity's rows are those of Q^T's columns
	for i := range m {
		copy(q.row(i), all.row(i)[:k])
	}
	for i := range k {
		for j := range n {
			r.row(i)[j] = w.at(j, i)
		}
	}
	return q, r
}

func (f in) gramSchmidt(a matrix) (q, r matrix) {
	w, r := a.transposed(), zeros(a.cols, a.cols)
	for j := range w.rows {
		for k := range j {
			r.row(k)[j] = -f.less(0, w.row(k), w.row(j))
			for i := range w.cols {
				w.row(j)[i] = f.of(w.row(j)[i] - f.of(r.at(k, j)*w.at(k, i)))
			}
		}
		r.row(j)[j] = f.of(math.Sqrt(-f.less(0, w.row(j), w.row(j))))
		for i := range w.cols {
			w.row(j)[i] = f.of(w.at(j, i) / r.at(j, j))
		}
	}
	return w.transposed(), r
}

// eigh is by Jacobi's rotations.
func (f in) eigh(a matrix) ([]float64, matrix) {
	n := a.rows
	m, v := matrix{n, n, append([]float64(nil), a.a...)}, identity(n)
	for range 12 {
		for p := range n {
			for q := p + 1; q < n; q++ {
				if m.at(p, q) == 0 {
					continue
				}
				theta := f.of(f.of(m.at(q, q)-m.at(p, p)) / f.of(2*m.at(p, q)))
				t := f.of(math.Copysign(1, theta) / f.of(math.Abs(theta)+f.of(math.Sqrt(f.of(theta*theta)+1))))
				c := f.of(1 / f.of(math.Sqrt(f.of(t*t)+1)))
				s := f.of(t * c)
				turn := func(x, y *float64) {
					*x, *y = f.of(f.of(c**x)-f.of(s**y)), f.of(f.of(s**x)+f.of(c**y))
				}
				for k := range n {
					turn(&m.row(k)[p], &m.row(k)[q])
				}
				for k := range n {
					turn(&m.row(p)[k], &m.row(q)[k])
				}
				for k := range n {
					turn(&v.row(k)[p], &v.row(k)[q])
				}
				m.row(p)[q], m.row(q)[p] = 0, 0
			}
		}
	}
	w := make([]float64, n)
	for k := range w {
		w[k] = m.at(k, k)
	}
	reorder(w, v)
	return w, v
}

// A kind of matrices, each with its own difficulty.
var kinds = []string{"normal", "positive", "ill", "graded", "ones", "identity", "large", "small"}

// drawn is a matrix of a kind, of float32 numbers.
func drawn(rng *rand.Rand, kind string, rows, cols int) matrix {
	m := zeros(rows, cols)
	for k := range m.a {
		v := rng.NormFloat64()
		i, j := k/cols, k%cols
		switch kind {
		case "positive":
			v = rng.Float64()
		case "graded":
			v *= math.Pow(10, 3-6*float64(j)/float64(cols))
		case "ones":
			v = 1
		case "large":
			v *= 1e15
		case "small":
			v *= 1e-15
		case "identity":
			v = 0
		}
		if i == j && (kind == "ones" || kind == "identity") {
			v++
		}
		m.a[k] = float64(float32(v))
	}
	if kind == "ill" { // condition numbers about 1e6
		x, y := drawn(rng, "normal", rows, rows), drawn(rng, "normal", rows, cols)
		for i := range rows {
			for j := range cols {
				y.row(i)[j] *= math.Pow(10, -4*float64(i)/float64(rows))
			}
		}
		m = times(x, y)
	}
	return m
}

// times is a product, rounded to float32.
func times(x, y matrix) matrix {
	m := zeros(x.rows, y.cols)
	for i := range x.rows {
		for j := range y.cols {
			for k := range x.cols {
				m.row(i)[j] += x.at(i, k) * y.at(k, j)
			}
			m.row(i)[j] = float64(float32(m.at(i, j)))
		}
	}
	return m
}

// definite is a positive definite one: X X^T and a thousandth of its largest number.
func definite(rng *rand.Rand, kind string, n int) matrix {
	x := drawn(rng, kind, n, n)
	a := times(x, x.transposed())
	add := largest(a.a) * 1e-3
	for i := range n {
		a.row(i)[i] = float64(float32(a.at(i, i) + add))
	}
	return a
}

// mean is a symmetric matrix.
func mean(a matrix) matrix {
	t := a.transposed()
	for k := range t.a {
		t.a[k] = float64(float32((t.a[k] + a.a[k]) / 2))
	}
	return t
}

// stored is a matrix as a tensor in a format.
func stored(f fp16.Format, m matrix) *tensor.Tensor {
	t := tensor.New(f, m.rows, m.cols)
	f.RoundSlice(t.Data, m.a)
	return t
}

// listed is a list of numbers as a tensor.
func listed(f fp16.Format, v []float64) *tensor.Tensor {
	t := tensor.New(f, len(v))
	f.RoundSlice(t.Data, v)
	return t
}

// counted are pivots as a tensor.
func counted(pivots matrix) *tensor.Tensor {
	return tensor.Of(fp16.Int64, slices.Clone(pivots.a), pivots.rows)
}

// exchange has the rows of a matrix exchanged.
func exchange(b, pivots matrix) matrix {
	x := matrix{b.rows, b.cols, append([]float64(nil), b.a...)}
	for i, p := range pivots.a {
		swap(x, i, int(p)-1)
	}
	return x
}

// times is a product, each operation rounded.
func (f in) times(x, y matrix) matrix {
	m, y := zeros(x.rows, y.cols), y.transposed()
	for i := range m.rows {
		for j := range m.cols {
			m.row(i)[j] = -f.less(0, x.row(i), y.row(j))
		}
	}
	return m
}

// pinv is by a singular value decomposition, of Jacobi's rotations of columns; singular values up to cut times the
// largest are left out.
func (f in) pinv(a matrix, cut float64) matrix {
	if a.rows < a.cols {
		return f.pinv(a.transposed(), cut).transposed()
	}
	w, v := a.transposed(), identity(a.cols) // rows are columns
	for range 15 {
		for p := range w.rows {
			for q := p + 1; q < w.rows; q++ {
				x, y, z := -f.less(0, w.row(p), w.row(p)), -f.less(0, w.row(q), w.row(q)), -f.less(0, w.row(p), w.row(q))
				if z == 0 {
					continue
				}
				theta := f.of(f.of(y-x) / f.of(2*z))
				t := f.of(math.Copysign(1, theta) / f.of(math.Abs(theta)+f.of(math.Sqrt(f.of(f.of(theta*theta)+1)))))
				c := f.of(1 / f.of(math.Sqrt(f.of(f.of(t*t)+1))))
				s := f.of(t * c)
				for _, m := range []matrix{w, v} {
					for k := range m.cols {
						x, y := m.at(p, k), m.at(q, k)
						m.row(p)[k], m.row(q)[k] = f.of(f.of(c*x)-f.of(s*y)), f.of(f.of(s*x)+f.of(c*y))
					}
				}
			}
		}
	}
	sizes, most := make([]float64, w.rows), 0.0
	for j := range sizes {
		sizes[j] = f.of(math.Sqrt(-f.less(0, w.row(j), w.row(j))))
		most = max(most, sizes[j])
	}
	for j, size := range sizes {
		for k := range w.cols {
			w.row(j)[k] = f.of(f.of(w.at(j, k)/size) / size)
			if size <= cut*most {
				w.row(j)[k] = 0
			}
		}
	}
	return f.times(v.transposed(), w)
}
