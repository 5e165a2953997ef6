package factor

import (
	"cmp"
	"math"
	"slices"

	"github.com/refrun/refrun/tensor"
)

// A fault is another question to which the outputs are a right answer.
type fault struct {
	id       string
	args     []any
	question Question
	unit     float64 // of other sums, or 0
	claim    string  // which alone does not hold of outputs with this fault
}

// faults are those of the operation, the first of which that explains the outputs is named.
func (q Question) faults() (all []fault) {
	outputs := func(id string, change func(outputs []*tensor.Tensor), args ...any) {
		bent := q
		bent.Outputs = nil
		for _, t := range q.Outputs {
			bent.Outputs = append(bent.Outputs, t.Clone())
		}
		change(bent.Outputs)
		all = append(all, fault{id: id, args: args, question: bent})
	}
	options := func(id string, change func(s *Spec)) {
		bent, s := q, *q.Spec
		change(&s)
		bent.Spec = &s
		all = append(all, fault{id: id, question: bent})
	}
	switch q.Spec.Op {
	case "cholesky":
		outputs("factor.transposed", func(o []*tensor.Tensor) { transpose(o[0]) }, "the factor")
		outputs("factor.triangle", func(o []*tensor.Tensor) { clearTriangle(o[0], !q.Spec.Upper) })
	case "solve_triangular", "triangular_solve":
		options("factor.transposed-solve", func(s *Spec) { s.Transpose = !s.Transpose })
		options("factor.unit-diagonal", func(s *Spec) { s.Unitriangular = !s.Unitriangular })
		options("factor.other-triangle", func(s *Spec) { s.Upper = !s.Upper })
	case "solve":
		options("factor.transposed-solve", func(s *Spec) { s.Transpose = !s.Transpose })
	case "inv":
		outputs("factor.transposed", func(o []*tensor.Tensor) { transpose(o[0]) }, "the inverse")
	case "qr":
		if q.Spec.Mode != "r" {
			outputs("factor.transposed", func(o []*tensor.Tensor) { transpose(o[0]) }, "Q")
			outputs("factor.triangle", func(o []*tensor.Tensor) { clearTriangle(o[1], false) })
			outputs("factor.column-sign", func(o []*tensor.Tensor) { signs(q.Inputs[0], o[0], o[1]) })
			all = append(all, fault{id: "factor.not-orthogonal", question: q, claim: "the columns of Q are orthogonal"})
		}
	case "eigh":
		outputs("factor.transposed", func(o []*tensor.Tensor) { transpose(o[1]) }, "the matrix of eigenvectors")
		outputs("factor.order", func(o []*tensor.Tensor) { sortPairs(o[0], o[1]) })
		outputs("factor.pairs", func(o []*tensor.Tensor) { pair(q.Inputs[0], o[1]) })
	case "lu":
		if q.Spec.Pivot {
			outputs("factor.transposed", func(o []*tensor.Tensor) { transpose(o[0]) }, "P")
		}
		outputs("factor.triangle", func(o []*tensor.Tensor) {
			clearTriangle(o[len(o)-2], true)
			clearTriangle(o[len(o)-1], false)
		})
		all = append(all, fault{id: "factor.pivots", question: q, claim: "no number of L is beyond 1"})
	case "lu_factor":
		outputs("factor.pivot-base", func(o []*tensor.Tensor) { count(o[1]) })
		all = append(all, fault{id: "factor.pivots", question: q, claim: "no number of L is beyond 1"})
	case "lu_solve":
		options("factor.transposed-solve", func(s *Spec) { s.Adjoint = !s.Adjoint })
		bent := q
		bent.Inputs = slices.Clone(q.Inputs)
		bent.Inputs[2] = identical(q.Inputs[2])
		all = append(all, fault{id: "factor.exchanges", question: bent})
	case "cholesky_solve":
		options("factor.other-triangle", func(s *Spec) { s.Upper = !s.Upper })
	case "det", "slogdet":
		outputs("factor.exchange-sign", func(o []*tensor.Tensor) { turn(q.Inputs[0], o[0]) })
		if q.Spec.Op == "slogdet" {
			outputs("factor.logarithm", func(o []*tensor.Tensor) { scale(o[1], math.Ln2) }, "2")
			outputs("factor.logarithm", func(o []*tensor.Tensor) { scale(o[1], math.Ln10) }, "10")
		}
	case "svd":
		outputs("factor.transposed", func(o []*tensor.Tensor) { transpose(o[2]) }, "Vh")
	}
	for _, of := range []struct {
		unit float64
		name string
	}{{elevenBits, "float16 or TF32"}, {eightBits, "bfloat16"}} {
		all = append(all, fault{id: "factor.narrow-sums", args: []any{of.name}, question: q, unit: of.unit})
	}
	return all
}

