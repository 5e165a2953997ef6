package grad

import (
	"slices"
	"strings"

	"github.com/refrun/refrun/graph"
)

// products are the rules of sums of products.
func products() map[string]rule {
	return map[string]rule{"matmul": product, "mm": product, "bmm": product, "linear": linear, "addmm": addmm,
		"baddbmm": addmm, "gemm": gemm, "einsum": einsum,
		"scaled_dot_product_attention": func(s *step) { s.attention(false, scaledScores, false) }}
}

// product: d b^T and a^T d, vectors being matrices of one row on the left, one column on the right.
func product(s *step) {
	a, b, d := s.in[0], s.in[1], s.d
	if shape := s.shape(a); len(shape) == 1 {
		a = s.reshape(a, []int{1, shape[0]})
	}
	if shape := s.shape(b); len(shape) == 1 {
		b = s.reshape(b, []int{shape[0], 1})
	}
	if len(s.shape(s.in[1])) == 1 {
		d = s.reshape(d, append(slices.Clone(s.shape(d)), 1))
	}
	if len(s.shape(s.in[0])) == 1 {
		shape := slices.Clone(s.shape(d))
		d = s.reshape(d, slices.Insert(shape, len(shape)-1, 1))
	}
	s.byFactors(0, 1, a, b, d)
}

// byFactors gives d b^T by input ofA and a^T d by input ofB.
func (s *step) byFactors(ofA, ofB, a, b, d int) {
	if s.wants(ofA) {
		s.give(ofA, s.unlift(s.matmul(d, s.swap(b)), s.in[ofA], a))
	}
	if !s.wants(ofB) {
		return
	}
	if rows := len(s.shape(a)) - 1; len(s.shape(b)) == 2 && rows > 1 { // one sum over all rows
		a, d = s.rows(a), s.rows(d)
	}
	s.give(ofB, s.unlift(s.matmul(s.swap(a), d), s.in[ofB], b))
}

// rows sees a value as one matrix of all its rows.
func (t *tape) rows(v int) int {
	shape := t.shape(v)
	n := len(shape) - 1
	return t.reshape(v, []int{elements(shape[:n]), shape[n]})
}

// unlift brings the gradient by a matrix to the shape of the vector that it was made of.
func (s *step) unlift(d, input, lifted int) int {
	if input == lifted {
		return d
	}
	return s.reshape(s.fit(d, s.shape(lifted)), s.shape(input))
}

// linear: d w, d^T x of all rows, and the sum of d.
func linear(s *step) {
	w := s.in[1]
	if s.wants(0) {
		s.give(0, s.matmul(s.d, w))
	}
	if s.wants(1) {
		s.give(1, s.matmul(s.swap(s.rows(s.d)), s.rows(s.x)))
	}
	s.give(2, s.d)
}

// addmm: beta d, and alpha times what a product has.
func addmm(s *step) {
	o := s.op.(graph.AddMM)
	if s.wants(0) {
		s.give(0, s.scale(o.Beta, s.d))
	}
	s.byFactors(1, 2, s.in[1], s.in[2], s.scale(o.Alpha, s.d))
}

// gemm: of A as it is alpha d op(B)^T, transposed alpha op(B) d^T; of B alike.
func gemm(s *step) {
	o := s.op.(graph.Gemm)
	a, b := s.in[0], s.in[1]
	of := func(transA, transB bool, a, b int) int {
		return s.apply(graph.Gemm{Alpha: o.Alpha, Beta: 1, TransA: transA, TransB: transB}, a, b)
	}
	switch {
	case !s.wants(0):
	case o.TransA:
		s.give(0, of(o.TransB, true, b, s.d))
	default:
		s.give(0, of(false, !o.TransB, s.d, b))
	}
	switch {
	case !s.wants(1):
	case o.TransB:
		s.give(1, of(true, o.TransA, s.d, a))
	default:
		s.give(1, of(!o.TransA, false, a, s.d))
	}
	if s.wants(2) {
		s.give(2, s.scale(o.Beta, s.d))
	}
}

// einsum: by each operand the einsum of d and the others; labels that only this operand has are
// spread.
func einsum(s *step) {
	terms, result, ok := labels(s.op.(graph.Einsum).Equation)
	if !ok {
		s.refuse("no rule for an ellipsis, or a label that occurs twice in one operand")
		return
	}
	for k, term := range terms {
		if !s.wants(k) {
			continue
		}
		given, in := []string{result}, []int{s.d}
		for j, other := range terms {
			if j != k {
				given, in = append(given, other), append(in, s.in[j])
			}
		}
		all := strings.Join(given, "")
		kept, shape := "", []int{}
		for i, l := range term {
			if strings.ContainsRune(all, l) {
				kept += string(l)
				shape = append(shape, 0) // whatever comes
			} else {
				shape = append(shape, s.shape(s.in[k])[i])
			}
		}
		d := s.apply(graph.Einsum{Equation: strings.Join(given, ",") + "->" + kept}, in...)
		if s.err != nil {
			return
		}
		one, next := slices.Clone(shape), 0
		for i := range shape {
			if shape[i] == 0 {
				one[i] = s.shape(d)[next]
				next++
			} else {
				one[i] = 1
			}
		}
		s.give(k, s.reshape(d, one))
	}
}

// labels returns those of the operands and of the result; false for what has no rule.
func labels(equation string) (terms []string, result string, ok bool) {
	equation = strings.ReplaceAll(equation, " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms = strings.Split(left, ",")
	if strings.Contains(equation, ".") {
		return nil, "", false
	}
	counts := map[rune]int{}
	for _, term := range terms {
		for _, l := range term {
			counts[l]++
			if strings.Count(term, string(l)) > 1 {
				return nil, "", false
			}
		}
	}
	if explicit {
		return terms, right, true
	}
	var once []rune
	for l, n := range counts {
		if n == 1 {
			once = append(once, l)
		}
	}
	slices.Sort(once)
	return terms, string(once), true
}
