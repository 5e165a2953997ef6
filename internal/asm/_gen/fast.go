package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The forms that float32 arithmetic has kernels for.
var fastForms = []form{forms[0], {"5x5", 5, 3, sevenPoints}, {"4x4", 4, 4, sevenPoints}}

// sevenPoints are those of asm.FastForm for 4x4 and 5x5, but for infinity.
var sevenPoints = []float64{1.0 / 4, 7.0 / 8, 7.0 / 4}

// fast writes all kernels of asm.Fast: those of asm.Winograd with float32 numbers and
// without a guard. A block of channels is one register of AVX2. AVX-512 has two tiles in
// one, or two blocks of outputs; one tile or block goes by the kernels of AVX2.
func fast() {
	wide := avx512.singles()
	wide.tiles = 14 // two at a time
	for _, i := range []isa{avx2.singles(), wide} {
		t := newTable(i, "fast"+i.name+"Constants")
		for _, f := range fastForms {
			f.constants(t)
		}
		t.words(canonicalNaN)
		multiply(i, i.tiles)
		if i.lanes == 16 {
			multiply(i, i.tiles-1)
		}
		multiplyLine(i, 1)
		multiplyLine(i, linePanels)
		for _, f := range fastForms {
			if i.lanes == 8 || f.taps != 4 {
				fastInput(i, f)
			}
			fastOutput(i, f)
		}
		if i.lanes == 16 {
			i.tiles = 13 // lines of 64 and of 128 pixels are nearly five and ten groups
		}
		fastTaps(i, 8)
		fastTaps(i, 4)
	}
	for _, i := range []isa{avx512.singles(), avx2.singles()} {
		fastRow(i, false, true)
		fastRow(i, true, false)
		fastRow(i, true, true)
	}
}

// linePanels is asm.FastPanels: as many chains as hide a multiply-add's latency.
const linePanels = 4

// multiplyLine is the multiplication of one row by so many panels:
//
//	v      [blocks][8]
//	u      panels, bytes apart, of [blocks*8][2*lanes]
//	m      [panels][2*lanes]
//
// Operations and their order are those of multiply.
func multiplyLine(i isa, panels int) {
	name := "fastLine" + i.name
	if panels > 1 {
		name = "fastLines" + i.name
	}
	TEXT(name, NOSPLIT, "func(v, u *float32, panel int, m *float32, blocks, chain int)")
	Pragma("noescape")
	Doc(name + " multiplies a row: see asm/fast.go.")
	v, m := Load(Param("v"), GP64()).(reg.GPVirtual), Load(Param("m"), GP64()).(reg.GPVirtual)
	left := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	u := []reg.GPVirtual{Load(Param("u"), GP64()).(reg.GPVirtual)}
	if panels > 1 {
		panel := Load(Param("panel"), GP64())
		for p := range panels - 1 {
			u = append(u, GP64())
			MOVQ(u[p], u[p+1])
			ADDQ(panel, u[p+1])
		}
	}
	steps, sums, n := GP64(), GP64(), i.vector()
	sum, x := i.wide[:2*panels], i.wide[2*panels:][:4]
	XORQ(sums, sums)
	Label("sum" + name)
	MOVQ(mustParam("chain"), steps)
	CMPQ(left, steps)
	CMOVQLT(left, steps)
	SUBQ(steps, left)
	for _, s := range sum {
		i.clear(s)
	}
	Label("block" + name)
	for c := range 8 {
		i.spread(Mem{Base: v, Disp: 4 * c}, x[c%4])
		for p, at := range u {
			for h := range 2 {
				i.fma(Mem{Base: at, Disp: (2*c + h) * n}, x[c%4], sum[2*p+h])
			}
		}
	}
	ADDQ(Imm(32), v)
	for _, at := range u {
		ADDQ(U32(uint32(16*n)), at)
	}
	DECQ(steps)
	JNZ(LabelRef("block" + name))
	TESTQ(sums, sums)
	JZ(LabelRef("store" + name))
	for s, r := range sum {
		i.add(Mem{Base: m, Disp: s * n}, r, r)
	}
	Label("store" + name)
	for s, r := range sum {
		i.load(r, Mem{Base: m, Disp: s * n})
	}
	INCQ(sums)
	TESTQ(left, left)
	JNZ(LabelRef("sum" + name))
	VZEROUPPER()
	RET()
}

