// Package attention is scaled dot-product attention as one function of the stored query,
// key, value and mask, rounded once:
//
//	y[i,c] = sum over j of e^z[i,j] v[j,c] / sum over j of e^z[i,j],
//	z[i,j] = scale (sum over e of q[i,e] k[j,e]) + mask[i,j].
//
// A Float64 destination is the exception, as everywhere in this project: there the product
// of q and k is package matmul's, scale and mask round once each, the greatest z is taken
// from all, exponentials are internal/exact/elem's and are added in the order of j, the product of
// them and v is package matmul's again, and the quotient rounds once.
//
// A key that is masked takes no part, whatever it and its value hold: one whose truth value
// in the mask is 0, whose number there is -Inf, that comes later than the query where they
// are causal, or whose z is -Inf. (PyTorch multiplies its value by 0, which makes NaN of NaN
// and infinities.) Where no key takes part, or there is none, the result is +0, as in PyTorch
// 2.5 and later, which was NaN before. A z of NaN or +Inf makes its row NaN. Infinities and NaNs among
// values reach their column as in a sum with positive factors. An exact 0 is +0.
//
// The method: float64 with a proven bound (bound.go), and what that leaves open once more
// with a sharper one, or by integers and as many bits as it takes (settle.go).
//
// In use:
//
//	attention.Forward(y, q, k, v, attention.Params{})
package attention

import (
	"fmt"
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/tensor"
)

// Params says what attention is paid to. The zero value is to all, with 1/sqrt(E).
type Params struct {
	Mask   *tensor.Tensor // [...,L,S], broadcast: truth values (Int64) or numbers to be added; nil is none
	Causal bool           // query i sees keys 0 to i
	Scale  *float64       // nil is the quotient of 1 and the root of E, both rounded to float64
}

// Forward sets dst [...,L,V] for a query [...,L,E], a key [...,S,E] and a value [...,S,V].
// Leading dimensions are broadcast. Formats may differ, but a Float64 operand needs a
// Float64 dst. It panics if shapes or formats do not fit together.
func Forward(dst, query, key, value *tensor.Tensor, p Params) {
	s := spaces.Get().(*space)
	defer spaces.Put(s)
	s.begin(dst, query, key, value, p)
	for s.matrix = 0; s.matrix < s.matrices; s.matrix++ {
		s.one()
	}
	s.end()
}

var spaces = sync.Pool{New: func() any { return newSpace() }}

// space is the memory of one call, kept for others.
type space struct {
	dst, q, k, v, mask operand
	causal             bool
	scale              float64
	matrices, matrix   int
	L, S, E, V         int
	batch              []int
	plain              bool // float64

	product         *matmul.Space
	scores, sums    tensor.Tensor
	part, keys, val tensor.Tensor // of the operands
	of              [5]int        // where the matrix lies in dst, q, k, v and mask
	first, rows     int           // queries under way
	row             []rowBound
	kNorms, vNorms  []float64
	weigh, finish   func(i int)
}

// operand is a tensor with the steps of its leading dimensions.
type operand struct {
	*tensor.Tensor
	steps    []int
	row, col int
}

func newSpace() *space {
	s := &space{product: matmul.NewSpace()}
	s.weigh, s.finish = s.weighRow, s.finishRow
	return s
}

// most is how many scores are in memory at a time, or those of a query.
const most = 1 << 20

