package conv

import (
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// fastTapsWeights are a kernel's weights in the order in which taps are added: by blocks
// of channels, rows and columns of the window, and channels of the block.
type fastTapsWeights struct {
	packed []float32 // [groups][blocks][K][K][channels of a block][Outputs]
	bias   []float32 // [groups][Outputs]
}

// tapWidth returns the channels of a block, tap by tap: 4 if that is all of them.
func (k *Kernel) tapWidth() int {
	if k.ic <= block/2 {
		return block / 2
	}
	return block
}

// byTap returns the weights for kernels of that many outputs, made at their first use.
func (k *Kernel) byTap(outputs int) *fastTapsWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.tapped[outputs]; w != nil {
		return w
	}
	hw, groups, width := k.kh*k.kw, (k.oc+outputs-1)/outputs, k.tapWidth()
	rows := (k.ic + width - 1) / width * hw * width
	w := &fastTapsWeights{asm.Aligned[float32](groups * rows * outputs), make([]float32, groups*outputs)}
	for o := range k.oc {
		w.bias[o] = float32(k.bias[o])
		for c := range k.ic {
			for i := range hw {
				row := (c/width*hw+i)*width + c%width
				w.packed[(o/outputs*rows+row)*outputs+o%outputs] = float32(k.packed[k.at(o, c*hw+i)])
			}
		}
	}
	if k.tapped == nil {
		k.tapped = map[int]*fastTapsWeights{}
	}
	k.tapped[outputs] = w
	return w
}

// fastTaps is one convolution of images tap by tap.
type fastTaps struct {
	*asm.FastTaps // nil for plain Go
	k             *Kernel
	weights       *fastTapsWeights
	src, dst      *Image
	space         *Space
	window        Params
	outputs       int   // of a group
	taps          []int // where each tap reads, from the first one on, in bytes
	lines         int   // of a unit
	unit          func(worker, i int)
}

func newFastTaps(k *Kernel, dst, src *Image, window Params, space *Space) *fastTaps {
	g := &space.fastTaps
	unit, taps := g.unit, g.taps[:0]
	*g = fastTaps{FastTaps: k.tapKernels(dst.W), k: k, src: src, dst: dst, space: space, window: window,
		unit: unit}
	if unit == nil { // once: functions of methods are allocated
		g.unit = g.runUnit
	}
	g.outputs = fastTapsOutputs(g.FastTaps)
	g.weights = k.byTap(g.outputs)
	_, down := window.steps(0)
	_, along := window.steps(1)
	for b := range src.Blocks() {
		for i := range k.kh {
			for j := range k.kw {
				taps = append(taps, 4*(b*src.plane+i*down*src.line+j*along*block))
			}
		}
	}
	g.taps = taps
	g.lines = max(1, min((1<<12+dst.W-1)/dst.W, dst.N*dst.H/(4*par.Workers())))
	return g
}

// tapKernels returns the kernels for lines of so many pixels, nil for plain Go.
func (k *Kernel) tapKernels(width int) *asm.FastTaps {
	kernels := asm.FastTapKernels()
	if kernels != nil && kernels.Wide != nil && width >= kernels.Wide.Tiles && k.oc%kernels.Wide.Outputs == 0 {
		return kernels.Wide
	}
	if kernels != nil && width < kernels.Tiles {
		return nil
	}
	return kernels
}

// fastTapsOutputs returns the outputs of a group.
func fastTapsOutputs(kernels *asm.FastTaps) int {
	if kernels != nil {
		return kernels.Outputs
	}
	return block
}

func (g *fastTaps) run() {
	lines := g.dst.N * g.dst.H
	g.space.each((lines+g.lines-1)/g.lines, g.unit)
	g.k, g.src, g.dst, g.weights = nil, nil, nil, nil
}

// runUnit makes the outputs of some lines, those of one group of outputs after those of
// the other, so that weights stay in the first cache.
func (g *fastTaps) runUnit(worker, i int) {
	s, d := g.space.workers[worker], g.dst
	hi := min((i+1)*g.lines, d.N*d.H)
	s.singles.m = aligned(&s.singles.memory[1], 32*g.outputs)
	for o := 0; o < d.C; o += g.outputs {
		for line := i * g.lines; line < hi; line++ {
			if n, y := line/d.H, line%d.H; g.FastTaps == nil {
				g.plainLine(n, y, o)
			} else {
				g.line(s, n, y, o)
			}
		}
	}
}

// line makes the outputs from o on of a line. Its last group of pixels begins so early
// that it ends with the line.
func (g *fastTaps) line(s *worker, n, y, o int) {
	d, k := g.dst, g.k
	stride, _ := g.window.steps(1)
	u, bias := g.packed(o)
	plane := 0
	if o+block < d.C {
		plane = 4 * d.plane
	}
	convolve := g.Convolve
	if k.tapWidth() < block {
		convolve = g.Convolve4
	}
	pixels := func(x, groups int) {
		src := g.src.read(n, y, x, &g.window)
		convolve(&g.src.data[src], 4*stride*block, &g.taps[0], len(g.taps), fastChain, &u[0], &s.singles.m[0],
			&bias[0], &d.data[d.at(n, o/block, y, x)], plane, groups)
	}
	// Calls are short.
	whole, most := d.W/g.Tiles, max(1, 1<<14/(len(g.taps)*k.tapWidth()))
	for from := 0; from < whole; from += most {
		pixels(from*g.Tiles, min(most, whole-from))
	}
	if d.W%g.Tiles != 0 {
		pixels(d.W-g.Tiles, 1)
	}
}

// read returns where the window of a pixel begins in the first block of channels.
func (m *Image) read(n, y, x int, p *Params) int {
	down, _ := p.steps(0)
	along, _ := p.steps(1)
	return m.at(n, 0, y*down-p.Pad[0], x*along-p.Pad[1])
}

// packed returns the weights of the group of outputs that begins with o, and their bias.
func (g *fastTaps) packed(o int) (u, bias []float32) {
	size := len(g.taps) * g.k.tapWidth() * g.outputs
	return g.weights.packed[o/g.outputs*size:][:size], g.weights.bias[o:][:g.outputs]
}