const canonicalNaN = 0x7fc00000

// fastInput is the input transform of one tile, B^T d B, with n the form's side:
//
//	src     first pixel of the nxn window of channel block 0, 8 channels a pixel
//	line    bytes from a line of pixels to the next
//	image   bytes from a channel block to the next
//	dst     the tile's place in [n*n][blocks][tiles][8]
//	also    for 4x4 taps, the bytes from there to three more places
//	point   bytes from a point to the next
//	plane   bytes from a block to the next in dst
//	blocks  channel blocks, 1 or more
//	scratch n*n vectors
//
// That of AVX-512 transforms two tiles side by side, whose places in dst are so too.
func fastInput(i isa, f form) {
	name := "fast" + f.name + "Input" + i.name
	wide := i.lanes == 16
	TEXT(name, NOSPLIT,
		"func(src *float32, line, image int, dst *float32, also *[3]int, point, plane, blocks int, scratch *float32)")
	Pragma("noescape")
	Doc(name + " transforms the window of one tile: see asm/fast.go.")
	load := func(p string) reg.GPVirtual { return Load(Param(p), GP64()).(reg.GPVirtual) }
	src, line, dst, point, plane, scratch := load("src"), load("line"), load("dst"), load("point"),
		load("plane"), load("scratch")
	v, n := i.vector(), f.side()
	from, to, left := GP64(), GP64(), GP64()
	if wide {
		i.hold(16, len(i.wide), f.inputConstants()...)
		defer release()
	}
	Label(name)
	// Columns, to scratch.
	MOVQ(src, from)
	MOVQ(scratch, to)
	in := newRows(n, from, line)
	MOVQ(U32(uint32(n)), left)
	Label(name + "columns")
	for y := range n {
		if wide {
			VMOVUPS(in.at(y, 0), i.half[y])
			VINSERTF32X8(Imm(1), in.at(y, 32*f.tile), i.wide[y], i.wide[y])
		} else {
			i.load(in.at(y, 0), i.wide[y])
		}
	}
	i.inputLine(f, i.wide[n:16], func(y int, r reg.VecPhysical) { i.load(r, Mem{Base: to, Disp: n * y * v}) })
	for _, p := range in.base {
		ADDQ(Imm(32), p)
	}
	ADDQ(Imm(uint64(v)), to)
	DECQ(left)
	JNZ(LabelRef(name + "columns"))
	// Rows, from scratch.
	MOVQ(scratch, from)
	MOVQ(dst, to)
	MOVQ(U32(uint32(n)), left)
	var also []reg.GPVirtual
	if f.taps == 4 {
		at := load("also")
		for k := range 3 {
			place := GP64()
			MOVQ(Mem{Base: at, Disp: 8 * k}, place)
			also = append(also, place)
		}
	}
	Label(name + "rows")
	for x := range n {
		i.load(Mem{Base: from, Disp: x * v}, i.wide[x])
	}
	i.inputLine(f, i.wide[n:16], func(_ int, r reg.VecPhysical) { // one after another
		i.load(r, Mem{Base: to})
		for _, place := range also {
			i.load(r, Mem{Base: to, Index: place, Scale: 1})
		}
		PREFETCHT0(Mem{Base: to, Index: plane, Scale: 1}) // the next block's
		ADDQ(point, to)
	})
	ADDQ(U32(uint32(n*v)), from)
	DECQ(left)
	JNZ(LabelRef(name + "rows"))
	ADDQ(mustParam("image"), src)
	ADDQ(plane, dst)
	DECQ(mustParam("blocks"))
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// fastOutput is the output transform of one tile for 8 output channels, A^T m A, and
// the bias. Every NaN becomes the one NaN.
//
//	m       the tile's and outputs' place in [n*n][tiles][outputs]
//	point   bytes from a point to the next
//	bias    [8]
//	dst     first pixel of the outputs, 8 channels a pixel
//	line    bytes from a line of pixels to the next
//	plane   for AVX-512, which has 16 channels: bytes from the first 8 of dst to the others
//	scratch m*n vectors for mxm outputs
func fastOutput(i isa, f form) {
	name := "fast" + f.name + "Output" + i.name
	wide, last := i.lanes == 16, "line int, "
	if wide {
		last = "line, plane int, "
	}
	TEXT(name, NOSPLIT, "func(m *float32, point int, bias, dst *float32, "+last+"scratch *float32)")
	Pragma("noescape")
	Doc(name + " transforms one tile's outputs: see asm/fast.go.")
	load := func(p string) reg.GPVirtual { return Load(Param(p), GP64()).(reg.GPVirtual) }
	m, point, bias, dst, line, scratch := load("m"), load("point"), load("bias"), load("dst"),
		load("line"), load("scratch")
	v, n := i.vector(), f.side()
	// Registers 0 to 10 are outputLine's.
	mask, nan, shift := i.wide[13], i.wide[14], i.wide[15]
	from, to, left, step := GP64(), GP64(), GP64(), GP64()
	var second reg.GPVirtual
	if wide {
		i.hold(16, len(i.wide), f.outputConstants()...)
		defer release()
		second = load("plane")
		ADDQ(dst, second)
	}
	IMUL3Q(U32(uint32(n)), point, step)
	MOVQ(m, from)
	i.outputColumns(f, name, true, from, scratch, to, left, point, step)
	i.load(Mem{Base: bias}, shift)
	i.load(i.bits(canonicalNaN), nan)
	MOVQ(scratch, from)
	MOVQ(U32(uint32(f.tile)), left)
	Label(name + "rows")
	for x := range n {
		i.load(Mem{Base: from, Disp: x * v}, i.wide[1+x])
	}
	for x, r := range i.outputLine(f) {
		i.add(shift, r, r)
		if wide {
			VCMPPS(Imm(3), r, r, reg.K1) // unordered: NaN
			VMOVAPS(nan, reg.K1, r)
			VMOVUPS(i.lower(r), Mem{Base: dst, Disp: 32 * x})
			VEXTRACTF32X8(Imm(1), r, Mem{Base: second, Disp: 32 * x})
			continue
		}
		VCMPPS(Imm(3), r, r, mask) // unordered: NaN
		VBLENDVPS(mask, nan, r, r)
		i.load(r, Mem{Base: dst, Disp: 32 * x})
	}
	ADDQ(U32(uint32(n*v)), from)
	ADDQ(line, dst)
	if wide {
		ADDQ(line, second)
	}
	DECQ(left)
	JNZ(LabelRef(name + "rows"))
	VZEROUPPER()
	RET()
}

// fastTaps is a convolution tap by tap of groups of pixels side by side and 2*lanes
// outputs: the channels of a tap, 8 or the first 4, in order, one tap after another, by fused multiply-adds
// from zero, in sums of chain taps that are added in order; then the bias. Every NaN
// becomes the one NaN.
//
//	src     where the first pixel reads its first tap, 8 channels a pixel
//	pixel   bytes in src from a pixel of dst to the next
//	taps    for each tap the bytes from there
//	n       of them, 1 or more
//	u       [n][channels][2*lanes]
//	m       scratch, [tiles][2*lanes]
//	bias    [2*lanes]
//	dst     first pixel of the outputs, 8 channels a pixel
//	plane   bytes from 8 outputs to the next 8, 0 to have the first 8 only (AVX2)
//	groups  of tiles pixels
func fastTaps(i isa, channels int) {
	wide := i.lanes == 16
	name := fmt.Sprintf("fastTapsOf%d%s", channels, i.name)
	TEXT(name, NOSPLIT,
		"func(src *float32, pixel int, taps *int, n, chain int, u, m, bias, dst *float32, plane, groups int)")
	Pragma("noescape")
	Doc(name + " convolves tap by tap: see asm/fast.go.")
	load := func(p string) reg.GPVirtual { return Load(Param(p), GP64()).(reg.GPVirtual) }
	src, pixel, m, dst := load("src"), load("pixel"), load("m"), load("dst")
	u, taps, left, steps, sums, at, far := GP64(), GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	sum := i.wide[:2*i.tiles]
	w := i.wide[2*i.tiles : 2*i.tiles+2]
	x := i.wide[2*i.tiles+2:]
	n := i.vector()
	Label(name)
	MOVQ(mustParam("u"), u)
	MOVQ(mustParam("taps"), taps)
	MOVQ(mustParam("n"), left)
	XORQ(sums, sums)
	Label(name + "sum")
	MOVQ(mustParam("chain"), steps)
	CMPQ(left, steps)
	CMOVQLT(left, steps)
	SUBQ(steps, left)
	for _, s := range sum {
		i.clear(s)
	}
	Label(name + "tap")
	MOVQ(Mem{Base: taps}, at)
	ADDQ(src, at)
	LEAQ(Mem{Base: pixel, Index: pixel, Scale: 2}, far)
	ADDQ(at, far)
	from := pixels{{0, at}, {3, far}}
	if wide {
		fifth, tenth := GP64(), GP64()
		LEAQ(Mem{Base: far, Index: pixel, Scale: 2}, fifth)
		LEAQ(Mem{Base: pixel, Index: pixel, Scale: 4}, tenth)
		ADDQ(fifth, tenth)
		from = append(from, base{5, fifth}, base{10, tenth})
	}
	for c := range channels {
		i.load(Mem{Base: u, Disp: 2 * c * n}, w[0])
		i.load(Mem{Base: u, Disp: (2*c + 1) * n}, w[1])
		for t := range i.tiles {
			xt := x[t%len(x)]
			i.spread(from.at(pixel, t, i.size()*c), xt)
			i.fma(xt, w[0], sum[2*t])
			i.fma(xt, w[1], sum[2*t+1])
		}
	}
	ADDQ(Imm(8), taps)
	ADDQ(U32(uint32(2*channels*n)), u)
	DECQ(steps)
	JNZ(LabelRef(name + "tap"))
	TESTQ(sums, sums)
	JZ(LabelRef(name + "next"))
	for s, r := range sum {
		i.add(Mem{Base: m, Disp: s * n}, r, r)
	}
	Label(name + "next")
	INCQ(sums)
	TESTQ(left, left)
	JZ(LabelRef(name + "store"))
	for s, r := range sum {
		i.load(r, Mem{Base: m, Disp: s * n})
	}
	JMP(LabelRef(name + "sum"))
	Label(name + "store")
	nan, mask := w[0], w[1]
	i.load(i.bits(canonicalNaN), nan)
	MOVQ(mustParam("bias"), at)
	MOVQ(mustParam("plane"), far)
	if wide {
		MOVQ(dst, taps)
		for h := range 2 {
			i.load(Mem{Base: at, Disp: h * n}, x[0])
			for t := range i.tiles {
				r := sum[2*t+h]
				i.add(x[0], r, r)
				VCMPPS(Imm(3), r, r, reg.K1) // unordered: NaN
				VMOVAPS(nan, reg.K1, r)
				VMOVUPS(i.lower(r), Mem{Base: taps, Disp: 32 * t})
				VEXTRACTF32X8(Imm(1), r, Mem{Base: taps, Index: far, Scale: 1, Disp: 32 * t})
			}
			LEAQ(Mem{Base: taps, Index: far, Scale: 2}, taps)
		}
	} else {
		ADDQ(dst, far)
		to := []reg.GPVirtual{dst, far}
		for _, h := range []int{1, 0} { // the second 8 first: they may share the place of the first
			i.load(Mem{Base: at, Disp: h * n}, x[0])
			for t := range i.tiles {
				r := sum[2*t+h]
				i.add(x[0], r, r)
				VCMPPS(Imm(3), r, r, mask) // unordered: NaN
				VBLENDVPS(mask, nan, r, r)
				i.load(r, Mem{Base: to[h], Disp: 32 * t})
			}
		}
	}
	ADDQ(U32(uint32(32*i.tiles)), dst)
	for range i.tiles {
		ADDQ(pixel, src)
	}
	DECQ(mustParam("groups"))
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// base is a pointer to pixel n of pixels at equal distance.
type base struct {
	n  int
	at reg.GPVirtual
}

// pixels are pointers to some of them.
type pixels []base

// at returns the address of pixel n displaced by disp.
func (p pixels) at(step reg.GPVirtual, n, disp int) Mem {
	for _, b := range p {
		switch n - b.n {
		case 0:
			return Mem{Base: b.at, Disp: disp}
		case 1, 2, 4, 8:
			return Mem{Base: b.at, Index: step, Scale: uint8(n - b.n), Disp: disp}
		}
	}
	panic(fmt.Sprint("no way to pixel ", n))
}
