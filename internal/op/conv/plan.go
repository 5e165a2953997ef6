package conv

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// winogradLeast are the fewest input and output channels for which the
// transforms pay.
var winogradLeast = [2]int{5, 8}

// mostPanels bounds the bytes of transformed weights, two to four times those of
// the weights; beyond it a convolution is direct.
const mostPanels = 1 << 30

// For so few pixels, transformed weights that come from memory, of this many bytes or more,
// take longer to read than the multiplications that they spare.
var (
	fewPixels = 64
	farPanels = 32e6
)

// transforms reports whether Winograd's method is the quicker one for results of so many
// pixels.
func (k *Kernel) transforms(form *asm.Form, pixels int) bool {
	size := float64(k.ic) * float64(k.oc) * float64(form.Side*form.Side*8)
	return k.ic >= winogradLeast[0] && k.oc >= winogradLeast[1] && size <= mostPanels &&
		!(pixels <= fewPixels && size >= farPanels && k.gathered())
}

// Prepared is a convolution of images of one shape, prepared once for any number of
// runs by any number of goroutines.
type Prepared struct {
	k       *Kernel
	p       Params
	f       fp16.Format // of the result
	c, h, w int         // of the result
	sh, sw  int         // of the source
	engine
}

// engine is how a convolution is computed on images: one that pads by half of its window by
// Winograd's method (stride 1), or tap by tap, one of enough channels with any other window tap by tap, or neither.
// One in groups of whole blocks of channels is computed group by group.
type engine struct {
	stride int
	window Params
	alone  bool // each channel by itself
	ran    string
	format int // among the kernels
	form   *asm.Form
	wino   *asm.Winograd
	pixels *asm.Pixels
	fast   bool      // in fast arithmetic
	quick  *fastForm // of that, nil for tap by tap
}

// engine chooses for results of a format, of so many pixels.
func (k *Kernel) engine(f fp16.Format, stride, pixels int) (e engine, ok bool) {
	if k.groups != nil {
		for _, g := range k.groups {
			if e, ok = g.engine(f, stride, pixels); !ok || g.ic%block != 0 || g.oc%block != 0 {
				return engine{}, false
			}
		}
		return e, true
	}
	e.stride, e.window = stride, Square(stride, k.kh/2, Zeros)
	format, known := kernelFormats[f]
	if !known || f == fp16.Float64 || !k.finite || !k.finiteBias || !k.float32 || k.kh != k.kw || k.kh%2 == 0 {
		return e, false
	}
	e.format = format
	if form := asm.WinogradForm(k.kh); form != nil && stride == 1 && k.transforms(form, pixels) {
		if w := form.Kernels(); w != nil {
			size := string(rune('0' + k.kh))
			e.form, e.wino, e.ran = form, w, "winograd 4x4,"+size+"x"+size+" "+asm.ISA()
			return e, true
		}
	}
	if e.pixels = asm.PixelKernels(); e.pixels != nil {
		e.ran = "direct convolution " + asm.ISA()
		return e, true
	}
	return e, false
}

// usual reports whether a geometry is that of a square window, padded by its half, and one stride.
func (k *Kernel) usual(p Params) bool {
	stride, _ := p.steps(0)
	q := Square(stride, k.kh/2, p.Padding)
	for axis := range p.Stride {
		p.Stride[axis], p.Dilation[axis] = p.steps(axis)
		q.Dilation[axis] = 1
	}
	return k.kh == k.kw && k.kh%2 == 1 && p == q
}

// leastGathered are the fewest input channels, and the fewest pixels, for which windows of any geometry are gathered:
// with fewer blocks of channels, and tiles of pixels, are too empty.
var leastGathered = [2]int{6, 13}

// gathers reports whether there is a kernel for a window of any geometry.
func (k *Kernel) gathers(f fp16.Format, p Params, pixels int) bool {
	_, known := kernelFormats[f]
	return known && f != fp16.Float64 && asm.PixelKernels() != nil && k.groups == nil && k.finite &&
		k.finiteBias && k.float32 && !k.usual(p) && k.gathered() && k.ic >= leastGathered[0] && pixels >= leastGathered[1]
}

func (e *engine) none() bool { return !e.fast && !e.alone && e.wino == nil && e.pixels == nil }

