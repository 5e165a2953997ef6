package conv

import (
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// fastGather is one convolution of images tap by tap, as fastTaps is, with the same terms in the
// same order: but what each pixel reads is gathered first, a block of channels of a tap after the
// other, and multiplied as rows of a matrix are. So the pixels of a group may lie in several lines:
// where lines are short, those of one line would leave a part of it empty.
type fastGather struct {
	*asm.Fast
	k        *Kernel
	weights  *fastTapsWeights
	src, dst *Image
	space    *Space
	window   Params
	taps     []int // where each tap reads, from the first one on
	pixels   int
	groups   int // of pixels: those from fewer on have one less
	fewer    int
	units    int // of groups
	parts    int // of the panels
	panels   int
	unit     func(worker, i int)
}

// bytesGathered is how much is gathered at a time, about: it stays in a processor's second cache.
var bytesGathered = max(1<<18, asm.SecondCache()/2)

// gatherKernels returns the kernels to gather for, nil where taps' kernels are as quick, for lines
// of so many pixels.
func (k *Kernel) gatherKernels(taps *asm.FastTaps, width int) *asm.Fast {
	kernels := asm.WinogradForm(3).Fast()
	if kernels == nil || asm.SingleKernels() == nil || k.tapWidth() < block || k.oc%block != 0 || k.oc < kernels.Outputs {
		return nil
	}
	if taps != nil && taps.Outputs == kernels.Outputs && 10*filled(width, taps.Tiles) <= 11*width {
		return nil
	}
	return kernels
}

func newFastGather(k *Kernel, kernels *asm.Fast, dst, src *Image, window Params, space *Space) *fastGather {
	g := &space.gather
	unit, taps := g.unit, g.taps[:0]
	*g = fastGather{
		Fast: kernels, k: k, weights: k.byTap(kernels.Outputs), src: src, dst: dst, space: space, window: window,
		unit: unit, pixels: dst.N * dst.H * dst.W, panels: (k.oc + kernels.Outputs - 1) / kernels.Outputs,
	}
	if unit == nil { // once: functions of methods are allocated
		g.unit = g.runUnit
	}
	_, down := window.steps(0)
	_, along := window.steps(1)
	for b := range src.Blocks() {
		for i := range k.kh {
			for j := range k.kw {
				taps = append(taps, b*src.plane+i*down*src.line+j*along*block)
			}
		}
	}
	g.taps = taps
	g.groups = (g.pixels + g.Tiles - 1) / g.Tiles
	if g.fewer = g.groups; g.MultiplyFewer != nil {
		g.fewer -= min(g.groups*g.Tiles-g.pixels, g.groups)
	}
	fit := max(1, bytesGathered/(4*g.group()))
	workers := par.Workers()
	g.units, g.parts = (g.groups+fit-1)/fit, 1
	if g.units < workers {
		g.parts = min(g.panels, (workers+g.units-1)/g.units)
	} else {
		g.units = min(g.groups, (g.units+workers-1)/workers*workers)
	}
	return g
}

// group returns the numbers of a group.
func (g *fastGather) group() int { return len(g.taps) * g.Tiles * block }

// from returns the first pixel of a group.
func (g *fastGather) from(group int) int {
	return min(group*g.Tiles-max(group-g.fewer, 0), g.pixels)
}

func (g *fastGather) run() {
	g.space.each(g.units*g.parts, g.unit)
	g.k, g.src, g.dst, g.weights = nil, nil, nil, nil
}

// runUnit makes a part of the outputs of some groups.
func (g *fastGather) runUnit(worker, i int) {
	s, unit, part := g.space.workers[worker], i/g.parts, i%g.parts
	g0, g1 := unit*g.groups/g.units, (unit+1)*g.groups/g.units
	lo, hi, middle := g.from(g0), g.from(g1), min(max(g.fewer, g0), g1)
	v := aligned(&s.singles.memory[0], (g1-g0)*g.group())
	m := aligned(&s.singles.memory[1], (g1-g0)*g.Tiles*g.Outputs)
	second := (middle - g0) * g.group() // where smaller groups begin
	for group := g0; group < g1; group++ {
		if group < g.fewer {
			g.gather(v[(group-g0)*g.group():], group, g.Tiles)
		} else {
			g.gather(v[second+(group-max(middle, g0))*len(g.taps)*(g.Tiles-1)*block:], group, g.Tiles-1)
		}
	}
	size, chain := len(g.taps)*block*g.Outputs, fastChain
	for panel := part * g.panels / g.parts; panel < (part+1)*g.panels/g.parts; panel++ {
		u, next := &g.weights.packed[panel*size], &g.weights.packed[(panel+1)%g.panels*size]
		ahead, after := next, u // who reads ahead
		if g1-middle > middle-g0 {
			ahead, after = u, next
		}
		if middle > g0 {
			g.Multiply(&v[0], u, &m[0], len(g.taps), chain, middle-g0, ahead, u)
		}
		if g1 > middle {
			g.MultiplyFewer(&v[second], u, &m[(g.from(middle)-lo)*g.Outputs], len(g.taps), chain, g1-middle, after, u)
		}
		g.store(m, panel, lo, hi)
	}
}

// gather lays out what the pixels of a group read, [taps][tiles][8].
func (g *fastGather) gather(v []float32, group, tiles int) {
	lo, hi := g.from(group), g.from(group+1)
	if hi-lo < tiles {
		clear(v[:len(g.taps)*tiles*block])
	}
	for p := lo; p < hi; p++ {
		n, y, x := p/g.dst.W/g.dst.H, p/g.dst.W%g.dst.H, p%g.dst.W
		src := g.src.data[g.src.read(n, y, x, &g.window):]
		to := v[(p-lo)*block:]
		for t, at := range g.taps {
			a, b := (*[block]float32)(src[at:]), (*[block]float32)(to[t*tiles*block:])
			b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7] = a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
		}
	}
}

// store adds the bias to the sums of a panel, and writes the pixels from lo to hi-1, line by line.
func (g *fastGather) store(m []float32, panel, lo, hi int) {
	d, kernels := g.dst, asm.SingleKernels()
	o := panel * g.Outputs
	blocks, bias := (min(g.Outputs, d.C-o)+block-1)/block, g.weights.bias[o:]
	for p := lo; p < hi; {
		n, y, x := p/d.W/d.H, p/d.W%d.H, p%d.W
		count := min(hi-p, d.W-x)
		kernels.Blocks(&d.data[d.at(n, o/block, y, x)], 4*d.plane, &m[(p-lo)*g.Outputs], 4*g.Outputs, &bias[0], blocks, count)
		p += count
	}
}
