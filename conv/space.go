package conv

import (
	"math"
	"slices"
	"sync"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/par"
)

// Space is the memory that a convolution of images works in: empty at first, and
// kept between convolutions. It serves one at a time.
type Space struct {
	norms, rows []float64
	planes      []float64

	mu   sync.Mutex
	idle []*worker // of workers
	open []uint64  // outputs that the guard left open, see worker.note
	dst  *Image    // of them
}

// worker is the memory of one worker.
type worker struct {
	v, m, t, k []float64 // in memory
	memory     [4][]float64
	flags      []uint8
	terms      []float64
	open       []uint64
	dst        *Image
}

// take returns memory for a worker that nobody else uses.
func (p *Space) take() *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return s
	}
	return &worker{flags: make([]uint8, 2*kernelOutputs)}
}

// release takes the memory back, and the outputs left open.
func (p *Space) release(s *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(s.open) > 0 {
		p.dst = s.dst
		p.open = append(p.open, s.open...)
	}
	s.open, s.dst = s.open[:0], nil
	p.idle = append(p.idle, s)
}

// note notes the outputs of pixel (y, x) and the channels c + b for each bit b
// of flags: as a number of which the order is that of channels, so that each
// channel's weights are read once in the end.
func (s *worker) note(dst *Image, flags uint8, n, c, y, x int) {
	s.dst = dst
	for b := 0; flags != 0; flags, b = flags>>1, b+1 {
		if flags&1 != 0 && c+b < dst.C {
			s.open = append(s.open, uint64(c+b)<<40|uint64((n*dst.H+y)*dst.W+x))
		}
	}
}

// place is an output of an image.
type place struct{ o, n, y, x int }

// settle stores what resolve says of every output left open; it is told the
// output that the same worker turns to next.
func (p *Space) settle(resolve func(s *worker, at, next place) float64) {
	if len(p.open) == 0 {
		return
	}
	slices.Sort(p.open)
	d := p.dst
	where := func(i int) place {
		o, pixel := int(p.open[i]>>40), int(p.open[i]&(1<<40-1))
		return place{o, pixel / d.W / d.H, pixel / d.W % d.H, pixel % d.W}
	}
	const piece = 64
	par.For((len(p.open)+piece-1)/piece, func(i int) {
		s := p.take()
		defer p.release(s)
		lo, hi := i*piece, min((i+1)*piece, len(p.open))
		for at := where(lo); lo < hi; lo++ {
			next := where(min(lo+1, hi-1))
			d.data[d.at(at.n, at.o/block, at.y, at.x)+at.o%block] = float32(resolve(s, at, next))
			at = next
		}
	})
	p.open, p.dst = p.open[:0], nil
}

// settle returns an output that guards could not decide, with weights w
// [blocks][K*K][8] that are finite: from a sum in three words, which is quick and
// nearly always enough, or else from the exact sum. Zeros in frames and lanes
// change no sum.
func (s *worker) settle(f fp16.Format, src *Image, w []float32, k int, bias float64, at place) float64 {
	if kernels := asm.PixelKernels(); kernels != nil {
		var out [3 * block]float64
		kernels.Words(&src.data[src.at(at.n, 0, at.y-k/2, at.x-k/2)], src.line*4, src.plane*4, &w[0], k, src.Blocks(), &out)
		var sum, lost float64
		for c := range block {
			sum += out[c]
			lost += out[2*block+c]
		}
		if sum-sum != 0 {
			// Sums of products of finite float32 numbers do not overflow, so this
			// is what IEEE 754 makes of the infinities and NaNs of the terms.
			return f.Round(sum + bias)
		}
		s.terms = append(append(s.terms[:0], out[:2*block]...), bias)
		if odd, ok := threeWords(s.terms, lost); ok {
			return f.Round(odd)
		}
	}
	terms, sum := s.terms[:0], bias
	for b := range src.Blocks() {
		for i := range k {
			line := src.data[src.at(at.n, b, at.y+i-k/2, at.x-k/2):][:k*block]
			for j, p := range w[(b*k+i)*k*block:][:k*block] {
				v := float64(line[j]) * float64(p)
				terms = append(terms, v)
				sum += v
			}
		}
	}
	terms = append(terms, bias)
	s.terms = terms
	if sum-sum != 0 { // as above
		return f.Round(sum)
	}
	if odd, ok := threeWords(terms, 0); ok {
		return f.Round(odd)
	}
	var all exact.Sum
	for _, p := range terms {
		all.Add(p)
	}
	return f.Round(all.Odd())
}

// pixelNorms takes ||t x|| of pixels of every sample: height lines of width
// pixels, from line and column first of the frame on.
func pixelNorms(norms []float64, m *Image, k *Kernel, first, height, width int) {
	kernels := asm.PixelKernels()
	scale := k.blockScale()
	par.For(m.N*height, func(i int) {
		out := norms[i*width:][:width]
		src := m.data[m.at(i/height, 0, first-m.Frame+i%height, first-m.Frame):]
		if kernels != nil && width >= 4 {
			kernels.Norms(&src[0], m.plane*4, &scale[0], m.Blocks(), &out[0], width/4*4)
			if x := width - 4; width%4 != 0 {
				kernels.Norms(&src[x*block], m.plane*4, &scale[0], m.Blocks(), &out[x], 4)
			}
			return
		}
		for x := range out {
			var sums [block]float64
			for b := range m.Blocks() {
				for c, v := range src[b*m.plane+x*block:][:block] {
					v := float64(v) * scale[b*block+c]
					sums[c] += float64(v * v)
				}
			}
			var sum float64
			for _, v := range sums {
				sum += v
			}
			out[x] = math.Sqrt(sum)
		}
	})
}

// grown returns n numbers of memory whose contents do not matter.
func grown[T any](memory *[]T, n int) []T {
	if cap(*memory) < n {
		*memory = make([]T, n)
	}
	return (*memory)[:n]
}

// aligned returns n numbers of memory that begin with a cache line.
func aligned(memory *[]float64, n int) []float64 {
	b := grown(memory, n+8)
	return b[asm.Align(&b[0]):][:n]
}
