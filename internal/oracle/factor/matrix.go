package factor

import (
	"math"
	"slices"

	"github.com/refrun/refrun/tensor"
)

// matrix is one of a batch, row after row.
type matrix struct {
	rows, cols int
	a          []float64
}

func zeros(rows, cols int) matrix { return matrix{rows, cols, make([]float64, rows*cols)} }

// identity has n rows.
func identity(n int) matrix {
	m := zeros(n, n)
	for i := range n {
		m.a[i*n+i] = 1
	}
	return m
}

func (m matrix) at(i, j int) float64 { return m.a[i*m.cols+j] }

// row is the memory of row i.
func (m matrix) row(i int) []float64 { return m.a[i*m.cols : (i+1)*m.cols] }

// transposed is a copy.
func (m matrix) transposed() matrix {
	t := zeros(m.cols, m.rows)
	for i := range m.rows {
		for j := range m.cols {
			t.a[j*t.cols+i] = m.at(i, j)
		}
	}
	return t
}

// finite reports whether all numbers are.
func (m matrix) finite() bool {
	return !slices.ContainsFunc(m.a, func(v float64) bool { return v-v != 0 })
}

// extreme reports whether squares of its numbers, and of their products, are beyond float64's: of float64 kernels
// alone.
func (m matrix) extreme() bool {
	most := largest(m.a)
	return most > farthest || most > 0 && most < 1/farthest
}

// norm is Frobenius's.
func (m matrix) norm() float64 { return norm(m.a) }

func norm(v []float64) (n float64) {
	for _, x := range v {
		n = hypot(n, x)
	}
	return n
}

// hypot is the root of the sum of two squares, the same bits everywhere.
func hypot(x, y float64) float64 {
	most := max(math.Abs(x), math.Abs(y))
	if most == 0 || most-most != 0 {
		return most
	}
	x, y = x/most, y/most
	return float64(most * math.Sqrt(float64(x*x)+float64(y*y)))
}

// symmetric are the matrices for which a kernel may take one that is to be symmetric: one of its triangles, or the
// mean of both.
func (m matrix) symmetric(upper bool) []matrix {
	t := m.transposed()
	if slices.Equal(m.a, t.a) {
		return []matrix{m}
	}
	mean, low, high := zeros(m.rows, m.cols), zeros(m.rows, m.cols), zeros(m.rows, m.cols)
	for k := range m.a {
		mean.a[k] = (m.a[k] + t.a[k]) / 2
		low.a[k], high.a[k] = m.a[k], t.a[k]
		if k/m.cols < k%m.cols {
			low.a[k], high.a[k] = t.a[k], m.a[k]
		}
	}
	if upper {
		low, high = high, low
	}
	return []matrix{low, mean, high}
}

// stack is a batch of matrices.
type stack struct {
	batch      []int
	rows, cols int
	data       []float64
}

// stacked are the matrices of a tensor of two axes or more; a vector is one column.
func stacked(t *tensor.Tensor, vector bool) stack {
	shape := t.Shape
	if vector {
		shape = append(slices.Clone(shape), 1)
	}
	n := len(shape) - 2
	return stack{shape[:n], shape[n], shape[n+1], t.Data}
}

// of is the matrix at place i of a batch of that shape, to which the stack is broadcast.
func (s stack) of(i int, batch []int) matrix {
	at, step := 0, 1
	for d := len(s.batch) - 1; d >= 0; d-- {
		of := d + len(batch) - len(s.batch)
		if s.batch[d] > 1 {
			at += i % batch[of] * step
		}
		step *= s.batch[d]
		i /= batch[of]
	}
	n := s.rows * s.cols
	return matrix{s.rows, s.cols, s.data[at*n : (at+1)*n]}
}

// broadcasts reports whether a batch is that shape after broadcasting.
func broadcasts(batch, to []int) bool {
	if len(batch) > len(to) {
		return false
	}
	for d, n := range batch {
		if n != 1 && n != to[d+len(to)-len(batch)] {
			return false
		}
	}
	return true
}
