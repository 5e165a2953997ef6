package conv

import (
	"math"
	"math/bits"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// channels is a convolution of each channel by itself, of images: any window, strides, dilations and padding. Eight
// channels of a pixel are side by side, and the taps are added one after the other.
type channels struct {
	k        *Kernel
	kernels  *asm.Channels
	weights  *channelWeights
	p        Params
	src, dst *Image
	space    *Space
	taps     []int // bytes from the first
	tasks    struct {
		line    func(worker, i int)
		resolve func(s *worker, at, next place) float64
	}
}

// channelWeights are weights in the order of the kernels, in blocks of channels.
type channelWeights struct {
	packed []float64 // [blocks][taps][2][8]: weights, and their magnitudes
	tables []float64 // [blocks][3][8]: bias, its magnitude, and the guard's bound
}

// channelwise reports whether kernels of this CPU can convolve each channel by itself.
func (k *Kernel) channelwise(f fp16.Format) bool {
	if asm.ChannelKernels() == nil || f != fp16.Float32 || k.transposed || !k.float32 || k.groups == nil {
		return false
	}
	for _, g := range k.groups {
		if g.ic != 1 || g.oc != 1 || !g.finite || !g.finiteBias {
			return false
		}
	}
	return true
}

// channels returns the weights, made at their first use.
//
// Each of n fused multiply-adds and the bias's addition is off by u of a sum, which is at most the sum A of the
// magnitudes of all terms. A itself is known to within n+1 roundings, which is of second order. With the
// product and the sums of the guard y is within (n+5) u of the computed A.
func (k *Kernel) channels() *channelWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byChannel != nil {
		return k.byChannel
	}
	taps, blocks := k.kh*k.kw, (k.oc+block-1)/block
	w := &channelWeights{make([]float64, blocks*taps*2*block), make([]float64, blocks*3*block)}
	for c, g := range k.groups {
		for t := range taps {
			v := g.packed[g.at(0, t)]
			at := (c/block*taps+t)*2*block + c%block
			w.packed[at], w.packed[at+block] = v, math.Abs(v)
		}
		table := w.tables[c/block*3*block+c%block:]
		table[0], table[block], table[2*block] = g.bias[0], math.Abs(g.bias[0]), 1.001*0x1p-53*float64(taps+5)
	}
	k.byChannel = w
	return w
}

// beside reports whether there are zeros beside an image, and no more than a window reads.
func (k *Kernel) beside(p Params) bool {
	for axis, n := range [2]int{k.kh, k.kw} {
		if _, dilation := p.steps(axis); max(p.Pad[axis], p.Pad[axis+2]) > dilation*(n-1) {
			return false
		}
	}
	return p.Padding == Zeros
}

// forwardChannels is Forward of each channel by itself, by way of images.
func (k *Kernel) forwardChannels(dst, src *tensor.Tensor, p Params) {
	if src.N() != dst.N() || src.C() != k.ic || dst.C() != k.oc {
		panic("conv: source, kernel and destination differ in samples or channels")
	}
	memory := imagePool.Get().(*images)
	defer imagePool.Put(memory)
	n, c, h, w, frame := src.N(), k.ic, src.H(), src.W(), slices.Max(p.Pad[:])
	from := NewImage(src.Format, n, c, h, w, frame, aligned(&memory.src, ImageSize(n, c, h, w, frame)))
	to := NewImage(dst.Format, n, c, dst.H(), dst.W(), 0, aligned(&memory.dst, ImageSize(n, c, dst.H(), dst.W(), 0)))
	from.From(src)
	from.FillFrame(p.Padding)
	asm.Ran("convolution by channel " + asm.ISA())
	runChannels(k, p, to, from, &memory.space)
	to.To(dst)
}

// runChannels convolves src, whose frame holds the padding, into dst.
func runChannels(k *Kernel, p Params, dst, src *Image, space *Space) {
	g := &space.channels
	tasks, taps := g.tasks, g.taps[:0]
	*g = channels{k: k, kernels: asm.ChannelKernels(), weights: k.channels(), p: p, src: src, dst: dst, space: space,
		tasks: tasks, taps: taps}
	if tasks.line == nil { // once: functions of methods are allocated
		g.tasks.line, g.tasks.resolve = g.line, g.resolve
	}
	_, dy := p.steps(0)
	_, dx := p.steps(1)
	for i := range k.kh {
		for j := range k.kw {
			g.taps = append(g.taps, 4*(i*dy*src.line+j*dx*block))
		}
	}
	space.each(dst.N*dst.Blocks()*dst.H, g.tasks.line)
	g.k, g.src, g.dst, g.weights = nil, nil, nil, nil
}

// line makes a line of a block of channels.
func (g *channels) line(worker, i int) {
	s, d := g.space.workers[worker], g.dst
	y, b, n := i%d.H, i/d.H%d.Blocks(), i/d.H/d.Blocks()
	s.flags = grown(&s.flags, d.W)
	if g.kernels.Convolve(&g.src.data[g.first(n, b, y, 0)], 4*g.step(), &g.taps[0], len(g.taps),
		&g.weights.packed[b*len(g.taps)*2*block], &g.weights.tables[b*3*block], &d.data[d.at(n, b, y, 0)], d.W,
		&s.flags[0]) == 0 {
		return
	}
	for x, f := range s.flags[:d.W] {
		for ; f != 0; f &= f - 1 {
			if c := b*block + bits.TrailingZeros8(f); c < d.C {
				s.note(d, n, c, y, x)
			}
		}
	}
	s.finish(g.tasks.resolve)
}

// first returns where a pixel of the result reads its first tap, and step how far on the next pixel does.
func (g *channels) first(n, b, y, x int) int {
	stride, _ := g.p.steps(0)
	return g.src.at(n, b, y*stride-g.p.Pad[0], -g.p.Pad[1]) + x*g.step()
}

func (g *channels) step() int {
	stride, _ := g.p.steps(1)
	return stride * block
}

// resolve returns an output that the guard left open.
func (g *channels) resolve(s *worker, at, _ place) float64 {
	k := g.k.groups[at.o]
	window := g.src.data[g.first(at.n, at.o/block, at.y, at.x)+at.o%block:]
	s.terms = s.terms[:0]
	for t, tap := range g.taps {
		s.terms = append(s.terms, float64(float64(window[tap/4])*k.packed[k.at(0, t)]))
	}
	return s.exactly(g.dst.Format, k.bias[0])
}
