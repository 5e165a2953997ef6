package conv

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/ground/par"
)

// Space is the memory that a convolution of images works in: empty at first, and
// kept between convolutions. It serves one at a time.
type Space struct {
	// Workers is how many goroutines work at most, 0 for as many as GOMAXPROCS says
	// when a convolution begins.
	Workers int

	norms, rows, planes []float64

	workers []*worker // their memory

	parts    [2]Image // of a convolution in groups: its result and its source
	wino     wino
	fast     fastConv
	fastTaps fastTaps
	gather   fastGather
	direct   direct
	channels channels
	anchored anchored
}

// worker is the memory of one worker.
type worker struct {
	v, m, t, k, y []float64 // in memory
	memory        [5][]float64
	holds         int       // of what V is: 0 for nothing
	norms         []float64 // of pixels
	greatest      []float64 // of them, of each tile
	first         int       // of the tiles
	firstPanel    int       // of a convolution's panels, those that it makes
	endPanel      int
	flags         []uint8
	terms         []float64
	singles       struct { // of fast arithmetic
		v, m, t, edge []float32 // in memory
		memory        [3][]float32
		also          [3]int
	}
	open []uint64 // outputs of dst that guards left open: see note
	dst  *Image

	// What kernels are given pointers to.
	sums   [block]float64
	dot    [block]float64
	words  [3 * block]float64
	anchor [kernelOutputs]float64
	exact  [4 * 2 * kernelOutputs]float64
}

// Bytes returns the memory that the space holds, while no convolution runs.
func (p *Space) Bytes() int64 {
	n := 8 * (cap(p.norms) + cap(p.rows) + cap(p.planes))
	for _, s := range p.workers {
		for _, m := range s.memory {
			n += 8 * cap(m)
		}
		for _, m := range s.singles.memory {
			n += 4 * cap(m)
		}
		n += cap(s.flags) + 8*(cap(s.norms)+cap(s.greatest)+cap(s.terms)+cap(s.open))
	}
	return int64(n)
}

// each is [par.Each] with the memory of workers.
func (p *Space) each(n int, body func(worker, i int)) {
	workers := p.Workers
	if workers == 0 {
		workers = par.Workers()
	}
	for len(p.workers) < workers {
		p.workers = append(p.workers, new(worker))
	}
	par.Each(workers, n, body)
	for _, s := range p.workers {
		s.dst = nil
	}
}

// note notes an output of channel c that a guard left open: as a number of which the
// order is that of tiles, so that a window is read once.
func (s *worker) note(dst *Image, n, c, y, x int) {
	s.dst = dst
	tile := (n*(up4(dst.H)/4)+y/4)*(up4(dst.W)/4) + x/4
	s.open = append(s.open, uint64(tile)<<32|uint64(c<<4|y%4<<2|x%4))
}

// place is an output of an image.
type place struct{ o, n, y, x int }

// finish stores what resolve says of every output noted; it is told the output
// after it, too. A worker does it after each unit, whose pixels it has read before.
func (s *worker) finish(resolve func(s *worker, at, next place) float64) {
	if len(s.open) == 0 {
		return
	}
	slices.Sort(s.open)
	d := s.dst
	at := s.place(0)
	for i := range s.open {
		next := s.place(min(i+1, len(s.open)-1))
		d.data[d.at(at.n, at.o/block, at.y, at.x)+at.o%block] = float32(resolve(s, at, next))
		at = next
	}
	s.open = s.open[:0]
}

// place returns where noted output i is.
func (s *worker) place(i int) place {
	th, tw := up4(s.dst.H)/4, up4(s.dst.W)/4
	tile, at := int(s.open[i]>>32), int(s.open[i]&(1<<32-1))
	return place{at >> 4, tile / tw / th, tile/tw%th*4 + at>>2&3, tile%tw*4 + at&3}
}

// settle returns an output that guards could not decide, with weights w
// [blocks][K*K][8] that are finite: from a sum in three words, which is quick and
// nearly always enough, or else from the exact sum. Zeros in frames and lanes
// change no sum.
func (s *worker) settle(f fp16.Format, src *Image, w []float32, k int, bias float64, at place) float64 {
	if kernels := asm.PixelKernels(); kernels != nil {
		out := &s.words
		kernels.Words(&src.data[src.at(at.n, 0, at.y-k/2, at.x-k/2)], src.line*4, src.plane*4, &w[0], k, src.Blocks(), out)
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
		if odd, ok := exact.Words(s.terms, lost); ok {
			return f.Round(odd)
		}
	}
	s.terms = s.terms[:0]
	for b := range src.Blocks() {
		for i := range k {
			line := src.data[src.at(at.n, b, at.y+i-k/2, at.x-k/2):][:k*block]
			for j, p := range w[(b*k+i)*k*block:][:k*block] {
				s.terms = append(s.terms, float64(float64(line[j])*float64(p)))
			}
		}
	}
	return s.exactly(f, bias)
}

// exactly returns the sum of terms, products of float32 numbers, and a bias, rounded once.
func (s *worker) exactly(f fp16.Format, bias float64) float64 {
	sum := bias
	for _, v := range s.terms {
		sum += v
	}
	s.terms = append(s.terms, bias)
	if sum-sum != 0 { // what IEEE 754 makes of the infinities and NaNs of the terms, as sums do not overflow
		return f.Round(sum)
	}
	if odd, ok := exact.Words(s.terms, 0); ok {
		return f.Round(odd)
	}
	var all exact.Sum
	for _, p := range s.terms {
		all.Add(p)
	}
	return f.Round(all.Odd())
}

// pixelNorms takes ||t x|| of pixels side by side of a sample, from (y, x) on.
func pixelNorms(out []float64, m *Image, k *Kernel, n, y, x int) {
	scale, src, width := k.blockScale(), m.data[m.at(n, 0, y, x):], len(out)
	if kernels := asm.PixelKernels(); kernels != nil && width >= 4 {
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
}

// grown returns n numbers of memory whose contents do not matter.
func grown[T any](memory *[]T, n int) []T {
	if cap(*memory) < n {
		*memory = make([]T, n)
	}
	return (*memory)[:n]
}

// aligned is grown of memory that begins with a cache line, or with a large page.
func aligned[T float32 | float64](kept *[]T, n int) []T {
	if cap(*kept) < n {
		*kept = asm.Paged[T](n)
	}
	return (*kept)[:n]
}
