package conv

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// The float32 arithmetic of the contract "fast, version 7" (docs/NUMERICS.md, section
// 13): convolutions with odd square windows, padded by half of them, by Winograd's method
// or tap by tap, and with most other windows tap by tap. Every operation is written down in
// fast_plain.go, and that is the definition; the kernels of package asm do the same operations in the same order, many
// at a time. A number depends on nothing but its tile's window and the weights: not on
// the batch, nor on which tiles share a call.

// fastForm is how windows of one size are computed by Winograd's method: as the sum of
// convolutions with smaller ones, one for each pair of parts, by one form.
type fastForm struct {
	form  *asm.Form
	parts []fastPart // along an axis
	chain int        // blocks of channels of a sum
}

// fastPart is the taps [first,end) of a window; its own window begins at pixel at.
type fastPart struct{ at, first, end int }

// fastForms are the forms by the size of the window. The ten points that 7x7 would need
// lose too many of float32's digits: it is four windows of at most 4x4 taps, a tile apart,
// so that a transformed window serves four tiles.
var fastForms = map[int]*fastForm{
	3: {asm.FastForm(3), []fastPart{{0, 0, 3}}, 4},
	5: {asm.FastForm(5), []fastPart{{0, 0, 5}}, 2},
	7: {asm.FastForm(4), []fastPart{{0, 0, 4}, {4, 4, 7}}, 2},
}

// fastChain is the number of taps of a sum, tap by tap.
const fastChain = 16

// The fewest channels that go to and come from a convolution by Winograd's method, and
// the most transformed weights.
const (
	fastLeastIn, fastLeastOut = 5, 8
	mostFast                  = 1 << 28
)

// Fast returns the kernel for fast arithmetic, in which results of float32 numbers have
// it where fastFor says so; all others are exact. It is the kernel itself if none can be:
// where weights are not finite, or groups not of whole blocks of 8 channels. The two share
// their weights.
func (k *Kernel) Fast() *Kernel {
	if k.transposed || !k.float32 {
		return k
	}
	fast := &Kernel{oc: k.oc, ic: k.ic, kh: k.kh, kw: k.kw, packed: k.packed, bias: k.bias, finite: k.finite,
		finiteBias: k.finiteBias, float32: true, scale: k.scale, norm: k.norm, fast: true}
	for _, g := range k.groups {
		g = g.Fast()
		if !g.fast || g.ic%block != 0 || g.oc%block != 0 {
			return k
		}
		fast.groups = append(fast.groups, g)
	}
	if k.groups == nil && !(k.finite && k.finiteBias) {
		return k
	}
	return fast
}

// fastFor reports whether results of a format, oh x ow, have fast arithmetic.
func (k *Kernel) fastFor(f fp16.Format, p Params, oh, ow int) bool {
	return k.fast && f == fp16.Float32 &&
		(k.usual(p) || k.groups == nil && FastWindow(p, k.ic, k.oc, oh, ow))
}

// Of other windows than the usual, results of more than one line and so many outputs have fast arithmetic: fewer would
// leave half of a kernel empty. Lines have so many pixels, or what they read can be gathered; and the frame of zeros is
// no wider than that.
const (
	fastOtherOut   = 16
	fastOtherWidth = 8
	fastGatherOut  = 32
	fastMostPad    = 64
)

// FastWindow reports whether results oh x ow of windows that are not the usual, those that are square, odd and padded
// by their half, have fast arithmetic for so many channels in one group, if weights are finite.
func FastWindow(p Params, ic, oc, oh, ow int) bool {
	gathered := ic >= fastLeastIn && oc >= fastGatherOut && oc%block == 0
	return p.Padding == Zeros && slices.Max(p.Pad[:]) <= fastMostPad && oc >= fastOtherOut && oh > 1 &&
		(ow >= fastOtherWidth || gathered)
}

// For images of so few pixels, so many transformed weights or more take longer to read than the
// multiplications that they spare, and much memory.
const (
	fastFewPixels = 64
	fastFarWeight = 8 << 20
)

// fastForm returns the form for a stride and images of so many pixels, nil to go tap by tap.
func (k *Kernel) fastForm(stride, pixels int) *fastForm {
	g := k.parts()[0]
	f := fastForms[g.kh]
	if f == nil || stride > 1 || g.ic < fastLeastIn || g.oc < fastLeastOut {
		return nil
	}
	each := f.blocks(g.ic) * block * f.form.Side * f.form.Side
	if each > mostFast/g.oc || pixels <= fastFewPixels && each*g.oc >= fastFarWeight {
		return nil
	}
	return f
}

// fastEngine chooses for fast arithmetic, and images of so many pixels.
func (k *Kernel) fastEngine(p Params, pixels int) engine {
	e := engine{window: p, fast: true, ran: "fast direct convolution"}
	kernels := asm.FastTapKernels() != nil
	if stride, _ := p.steps(0); k.usual(p) {
		e.quick = k.fastForm(stride, pixels)
	}
	if e.quick != nil {
		e.ran = fmt.Sprintf("fast winograd %dx%d,%dx%d", e.quick.form.Tile, e.quick.form.Tile, k.kh, k.kw)
		kernels = e.quick.form.Fast() != nil
	}
	if kernels {
		e.ran += " " + asm.ISA()
	} else {
		e.ran += ", plain Go"
	}
	return e
}

// forwardFast is Forward in fast arithmetic, by way of images.
func (k *Kernel) forwardFast(dst, src *tensor.Tensor, p Params) {
	if src.N() != dst.N() || src.C() != k.ic || dst.C() != k.oc {
		panic("conv: source, kernel and destination differ in samples or channels")
	}
	checkFormats(dst, src)
	if dst.N() == 0 {
		return
	}
	memory := imagePool.Get().(*images)
	defer imagePool.Put(memory)
	n, h, w, frame := src.N(), src.H(), src.W(), slices.Max(p.Pad[:])
	from := NewImage(src.Format, n, k.ic, h, w, frame, aligned(&memory.src, ImageSize(n, k.ic, h, w, frame)))
	to := NewImage(dst.Format, n, k.oc, dst.H(), dst.W(), 0, aligned(&memory.dst, ImageSize(n, k.oc, dst.H(), dst.W(), 0)))
	from.From(src)
	from.FillFrame(p.Padding)
	e := k.fastEngine(p, dst.H()*dst.W())
	e.run(k, to, from, &memory.space)
	to.To(dst)
}

// ownFrame returns an image whose frame is as wide as a window's half: the image itself,
// or a copy where a tile at the end of a line would read more of a wider frame's padding.
func ownFrame(m *Image, frame, tile int, p Padding) *Image {
	if m.Frame == frame || p == Zeros || m.H%tile == 0 && m.W%tile == 0 {
		return m
	}
	own := NewImage(m.Format, m.N, m.C, m.H, m.W, frame, asm.Aligned[float32](ImageSize(m.N, m.C, m.H, m.W, frame)))
	for i := range m.N * m.Blocks() * m.H {
		n, b, y := i/m.H/m.Blocks(), i/m.H%m.Blocks(), i%m.H
		copy(own.Row(n, b, y), m.Row(n, b, y))
	}
	own.FillFrame(p)
	return own
}

// blocks returns the blocks of channels of the transformed windows of a tile, those of
// one pair of parts after those of the other.
func (f *fastForm) blocks(ic int) int {
	return len(f.parts) * len(f.parts) * ((ic + block - 1) / block)
}
