package matmul

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Einsum evaluates Einstein's notation, as numpy.einsum and torch.einsum have it, into
// dst: "bij,bjk->bik". A label that occurs twice in an operand is its diagonal, one that
// the result lacks is summed over, "..." stands for leading dimensions that are
// broadcast, and without "->" the result has the labels that occur once, in order of the
// alphabet. Dimensions of 1 are broadcast.
//
// One or two operands are one function, rounded once. More are a chain: the first two,
// their result, rounded to dst's format, and the third, and so on, each result with the
// labels that are still needed. In float64 the sum runs over the labels in the order in
// which they first occur, the last one fastest.
func Einsum(dst *tensor.Tensor, spec string, operands ...*tensor.Tensor) error {
	return EinsumChain(dst, spec, func(t *tensor.Tensor) *tensor.Tensor { return t }, operands...)
}

// EinsumChain is Einsum with a function that makes each result but the last the operand
// of the next product, such as one that rounds it to TF32.
func EinsumChain(
	dst *tensor.Tensor, spec string, operand func(*tensor.Tensor) *tensor.Tensor, operands ...*tensor.Tensor,
) error {
	shapes := make([][]int, len(operands))
	for i, t := range operands {
		shapes[i] = t.Shape
		if t.Format == fp16.Float64 && dst.Format != fp16.Float64 {
			return fmt.Errorf("einsum: %.60q: operand %d is float64: want a float64 destination", spec, i+1)
		}
	}
	e, err := parse(spec, shapes)
	if err != nil {
		return err
	}
	if shape := e.shape(e.out); !slices.Equal(shape, dst.Shape) {
		return fmt.Errorf("einsum: %.60q: destination of shape %v: want %v", spec, dst.Shape, shape)
	}
	left, labels := operands[0], e.in[0]
	if len(operands) == 1 {
		e.pair(dst, e.out, left, labels, tensor.Of(left.Format, []float64{1}), nil)
		return nil
	}
	for i := 1; i < len(operands); i++ {
		to, out := dst, e.out
		if i < len(operands)-1 {
			out = e.needed(labels, i)
			to = tensor.New(dst.Format, e.shape(out)...)
		}
		e.pair(to, out, left, labels, operands[i], e.in[i])
		if labels = out; to != dst {
			left = operand(to)
		}
	}
	return nil
}

// EinsumShape returns the shape of a result of Einsum.
func EinsumShape(spec string, shapes ...[]int) ([]int, error) {
	e, err := parse(spec, shapes)
	if err != nil {
		return nil, err
	}
	return e.shape(e.out), nil
}

// EinsumCost returns the numbers of the largest tensor that Einsum makes, copies of operands
// in another order among them, with dimensions of 0 counted as 1; and how many products it
// adds. Both are 0 for what Einsum refuses.
func EinsumCost(spec string, shapes ...[]int) (numbers, products float64) {
	e, err := parse(spec, shapes)
	if err != nil {
		return 0, 0
	}
	size := func(least int, labels ...[]rune) float64 {
		n := 1.0
		for _, l := range slices.Concat(labels...) {
			n *= float64(max(least, e.size[l]))
		}
		return n
	}
	labels := e.in[0]
	for i := range max(1, len(e.in)-1) {
		out, right := e.out, []rune(nil)
		if len(e.in) > 1 {
			right = e.in[i+1]
		}
		if i+2 < len(e.in) {
			out = e.needed(labels, i+1)
		}
		batch, rows, cols, inner := divide(out, labels, right)
		numbers = max(numbers, size(1, batch, rows, inner), size(1, batch, cols, inner), size(1, out))
		products += size(0, batch, rows, cols, inner)
		labels = out
	}
	return numbers, products
}

// einsum is a specification with sizes. Labels are letters, or numbers from dots on for
// the dimensions of an ellipsis, counted from the last.
type einsum struct {
	in   [][]rune
	out  []rune
	size map[rune]int
}

const dots = 1 << 16

// parse reads a specification for operands of given shapes.
func parse(spec string, shapes [][]int) (*einsum, error) {
	wrong := func(format string, args ...any) (*einsum, error) {
		return nil, fmt.Errorf("einsum: %.60q: "+format, append([]any{spec}, args...)...)
	}
	left, right, explicit := strings.Cut(strings.ReplaceAll(spec, " ", ""), "->")
	terms := strings.Split(left, ",")
	if len(shapes) == 0 || len(terms) != len(shapes) {
		return wrong("%d operands: want %d", len(shapes), len(terms))
	}
	e := &einsum{size: map[rune]int{}}
	count, most := map[rune]int{}, 0
	for i, term := range terms {
		labels, hidden, ok := expand(term, len(shapes[i]))
		if !ok {
			return wrong("operand %d, %.60q of shape %v: want letters, one for each dimension, and at most one \"...\"",
				i+1, term, shapes[i])
		}
		most = max(most, hidden)
		for d, l := range labels {
			n := shapes[i][d]
			if old, ok := e.size[l]; !ok || old == 1 {
				e.size[l] = n
			} else if n != 1 && n != old {
				return wrong("operand %d of shape %v: dimension %d: want %d or 1", i+1, shapes[i], d+1, old)
			}
			count[l]++
		}
		e.in = append(e.in, labels)
	}
	if explicit {
		hidden := 0
		if strings.Contains(right, "...") {
			hidden = most
		}
		var ok bool
		if e.out, _, ok = expand(right, len(strings.Replace(right, "...", "", 1))+hidden); !ok {
			return wrong("result %.60q: want letters and at most one \"...\"", right)
		}
	} else {
		for l, n := range count {
			if n == 1 || l >= dots {
				e.out = append(e.out, l)
			}
		}
		slices.SortStableFunc(e.out, func(a, b rune) int {
			if a >= dots || b >= dots {
				return int(b) - int(a) // the ellipsis first, its last dimension last
			}
			return int(a) - int(b)
		})
	}
	for i, l := range e.out {
		if _, ok := e.size[l]; !ok || slices.Contains(e.out[:i], l) {
			return wrong("result %.60q: want each label once, of those of the operands", right)
		}
	}
	return e, nil
}