// see notes where the matrices of an operand lie.
func (s *space) see(o *operand, t *tensor.Tensor, name string, rows, cols int) {
	o.Tensor = t
	n := len(t.Shape)
	if n < 2 || (t.Shape[n-2] != rows && (name != "mask" || t.Shape[n-2] != 1)) ||
		(t.Shape[n-1] != cols && (name != "mask" || t.Shape[n-1] != 1)) || n-2 > len(s.batch) {
		panic(fmt.Sprintf("attention: %s: shape %v: want [...,%d,%d]", name, t.Shape, rows, cols))
	}
	if o.row, o.col = t.Shape[n-1], 1; t.Shape[n-2] == 1 {
		o.row = 0
	}
	if t.Shape[n-1] == 1 {
		o.col = 0
	}
	o.steps = append(o.steps[:0], s.batch...)
	step := t.Shape[n-2] * t.Shape[n-1]
	for d := range s.batch {
		at, to := n-3-d, len(s.batch)-1-d
		o.steps[to] = 0
		if at < 0 || t.Shape[at] == 1 && s.batch[to] != 1 {
			continue
		}
		if t.Shape[at] != s.batch[to] {
			panic(fmt.Sprintf("attention: %s: shape %v: want leading dimensions that can be broadcast to %v",
				name, t.Shape, s.batch))
		}
		o.steps[to] = step
		step *= t.Shape[at]
	}
}

func (s *space) begin(dst, q, k, v *tensor.Tensor, p Params) {
	if min(len(dst.Shape), len(q.Shape), len(k.Shape), len(v.Shape)) < 2 {
		panic("attention: want two dimensions or more")
	}
	ends := func(t *tensor.Tensor) (rows, cols int) { return t.Shape[len(t.Shape)-2], t.Shape[len(t.Shape)-1] }
	s.L, s.E = ends(q)
	s.S, s.V = ends(v)
	s.batch = dst.Shape[:len(dst.Shape)-2]
	s.matrices = 1
	for _, n := range s.batch {
		s.matrices *= n
	}
	s.see(&s.dst, dst, "destination", s.L, s.V)
	s.see(&s.q, q, "query", s.L, s.E)
	s.see(&s.k, k, "key", s.S, s.E)
	s.see(&s.v, v, "value", s.S, s.V)
	s.plain = dst.Format == fp16.Float64
	wide := q.Format == fp16.Float64 || k.Format == fp16.Float64 || v.Format == fp16.Float64
	if s.mask = (operand{steps: s.mask.steps}); p.Mask != nil {
		s.see(&s.mask, p.Mask, "mask", s.L, s.S)
		wide = wide || p.Mask.Format == fp16.Float64
	}
	if wide && !s.plain {
		panic("attention: float64 operands need a float64 destination")
	}
	if s.E < 1 {
		panic("attention: a query is empty")
	}
	s.causal, s.scale = p.Causal, 1/math.Sqrt(float64(s.E))
	if p.Scale != nil {
		s.scale = *p.Scale
	}
	if !(math.Abs(s.scale) <= MostScale) {
		panic("attention: scale: want a number of at most 2^500")
	}
}

// MostScale bounds the size of a scale.
const MostScale = 0x1p500

// end forgets the operands.
func (s *space) end() {
	for _, o := range []*operand{&s.dst, &s.q, &s.k, &s.v, &s.mask} {
		o.Tensor = nil
	}
	s.part.Data, s.keys.Data, s.val.Data, s.batch = nil, nil, nil, nil
}

// one computes a matrix.
func (s *space) one() {
	for i, o := range []*operand{&s.dst, &s.q, &s.k, &s.v, &s.mask} {
		at, m := 0, s.matrix
		for d := len(s.batch) - 1; d >= 0 && o.Tensor != nil; d-- {
			at += m % s.batch[d] * o.steps[d]
			m /= s.batch[d]
		}
		s.of[i] = at
	}
	if s.S == 0 || s.V == 0 || s.L == 0 {
		clear(s.dst.Data[s.of[0]:][:s.L*s.V])
		return
	}
	matrix(&s.keys, s.k.Format, s.k.Data[s.of[2]:], s.S, s.E)
	matrix(&s.val, s.v.Format, s.v.Data[s.of[3]:], s.S, s.V)
	s.norms()
	for s.first = 0; s.first < s.L; s.first += s.rows {
		s.rows = max(1, min(s.L-s.first, most/s.S))
		matrix(&s.part, s.q.Format, s.q.Data[s.of[1]+s.first*s.E:], s.rows, s.E)
		matrix(&s.scores, fp16.Float64, room(&s.scores.Data, s.rows*s.S), s.rows, s.S)
		matrix(&s.sums, fp16.Float64, room(&s.sums.Data, s.rows*s.V), s.rows, s.V)
		room(&s.row, s.rows)
		s.product.Forward(&s.scores, &s.part, &s.keys, matmul.Params{TransB: true})
		par.For(s.rows, s.weigh)
		s.product.Forward(&s.sums, &s.scores, &s.val, matmul.Params{})
		par.For(s.rows, s.finish)
	}
}