// run convolves src, whose frame holds the padding, into dst.
func (e *engine) run(k *Kernel, dst, src *Image, s *Space) {
	for i, g := range k.groups {
		s.parts[0], s.parts[1] = dst.part(i*g.oc, g.oc), src.part(i*g.ic, g.ic)
		e.run(g, &s.parts[0], &s.parts[1], s)
	}
	if k.groups != nil {
		s.parts = [2]Image{}
		return
	}
	asm.Ran(e.ran)
	switch {
	case e.quick != nil:
		newFastConv(k, e.quick, dst, src, s).run()
		return
	case e.fast:
		if many := k.gatherKernels(k.tapKernels(dst.W), dst.W); many != nil {
			newFastGather(k, many, dst, src, e.window, s).run()
		} else {
			newFastTaps(k, dst, src, e.window, s).run()
		}
		return
	}
	if e.wino != nil {
		newWino(k, e.form, e.wino, e.format, dst, src, s).run()
		return
	}
	newDirect(k, e.pixels, e.pixels.Output[e.format], dst, src, e.window, s).run()
}

// Prepare readies a convolution, with results of format f, of images of [n,C,h,w]. Other
// numbers of samples have the same results, if not as soon. It panics as Forward does if shapes or formats do not
// fit together.
func (k *Kernel) Prepare(f fp16.Format, n, h, w int, p Params) *Prepared {
	p.check()
	oh, ow := p.OutSize(h, w, k.kh, k.kw)
	switch {
	case k.transposed:
		panic("conv: a plan of a transposed kernel")
	case oh < 1 || ow < 1:
		panic("conv: the kernel does not fit into the image")
	case f == fp16.Float64 || !k.float32:
		panic("conv: a plan beyond float32")
	}
	plan := &Prepared{k: k, p: p, f: f, c: k.oc, h: oh, w: ow, sh: h, sw: w}
	if k.fastFor(f, p, oh, ow) {
		plan.engine = k.fastEngine(p, oh*ow)
	} else if k.channelwise(f) {
		plan.engine = engine{alone: true, ran: "convolution by channel " + asm.ISA()}
		k.channels()
		return plan
	} else if p == Square(p.Stride[0], k.kh/2, p.Padding) {
		plan.engine, _ = k.engine(f, max(p.Stride[0], 1), n*oh*ow)
	}
	if plan.none() && k.gathers(f, p, n*oh*ow) {
		pixels := asm.PixelKernels()
		plan.engine = engine{window: p, pixels: pixels, format: kernelFormats[f], ran: "direct convolution " + asm.ISA()}
	}
	for _, g := range k.parts() {
		if plan.quick != nil {
			g.inSingles(plan.quick, fastOutputs(plan.quick))
		} else if plan.fast {
			kernels := g.tapKernels(ow)
			if many := g.gatherKernels(kernels, ow); many != nil {
				g.byTap(many.Outputs)
			} else {
				g.byTap(fastTapsOutputs(kernels))
			}
		} else if plan.wino != nil {
			g.winograd(plan.form, plan.wino)
		} else if plan.pixels != nil {
			g.pixel(plan.pixels.Outputs)
		}
	}
	return plan
}

// Name returns how the plan computes, as asm.Ran has it, or "tensors" if as Forward
// on tensors.
func (p *Prepared) Name() string {
	if p.none() {
		return "tensors"
	}
	return p.ran
}

// OnImages reports whether the plan has a kernel that works on images; if not, it goes by
// way of tensors.
func (p *Prepared) OnImages() bool { return !p.none() }

// Frame returns how wide the source's frame must be, at least. The frame must hold
// the plan's padding; see Image.FillFrame.
func (p *Prepared) Frame() int {
	if p.none() {
		return 0
	}
	if p.alone || (p.pixels != nil || p.fast) && !p.k.usual(p.p) {
		return slices.Max(p.p.Pad[:])
	}
	return p.k.kh / 2
}

// Run convolves src into dst, which must be of the plan's shape and must not share
// memory with it. What lies around the pixels of dst is undefined thereafter.
func (p *Prepared) Run(dst, src *Image, s *Space) {
	switch {
	case dst.Format != p.f || dst.C != p.c || dst.H != p.h || dst.W != p.w || src.C != p.k.ic || dst.N != src.N:
		panic("conv: images of another shape or format than the plan's")
	case dst.N == 0:
	case p.none():
		x, y := tensor.New(src.Format, src.N, src.C, src.H, src.W), tensor.New(dst.Format, dst.N, dst.C, dst.H, dst.W)
		src.To(x)
		Forward(y, x, p.k, p.p)
		dst.From(y)
	case src.H != p.sh || src.W != p.sw || src.Frame < p.Frame():
		panic("conv: images of another shape or frame than the plan's")
	case p.alone:
		asm.Ran(p.ran)
		runChannels(p.k, p.p, dst, src, s)
	default:
		if p.quick != nil {
			src = ownFrame(src, p.Frame(), p.quick.form.Tile, p.p.Padding)
		}
		p.run(p.k, dst, src, s)
	}
}

// parts returns the kernels of the groups, or the kernel itself.
func (k *Kernel) parts() []*Kernel {
	if k.groups != nil {
		return k.groups
	}
	return []*Kernel{k}
}