// expand returns the labels of a term of that rank, and how many an ellipsis stands for.
func expand(term string, rank int) (labels []rune, hidden int, ok bool) {
	before, after, found := strings.Cut(term, "...")
	hidden = rank - len(before) - len(after)
	if hidden < 0 || !found && hidden != 0 {
		return nil, 0, false
	}
	labels = []rune(before)
	for i := range hidden {
		labels = append(labels, rune(dots+hidden-1-i))
	}
	labels = append(labels, []rune(after)...)
	for _, l := range labels {
		if l < dots && (l < 'A' || l > 'Z') && (l < 'a' || l > 'z') {
			return nil, 0, false
		}
	}
	return labels, hidden, true
}

func (e *einsum) shape(labels []rune) []int {
	shape := make([]int, len(labels))
	for i, l := range labels {
		shape[i] = e.size[l]
	}
	return shape
}

// needed returns the labels of the first i+1 operands, of which labels is what the
// first i left, that others or the result have.
func (e *einsum) needed(labels []rune, i int) (out []rune) {
	for _, l := range append(slices.Clone(labels), e.in[i]...) {
		wanted := slices.Contains(e.out, l)
		for _, later := range e.in[i+1:] {
			wanted = wanted || slices.Contains(later, l)
		}
		if wanted && !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// divide says what the labels of two operands are for a product of matrices: those of both
// and of the result number the matrices, those of one and of the result its rows or columns,
// and what is left is summed over.
func divide(out, la, lb []rune) (batch, rows, cols, inner []rune) {
	for _, l := range append(slices.Clone(out), append(slices.Clone(la), lb...)...) {
		inA, inB := slices.Contains(la, l), slices.Contains(lb, l)
		switch {
		case slices.Contains(slices.Concat(batch, rows, cols, inner), l):
		case !slices.Contains(out, l):
			inner = append(inner, l)
		case inA && inB:
			batch = append(batch, l)
		case inA:
			rows = append(rows, l)
		default:
			cols = append(cols, l)
		}
	}
	return batch, rows, cols, inner
}

// pair evaluates two operands as products of matrices. An operand that lacks a label that
// is summed over repeats itself.
func (e *einsum) pair(dst *tensor.Tensor, out []rune, a *tensor.Tensor, la []rune, b *tensor.Tensor, lb []rune) {
	batch, rows, cols, inner := divide(out, la, lb)
	size := func(labels []rune) int { return tensor.Size(e.shape(labels)) }
	n, m, k, o := size(batch), size(rows), size(inner), size(cols)
	x := tensor.Of(a.Format, e.lay(a, la, slices.Concat(batch, rows, inner)), n, m, k)
	p := Params{}
	y, order := e.view(b, lb, slices.Concat(batch, cols, inner)), []int{n, o, k}
	if p.TransB = y != nil; !p.TransB {
		y, order = e.lay(b, lb, slices.Concat(batch, inner, cols)), []int{n, k, o}
	}
	// The result has these labels in another order, perhaps.
	made := slices.Concat(batch, rows, cols)
	result := dst.Data
	if !slices.Equal(made, out) {
		result = make([]float64, len(dst.Data))
	}
	Forward(tensor.Of(dst.Format, result, n, m, o), x, tensor.Of(b.Format, y, order...), p)
	if !slices.Equal(made, out) {
		copy(dst.Data, e.lay(tensor.Of(dst.Format, result, e.shape(made)...), made, out))
	}
}

// strides returns how far apart in t, labelled la, neighbours along labels are: 0 where
// t has none.
func (e *einsum) strides(t *tensor.Tensor, la, labels []rune) []int {
	all, step := make([]int, len(labels)), 1
	for d := len(la) - 1; d >= 0; d-- {
		if at := slices.Index(labels, la[d]); at >= 0 && t.Shape[d] > 1 {
			all[at] += step
		}
		step *= t.Shape[d]
	}
	return all
}

// view returns t's numbers if they are in the order of labels as they are, or nil.
func (e *einsum) view(t *tensor.Tensor, la, labels []rune) []float64 {
	step := 1
	strides := e.strides(t, la, labels)
	for d := len(labels) - 1; d >= 0; d-- {
		if n := e.size[labels[d]]; n != 1 {
			if strides[d] != step {
				return nil
			}
			step *= n
		}
	}
	if step != len(t.Data) {
		return nil
	}
	return t.Data
}

// lay returns t's numbers in the order of labels, which are all of t's that are not
// dimensions of 1.
func (e *einsum) lay(t *tensor.Tensor, la, labels []rune) []float64 {
	if same := e.view(t, la, labels); same != nil {
		return same
	}
	shape, strides := e.shape(labels), e.strides(t, la, labels)
	out := make([]float64, 0, tensor.Size(shape))
	var walk func(d, at int)
	walk = func(d, at int) {
		if d == len(shape) {
			out = append(out, t.Data[at])
			return
		}
		for range shape[d] {
			walk(d+1, at)
			at += strides[d]
		}
	}
	if cap(out) > 0 {
		walk(0, 0)
	}
	return out
}