// each calls f with each matrix of a tensor.
func each(t *tensor.Tensor, f func(k int, m matrix)) {
	s := stacked(t, false)
	for k := range tensor.Size(s.batch) {
		f(k, s.of(k, s.batch))
	}
}

// transpose transposes square matrices.
func transpose(t *tensor.Tensor) {
	each(t, func(_ int, m matrix) {
		if m.rows == m.cols {
			copy(m.a, m.transposed().a)
		}
	})
}

// clearTriangle puts zeros above the diagonal, or below it.
func clearTriangle(t *tensor.Tensor, above bool) {
	each(t, func(_ int, m matrix) {
		for i := range m.rows {
			for j := range m.cols {
				if above && j > i || !above && j < i {
					m.row(i)[j] = 0
				}
			}
		}
	})
}

// signs gives each column of q the sign of its row of r: that with which their product is nearer.
func signs(a, q, r *tensor.Tensor) {
	each(a, func(at int, a matrix) {
		sq, sr := stacked(q, false), stacked(r, false)
		q, r := sq.of(at, sq.batch), sr.of(at, sr.batch)
		for k := range q.cols {
			along, length := 0.0, 0.0 // of column k with what is left of A without the others, which are orthogonal to it
			for i := range a.rows {
				for j := range a.cols {
					along += float64(q.at(i, k) * a.at(i, j) * r.at(k, j))
				}
			}
			for j := range r.cols {
				length += float64(r.at(k, j) * r.at(k, j))
			}
			if along < 0 && length > 0 {
				for i := range q.rows {
					q.row(i)[k] = -q.at(i, k)
				}
			}
		}
	})
}

// count adds 1 to each.
func count(t *tensor.Tensor) {
	for k := range t.Data {
		t.Data[k]++
	}
}

// identical are pivots that exchange nothing.
func identical(t *tensor.Tensor) *tensor.Tensor {
	t = t.Clone()
	for k := range t.Data {
		t.Data[k] = float64(k%t.Shape[len(t.Shape)-1] + 1)
	}
	return t
}

// turn gives determinants the sign that their matrices' have.
func turn(a, out *tensor.Tensor) {
	each(a, func(at int, a matrix) {
		if e, ok := eliminate(a); ok {
			out.Data[at] = math.Copysign(out.Data[at], e.sign())
		}
	})
}

// scale multiplies by a number.
func scale(t *tensor.Tensor, by float64) {
	for k := range t.Data {
		t.Data[k] *= by
	}
}

// sortPairs puts eigenvalues in order, and their vectors with them.
func sortPairs(w, v *tensor.Tensor) {
	each(v, func(at int, v matrix) {
		reorder(w.Data[at*v.cols:(at+1)*v.cols], v)
	})
}

// reorder sorts keys, and columns with them.
func reorder(keys []float64, v matrix) {
	order := make([]int, len(keys))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	old, was := slices.Clone(v.a), slices.Clone(keys)
	for to, from := range order {
		keys[to] = was[from]
		for i := range v.rows {
			v.row(i)[to] = old[i*v.cols+from]
		}
	}
}

// pair puts vectors in the order of their own eigenvalues.
func pair(a, v *tensor.Tensor) {
	each(v, func(at int, v matrix) {
		s := stacked(a, false)
		a := s.of(at, s.batch)
		keys := make([]float64, v.cols)
		for j := range keys {
			for i := range a.rows {
				for k := range a.cols {
					keys[j] += float64(v.at(i, j) * a.at(i, k) * v.at(k, j))
				}
			}
		}
		reorder(keys, v)
	})
}
