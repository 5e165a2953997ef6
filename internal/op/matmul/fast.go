package matmul

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/single"
	"github.com/refrun/refrun/tensor"
)

// Products in the fast arithmetic of docs/NUMERICS.md, section 13: each element is
// single.Dot of a row and a column in chains of fastChain numbers, plus the bias, or 0. What
// the inner dimension lacks of a multiple of 8 are zeros.

const (
	fastBlock = 8
	fastChain = 128
)

// Matrices are float32 matrices that lie in one slice: the first at its beginning, number m
// At[m] numbers on, or all of them there if At is nil; Row numbers from a row to the next, and
// Col from a column to the next.
type Matrices struct {
	Data     []float32
	At       []int
	Row, Col int
}

func (m *Matrices) of(matrix int) []float32 {
	if m.At == nil {
		return m.Data
	}
	return m.Data[m.At[matrix]:]
}

// FastSingles sets dst [matrices][rows][n] to products of matrices a, of so many rows, and b, with n
// columns, in fast arithmetic. It calls then for pieces of dst, as Params has it; nil for nothing.
func FastSingles(dst []float32, a, b Matrices, matrices, rows, inner, n int, then func(at, n int)) {
	j := fastJobs.Get().(*fastJob)
	defer j.put()
	j.shape(matrices, rows, inner, n)
	j.a, j.b, j.to, j.then = a, b, dst, then
	j.run()
}

// ForwardFast is Forward of float32 matrices in fast arithmetic, and calls then as Params has it.
func ForwardFast(dst, a, b *tensor.Tensor, then func(at, n int)) {
	shape, err := Shape(a.Shape, b.Shape, Params{})
	if err != nil {
		panic(err.Error())
	}
	if !slices.Equal(shape, dst.Shape) || min(len(a.Shape), len(b.Shape)) < 2 {
		panic("matmul: operands and destination differ in shape")
	}
	rows, inner := ends(a.Shape, false, true)
	_, n := ends(b.Shape, false, false)
	batch := leading(dst.Shape)
	x, y, to := narrowed(a.Data), narrowed(b.Data), make([]float32, len(dst.Data))
	atA, atB := Places(batch, leading(a.Shape), nil), Places(batch, leading(b.Shape), nil)
	for i := range atA {
		atA[i], atB[i] = atA[i]*rows*inner, atB[i]*inner*n
	}
	FastSingles(to, Matrices{x, atA, inner, 1}, Matrices{y, atB, n, 1}, len(atA), rows, inner, n, func(at, n int) {
		for i, v := range to[at:][:n] {
			dst.Data[at+i] = float64(v)
			if v != v {
				dst.Data[at+i] = fp16.NaN
			}
		}
		if then != nil {
			then(at, n)
		}
	})
}

func narrowed(data []float64) []float32 {
	to := make([]float32, len(data))
	for i, v := range data {
		to[i] = float32(v)
	}
	return to
}

// Places returns where each matrix of a result with those leading dimensions lies in an operand of
// others, which are spread to them: they lie steps apart, or in order if steps is nil.
func Places(batch, of, steps []int) []int {
	if steps == nil {
		steps = make([]int, len(of))
		step := 1
		for d := len(of) - 1; d >= 0; d-- {
			steps[d] = step
			step *= of[d]
		}
	}
	n := 1
	for _, d := range batch {
		n *= d
	}
	at := make([]int, n)
	for i := range at {
		m := i
		for d := len(batch) - 1; d >= 0; d-- {
			if k := d - (len(batch) - len(of)); k >= 0 && of[k] > 1 {
				at[i] += m % batch[d] * steps[k]
			}
			m /= batch[d]
		}
	}
	return at
}

// plainRow is a row of a product: the definition.
func (j *fastJob) plainRow(i int) {
	matrix, r := i/j.rows, i%j.rows
	inner := j.blocks * fastBlock
	v := make([]float32, inner)
	for k := range j.inner {
		if j.wideA != nil {
			v[k] = float32(j.wideA[r*j.inner+k])
		} else {
			v[k] = j.a.of(matrix)[r*j.a.Row+k*j.a.Col]
		}
	}
	u := j.u
	if j.b.Data != nil {
		u = u[matrix*j.n*inner:]
	}
	for c := range j.n {
		y := oneNaN(single.Dot(u[c*inner:][:inner], v, fastChain) + j.bias[c])
		if j.wideTo != nil {
			j.wideTo[i*j.n+c] = float64(y)
		} else {
			j.to[i*j.n+c] = y
		}
	}
	if j.then != nil {
		j.then(i*j.n, j.n)
	}
}

// oneNaN is a number with the one NaN.
func oneNaN(v float32) float32 {
	if v != v {
		return float32(fp16.NaN)
	}
	return v
}
