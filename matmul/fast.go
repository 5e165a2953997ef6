package matmul

import (
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/internal/single"
)

// Products with a prepared operand in the fast arithmetic of docs/NUMERICS.md, section 13:
// each element is single.Dot of a row and a column in chains of fastChain numbers, plus
// the bias. What the inner dimension lacks of a multiple of 8 are zeros.

const (
	fastBlock = 8
	fastChain = 128
)

// Fast returns the kernel for fast arithmetic, which products of float32 numbers or
// narrower ones have in float32; all others are exact. It is the kernel itself if its
// numbers are no float32 numbers.
func (k *Kernel) Fast() *Kernel {
	if k.b.Format != fp16.Float32 || k.k == 0 {
		return k
	}
	return &Kernel{b: k.b, trans: k.trans, bias: k.bias, k: k.k, n: k.n, byWidth: map[int]*packed{}, fast: true}
}

// fastPacked is the operand in panels of some columns.
type fastPacked struct {
	blocks int       // of the inner dimension
	u      []float32 // [panels][blocks*8][columns]
	bias   []float32 // [panels][columns]
}

// singles returns the operand in panels of so many columns, made at their first use.
func (k *Kernel) singles(columns int) *fastPacked {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.inSingles[columns]; p != nil {
		return p
	}
	panels, blocks := (k.n+columns-1)/columns, (k.k+fastBlock-1)/fastBlock
	p := &fastPacked{blocks, asm.Paged[float32](panels * blocks * fastBlock * columns), make([]float32, panels*columns)}
	for i, b := range k.bias {
		p.bias[i] = float32(b)
	}
	line, step := k.n, 1
	if k.trans {
		line, step = 1, k.k
	}
	par.For(panels, func(panel int) {
		for j := panel * columns; j < min((panel+1)*columns, k.n); j++ {
			for i := range k.k {
				p.u[(panel*blocks*fastBlock+i)*columns+j%columns] = float32(k.b.Data[i*line+j*step])
			}
		}
	})
	if k.inSingles == nil {
		k.inSingles = map[int]*fastPacked{}
	}
	k.inSingles[columns] = p
	return p
}

// fastSpace is the memory of one piece of work.
type fastSpace struct{ v, m []float32 }

var fastSpaces = sync.Pool{New: func() any { return new(fastSpace) }}

// fastRows is how many groups of rows a piece of work has at most.
const fastRows = 8

// applyFast multiplies rows of a into dst, and calls then for pieces of it.
func (k *Kernel) applyFast(dst, a []float64, rows int, then func(at, n int)) {
	kernels := asm.WinogradForm(3).Fast()
	if kernels == nil {
		asm.Ran("fast product, plain Go")
		p := k.singles(1)
		par.For(rows, func(i int) {
			k.plainRow(p, dst[i*k.n:][:k.n], a[i*k.k:][:k.k])
			if then != nil {
				then(i*k.n, k.n)
			}
		})
		return
	}
	asm.Ran("fast product " + asm.ISA())
	p := k.singles(kernels.Outputs)
	groups, panels := (rows+kernels.Tiles-1)/kernels.Tiles, len(p.bias)/kernels.Outputs
	units := (groups + fastRows - 1) / fastRows
	parts := min(panels, max(1, 4*par.Workers()/units))
	par.For(units*parts, func(i int) {
		s := fastSpaces.Get().(*fastSpace)
		defer fastSpaces.Put(s)
		unit, part := i/parts, i%parts
		lo, hi := unit*groups/units*kernels.Tiles, min((unit+1)*groups/units*kernels.Tiles, rows)
		n := (hi - lo + kernels.Tiles - 1) / kernels.Tiles
		s.begin(kernels, k, a, p.blocks, lo, hi, n)
		for panel := part * panels / parts; panel < (part+1)*panels/parts; panel++ {
			size := p.blocks * fastBlock * kernels.Outputs
			u, next := p.u[panel*size:], p.u[(panel+1)%panels*size:]
			kernels.Multiply(&s.v[0], &u[0], &s.m[0], p.blocks, fastChain/fastBlock, n, &next[0], &u[0])
			k.store(dst, s.m, p.bias, panel, kernels.Outputs, lo, hi)
		}
		from, to := part*panels/parts*kernels.Outputs, min((part+1)*panels/parts*kernels.Outputs, k.n)
		for i := lo; then != nil && i < hi; i++ {
			then(i*k.n+from, to-from)
		}
	})
}

// begin lays rows [lo,hi) out as n groups [blocks][Tiles][8].
func (s *fastSpace) begin(kernels *asm.Fast, k *Kernel, a []float64, blocks, lo, hi, n int) {
	size := blocks * kernels.Tiles * fastBlock
	if cap(s.v) < n*size {
		s.v = asm.Aligned[float32](n * size)
	}
	if cap(s.m) < n*kernels.Tiles*kernels.Outputs {
		s.m = asm.Aligned[float32](n * kernels.Tiles * kernels.Outputs)
	}
	s.v, s.m = s.v[:n*size], s.m[:n*kernels.Tiles*kernels.Outputs]
	clear(s.v[(n-1)*size:]) // rows that the last group lacks
	for i := lo; i < hi; i++ {
		row := a[i*k.k:][:k.k]
		to := s.v[(i-lo)/kernels.Tiles*size+(i-lo)%kernels.Tiles*fastBlock:]
		whole := 0
		if lines := asm.LineKernels(); lines != nil && k.k >= fastBlock {
			whole = k.k / fastBlock
			lines.Narrow(&to[0], 4*kernels.Tiles*fastBlock, &row[0], whole*fastBlock)
		}
		for b := whole; b < blocks; b++ {
			block := to[b*kernels.Tiles*fastBlock:][:fastBlock]
			part := row[b*fastBlock : min((b+1)*fastBlock, k.k)]
			for c, v := range part {
				block[c] = float32(v)
			}
			clear(block[len(part):])
		}
	}
}

// store adds the bias to the sums of a panel.
func (k *Kernel) store(dst []float64, m, bias []float32, panel, columns, lo, hi int) {
	first := panel * columns
	bias = bias[first:][:min(columns, k.n-first)]
	for i := lo; i < hi; i++ {
		to, from := dst[i*k.n+first:][:len(bias)], m[(i-lo)*columns:][:len(bias)]
		whole := 0
		if lines := asm.LineKernels(); lines != nil && len(to) >= 8 {
			whole = len(to) &^ 7
			lines.Shift(&to[0], &from[0], &bias[0], whole)
		}
		for j := whole; j < len(to); j++ {
			to[j] = number(from[j] + bias[j])
		}
	}
}

// plainRow is a row of the product: the definition.
func (k *Kernel) plainRow(p *fastPacked, dst, a []float64) {
	inner := p.blocks * fastBlock
	v := make([]float32, inner)
	for i, x := range a {
		v[i] = float32(x)
	}
	for j := range dst {
		dst[j] = number(single.Dot(p.u[j*inner:][:inner], v, fastChain) + p.bias[j])
	}
}

// number is a float32 number as tensors hold it, with the one NaN.
func number(v float32) float64 {
	if v != v {
		return fp16.NaN
	}
	return float64(v)
}
