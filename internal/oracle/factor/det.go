package factor

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// A det is a determinant as sign e^log, and what right kernels are off.
//
// By elimination it is the determinant of A + E, whose numbers are off by what their sums are, independently: times 1 +
// tr(A^-1 E) and what is of second order, and times the roundings of the product of the diagonal.
type det struct {
	sign              float64
	diagonal          []float64
	most              float64 // the logarithm of the product of its numbers beyond 1
	deviation, second float64 // of the logarithm
	plain             float64 // the deviation of the determinant, if it is expanded
}

// determinant is a matrix's, or false if it is singular to roundings.
func (t *trial) determinant(a matrix) (*det, bool) {
	n := a.rows
	e, ok := eliminate(a)
	if !ok {
		return nil, false
	}
	d := &det{sign: e.sign()}
	for i := range n {
		v := e.lu.at(i, i)
		d.diagonal = append(d.diagonal, v)
		d.most += max(elem.Log(math.Abs(v)), 0)
	}
	unit := float64(t.unit*t.unit) + float64(computedHere.unit*computedHere.unit) // what it is compared with is off, too
	one, along, whole := identity(n), 0.0, 0.0
	for j := range n {
		x := e.solved(one, j) // column j of the inverse
		length := norm(x)
		for i := range n {
			variance := float64(float64(n+beside) * unit * (e.squares.at(j, i) + float64(a.at(j, i)*a.at(j, i))))
			along += float64(variance * x[i] * x[i])
			whole += float64(variance * length * length)
		}
	}
	d.deviation = math.Sqrt(float64(uniform * (along + float64(float64(n)*unit))))
	if n <= expanded {
		d.plain = float64(t.unit * math.Sqrt(float64(2*uniform*float64(n))) * a.permanent())
	}
	far := float64(t.limit * math.Sqrt(uniform*whole))
	d.second = float64(far * far)
	return d, 2*far < 1
}

// sign is that of the diagonal and of the exchanges of rows.
func (e *elimination) sign() float64 {
	sign, seen := 1.0, make([]bool, len(e.order))
	for i := range e.order {
		sign *= math.Copysign(1, e.lu.at(i, i))
		for k := e.order[i]; !seen[i] && k != i; k = e.order[k] {
			seen[k] = true
			sign = -sign
		}
	}
	return sign
}

// permanent is the sum of the products of a determinant without their signs.
func (m matrix) permanent() (all float64) {
	if m.rows == 0 {
		return 1
	}
	for j := range m.cols {
		rest := zeros(m.rows-1, m.cols-1)
		for i := 1; i < m.rows; i++ {
			copy(rest.row(i-1), m.row(i)[:j])
			copy(rest.row(i - 1)[j:], m.row(i)[j+1:])
		}
		all += float64(math.Abs(m.at(0, j)) * rest.permanent())
	}
	return all
}

// judged is a determinant, of matrices that are not singular to roundings.
func (t *trial) judged(a matrix) *det {
	d, ok := t.determinant(a)
	if !ok {
		t.unjudged++
		return nil
	}
	t.tells = true
	return d
}

// det claims a determinant that the format has, and that no product of some of the diagonal's numbers goes beyond.
func (t *trial) det(a matrix, out float64) {
	d := t.judged(a)
	if d == nil {
		return
	}
	if d.most > elem.Log(t.Outputs[0].Format.Largest()/2) {
		t.unjudged++
		return
	}
	size := magnitude(d.diagonal)
	// a product of numbers below 1 may be subnormal, and those beyond 1 follow
	lost := float64(t.least * elem.Exp(d.most))
	off := math.Sqrt(float64(d.deviation*d.deviation)+float64(uniform*t.stored*t.stored)) + d.second/t.limit
	deviation := max(float64(size*off*(1+float64(t.limit*off))), d.plain) + lost
	t.likely("the determinant is that of the matrix", math.Abs(out-float64(d.sign*size)), deviation)
}

// slogdet claims a sign and a logarithm.
func (t *trial) slogdet(a matrix, sign, log float64) {
	if d := t.judged(a); d != nil {
		t.exactly("the sign is that of the determinant", sign == d.sign)
		t.logarithm(d, log)
	}
}

// logdet claims a logarithm, or NaN of a negative determinant.
func (t *trial) logdet(a matrix, log float64) {
	switch d := t.judged(a); {
	case d == nil:
	case d.sign < 0:
		t.exactly("the logarithm of a negative determinant is NaN", log != log)
	default:
		t.logarithm(d, log)
	}
}

// logarithm claims the sum of the diagonal's logarithms, in any order, or that of its product.
func (t *trial) logarithm(d *det, log float64) {
	var s sum
	squares := 0.0
	for _, v := range d.diagonal {
		l := elem.Log(math.Abs(v))
		s.add(1, l)
		squares += float64(l * l)
	}
	whole := s.whole.Hi
	_, _, sums := s.against(whole, t.arithmetic, 0)
	logs := float64(logarithms * logarithms * t.unit * t.unit * (squares + float64(whole*whole)))
	variance := float64(uniform * (logs + float64(t.stored*t.stored*whole*whole)))
	deviation := math.Sqrt(float64(d.deviation*d.deviation)+float64(sums*sums)+variance) + d.second/t.limit
	t.likely("the logarithm is that of the determinant", math.Abs(log-whole), deviation)
}

// magnitude is a product without its sign, whose partial products float64 need not have.
func magnitude(of []float64) float64 {
	m, e := 1.0, 0
	for _, v := range of {
		f, by := math.Frexp(math.Abs(v))
		m, e = float64(m*f), e+by
		m, by = math.Frexp(m)
		e += by
	}
	return math.Ldexp(m, e)
}
