package matmul

import (
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/whole"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Kernel is a right operand, such as the weight of a linear layer, and a bias, prepared
// once for any number of products by any number of goroutines. It reads the tensor
// again where another instruction set is chosen: neither may change.
type Kernel struct {
	b     *tensor.Tensor
	trans bool
	bias  []float64
	k, n  int

	mu        sync.Mutex
	byWidth   map[int]*packed
	inSingles map[int]*fastPacked // by the columns of a panel
	asWhole   *whole.Panels       // nil if it is of other numbers
	lookedAt  bool                // for asWhole

	fast bool // for fast arithmetic
}

// NewKernel prepares b [K,N], or [N,K] if it is to be transposed as the weight of a
// linear layer is, and a bias, which is nil or of length N and of b's format.
func NewKernel(b *tensor.Tensor, trans bool, bias []float64) *Kernel {
	if len(b.Shape) != 2 {
		panic("matmul: a prepared operand has two dimensions")
	}
	k := &Kernel{b: b, trans: trans, bias: bias, byWidth: map[int]*packed{}}
	k.k, k.n = ends(b.Shape, trans, false)
	if bias != nil && len(bias) != k.n {
		panic("matmul: bias length is not the number of columns")
	}
	return k
}

// Shape returns the inner dimension and the number of columns.
func (k *Kernel) Shape() (inner, cols int) { return k.k, k.n }

// Bytes returns the memory that the kernel holds beside its tensor.
func (k *Kernel) Bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, p := range k.byWidth {
		n += cap(p.memory) + cap(p.single)/2 + cap(p.norms) + len(p.grids)
	}
	for _, p := range k.inSingles {
		n += (cap(p.u) + cap(p.bias)) / 2
	}
	if k.asWhole != nil {
		return 8*int64(n) + k.asWhole.Bytes()
	}
	return 8 * int64(n)
}

// panels returns the operand in panels of so many columns, made at their first use.
func (k *Kernel) panels(width int) *packed {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.byWidth[width]; p != nil {
		return p
	}
	p := new(packed)
	terms := k.k
	from := source{data: k.b.Data, line: 1, step: k.n, terms: k.k, fold: 1}
	if k.trans {
		from.line, from.step = k.k, 1
	}
	if k.bias != nil {
		from.last, from.lastLine, from.lastFold = k.bias, 1, 1
		terms++
	}
	p.shape(1, k.n, terms, blockOf(terms), width, k.b.Format != fp16.Float64)
	par.For(p.panels, func(i int) { p.fill(i, &from, new([stretch]float64)) })
	if k.b.Format != fp16.Float64 {
		p.narrow()
	}
	k.byWidth[width] = p
	return p
}

// Forward multiplies a [...,K] by the kernel into dst [...,N]. It panics if shapes or
// formats do not fit together.
func (k *Kernel) Forward(dst, a *tensor.Tensor) { k.ForwardThen(dst, a, nil) }

// ForwardThen is Forward, and calls then as Params has it; nil for nothing.
func (k *Kernel) ForwardThen(dst, a *tensor.Tensor, then func(at, n int)) {
	s := spaces.Get().(*Space)
	defer spaces.Put(s)
	s.apply(dst, a, k, then)
}

// Apply is k.Forward in this memory.
func (s *Space) Apply(dst, a *tensor.Tensor, k *Kernel) { s.apply(dst, a, k, nil) }

func (s *Space) apply(dst, a *tensor.Tensor, k *Kernel, then func(at, n int)) {
	last := len(a.Shape) - 1
	ok := last >= 0 && len(dst.Shape) == last+1 && a.Shape[last] == k.k && dst.Shape[last] == k.n
	rows := 1
	for i := 0; ok && i < last; i++ {
		ok = a.Shape[i] == dst.Shape[i]
		rows *= a.Shape[i]
	}
	switch {
	case !ok:
		panic("matmul: source, kernel and destination differ in shape")
	case (a.Format == fp16.Float64 || k.b.Format == fp16.Float64) && dst.Format != fp16.Float64:
		panic("matmul: float64 operands need a float64 destination")
	}
	if k.fast && dst.Format == fp16.Float32 {
		if rows > 0 && k.n > 0 {
			k.applyFast(dst.Data, a.Data, rows, then)
		}
		return
	}
	j := &s.job
	j.begin(dst, Params{})
	j.then = then
	j.m, j.k, j.n = rows, k.k, k.n
	j.dims = j.dims[:0]
	j.a = view{a.Data, j.a.batch[:0], k.k, 1}
	j.b.batch = j.b.batch[:0]
	j.prepared = k
	s.run()
}
