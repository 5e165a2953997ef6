package matmul

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
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

// IsFast reports whether the kernel is one for fast arithmetic.
func (k *Kernel) IsFast() bool { return k.fast }

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

// ForwardSingles is ForwardThen of float32 numbers in rows, for a kernel for fast arithmetic.
func (k *Kernel) ForwardSingles(dst, a []float32, rows int, then func(at, n int)) {
	j := fastJobs.Get().(*fastJob)
	defer j.put()
	j.shape(1, rows, k.k, k.n)
	j.a, j.to, j.then = Matrices{Data: a, Row: k.k, Col: 1}, dst, then
	j.kernel(k)
}

// applyFast multiplies rows of a into dst, and calls then for pieces of it.
func (k *Kernel) applyFast(dst, a []float64, rows int, then func(at, n int)) {
	j := fastJobs.Get().(*fastJob)
	defer j.put()
	j.shape(1, rows, k.k, k.n)
	j.wideA, j.wideTo, j.then = a, dst, then
	j.kernel(k)
}