// matrix sets a tensor to the first numbers of some.
func matrix(t *tensor.Tensor, f fp16.Format, data []float64, rows, cols int) {
	t.Format, t.Shape, t.Data = f, append(t.Shape[:0], rows, cols), data[:rows*cols]
}

// room sets a slice's length.
func room[T any](v *[]T, n int) []T {
	if cap(*v) < n {
		*v = make([]T, n)
	}
	*v = (*v)[:n]
	return *v
}

// masked returns what the mask adds to z of query i and key j, or that the key takes no part.
func (s *space) masked(i, j int) (added float64, out bool) {
	if s.causal && j > i {
		return 0, true
	}
	if s.mask.Tensor == nil {
		return 0, false
	}
	v := s.mask.Data[s.of[4]+i*s.mask.row+j*s.mask.col]
	if s.mask.Format == fp16.Int64 {
		return 0, v == 0
	}
	return v, v == math.Inf(-1)
}

// weighRow makes weights of scores, e^(z - the greatest z), 0 for keys that take no part, and
// bounds what they are off by.
func (s *space) weighRow(r int) {
	i, z := s.first+r, s.scores.Data[r*s.S:][:s.S]
	b := &s.row[r]
	*b = rowBound{}
	greatest, undefined := math.Inf(-1), false
	for j, v := range z {
		added, out := s.masked(i, j)
		v = float64(s.scale * v)
		if s.mask.Tensor != nil && s.mask.Format != fp16.Int64 {
			v += added
		}
		if out {
			v = math.Inf(-1)
		}
		undefined = undefined || v != v
		greatest = max(greatest, v)
		z[j] = v
	}
	switch {
	case undefined || greatest == math.Inf(1):
		b.is = notANumber
	case greatest == math.Inf(-1):
		b.is = nothing
	}
	if b.is != usual {
		clear(z)
		return
	}
	if s.plain {
		for j, v := range z {
			z[j] = weight(v, greatest)
			b.sum += z[j]
		}
		return
	}
	s.bound(b, i, z, greatest)
}

// weight returns e^(z-m).
func weight(z, m float64) float64 {
	if z == math.Inf(-1) {
		return 0
	}
	return elem.ExpSum(exact.TwoSum(z, -m))
}

// finishRow divides, rounds, and settles what the bound leaves open.
func (s *space) finishRow(r int) {
	i, b, f := s.first+r, &s.row[r], s.dst.Format
	out, sums := s.dst.Data[s.of[0]+i*s.V:][:s.V], s.sums.Data[r*s.V:][:s.V]
	var set *settler
	for c, n := range sums {
		y := n / b.sum
		switch {
		case b.is == nothing:
			y = 0
		case b.is == notANumber:
			y = fp16.NaN
		case s.plain && s.vNorms[c]-s.vNorms[c] == 0:
			y = f.Round(y + 0)
		case s.plain:
			y = f.Round(s.inOrder(r, c)/b.sum + 0)
		default:
			v, ok := f.Decide(y, b.of(y, s.vNorms[c]))
			if !ok {
				if set == nil {
					set = s.settler(i)
				}
				v = set.settle(c)
			}
			y = v
		}
		out[c] = y
	}
	if set != nil {
		set.done()
	}
}

// inOrder is the float64 sum of column c without the keys that take no part.
func (s *space) inOrder(r, c int) float64 {
	sum := 0.0
	for j, e := range s.scores.Data[r*s.S:][:s.S] {
		if _, out := s.masked(s.first+r, j); !out && !s.infinitelyBelow(s.first+r, j) {
			sum += float64(e * s.val.Data[j*s.V+c])
		}
	}
	return sum
}
