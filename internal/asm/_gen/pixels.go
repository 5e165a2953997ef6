package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pixelNorms is the root of the sum of squares of each pixel's scaled channels:
//
//	src     first pixel in channel block 0, float32, 8 channels a pixel
//	image   bytes from a channel block to the next
//	scale   [blocks][8]
//	blocks  channel blocks, 1 or more
//	out     the norms
//	pixels  a multiple of 4, 4 or more
//
// There is a sum for each of 8 channels, blocks in order; they are added as
// ((0+4)+(1+5)) + ((2+6)+(3+7)).
func pixelNorms(i isa) {
	name := "pixelNorms" + i.name
	TEXT(name, NOSPLIT, "func(src *float32, image int, scale *float64, blocks int, out *float64, pixels int)")
	Pragma("noescape")
	Doc(name + " takes the norms of pixels: see asm/pixels.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	image := Load(Param("image"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	pixels := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	from, scale, left := GP64(), GP64(), GP64()
	halves, v := i.halves(), i.vector()
	sizes := []int{4} // pixels at a time
	if i.lanes == 8 {
		sizes = []int{16, 4} // a long line of each block is read sooner
	}
	accumulators := sizes[0] * halves
	sum := func(p, h int) reg.VecPhysical { return i.wide[p*halves+h] }
	t, x := i.wide[accumulators:accumulators+halves], i.wide[accumulators+halves:]
	for k, n := range sizes {
		loop := fmt.Sprint(name, n)
		Label("pixels" + loop)
		if k+1 < len(sizes) {
			CMPQ(pixels, Imm(uint64(n)))
			JL(LabelRef(fmt.Sprint("pixels", name, sizes[k+1])))
		} else {
			TESTQ(pixels, pixels)
			JZ(LabelRef("end" + name))
		}
		MOVQ(src, from)
		MOVQ(mustParam("scale"), scale)
		MOVQ(mustParam("blocks"), left)
		for _, r := range i.wide[:n*halves] {
			VXORPD(r, r, r)
		}
		Label("block" + loop)
		for h := range halves {
			VMOVUPD(Mem{Base: scale, Disp: h * v}, t[h])
		}
		for at := 0; at < 32*n && n > 4; at += 64 { // the pixels that follow
			PREFETCHT0(Mem{Base: from, Disp: 32*n + at})
		}
		for p := range n {
			for h := range halves {
				r := x[(p*halves+h)%4]
				VCVTPS2PD(Mem{Base: from, Disp: 32*p + h*v/2}, r)
				VMULPD(t[h], r, r)
				VFMADD231PD(r, r, sum(p, h))
			}
		}
		ADDQ(image, from)
		ADDQ(Imm(64), scale)
		DECQ(left)
		JNZ(LabelRef("block" + loop))
		for p := 0; p < n; p += 4 {
			i.fourNorms(sum, p, x[0])
			VMOVUPD(ymm()[i.index(sum(p, 0))], Mem{Base: out, Disp: 8 * p})
		}
		ADDQ(U32(uint32(32*n)), src)
		ADDQ(U32(uint32(8*n)), out)
		SUBQ(Imm(uint64(n)), pixels)
		JMP(LabelRef("pixels" + loop))
	}
	Label("end" + name)
	VZEROUPPER()
	RET()
}

// fourNorms leaves the roots of the sums of four pixels in the first one's register.
func (i isa) fourNorms(sum func(p, h int) reg.VecPhysical, p int, t reg.VecPhysical) {
	var four [4]reg.VecPhysical
	for k := range four {
		four[k] = ymm()[i.index(sum(p+k, 0))]
		other := ymm()[i.index(t)]
		if i.lanes == 8 {
			VEXTRACTF64X4(Imm(1), sum(p+k, 0), other)
		} else {
			other = sum(p+k, 1)
		}
		VADDPD(other, four[k], four[k])
	}
	VHADDPD(four[1], four[0], four[0])
	VHADDPD(four[3], four[2], four[2])
	VPERM2F128(Imm(0x20), four[2], four[0], four[1])
	VPERM2F128(Imm(0x31), four[2], four[0], four[3])
	VADDPD(four[3], four[1], four[1])
	VSQRTPD(four[1], four[0])
}

// widen lays pixels out for multiply:
//
//	src     first pixel in channel block 0, float32, 8 channels a pixel
//	image   bytes from a channel block to the next
//	step    bytes from a pixel to the next
//	dst     [blocks][tiles][8]
//	blocks  channel blocks, 1 or more
//	pixels  1 to tiles
func widen(i isa) {
	name := "widen" + i.name
	TEXT(name, NOSPLIT, "func(src *float32, image, step int, dst *float64, blocks, pixels int)")
	Pragma("noescape")
	Doc(name + " lays pixels out for multiplication: see asm/pixels.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	image := Load(Param("image"), GP64()).(reg.GPVirtual)
	step := Load(Param("step"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	pixels := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	from, to, left := GP64(), GP64(), GP64()
	Label("block" + name)
	MOVQ(src, from)
	MOVQ(dst, to)
	MOVQ(pixels, left)
	Label("pixel" + name)
	for h := range i.halves() {
		VCVTPS2PD(Mem{Base: from, Disp: h * i.vector() / 2}, i.wide[h])
		VMOVUPD(i.wide[h], Mem{Base: to, Disp: h * i.vector()})
	}
	ADDQ(step, from)
	ADDQ(Imm(64), to)
	DECQ(left)
	JNZ(LabelRef("pixel" + name))
	ADDQ(image, src)
	ADDQ(U32(uint32(i.plane())), dst)
	DECQ(blocks)
	JNZ(LabelRef("block" + name))
	VZEROUPPER()
	RET()
}

// taps is multiply where what a pixel meets lies anywhere, but for all pixels
// of a group side by side:
//
//	src     the first pixel's place at the first tap
//	taps    for each tap the bytes from there
//	n       number of taps
//	u       [n][2*lanes]
//	m       [groups][tiles][2*lanes]
func taps(i isa) {
	name := "multiplyTaps" + i.name
	TEXT(name, NOSPLIT, "func(src *float64, taps *int, n int, u, m *float64, groups int)")
	Pragma("noescape")
	Doc(name + " multiplies tap by tap: see asm/pixels.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	m := Load(Param("m"), GP64()).(reg.GPVirtual)
	groups := Load(Param("groups"), GP64()).(reg.GPVirtual)
	u, tap, left, at := GP64(), GP64(), GP64(), GP64()
	sum := i.wide[:2*i.tiles]
	w := i.wide[2*i.tiles : 2*i.tiles+2]
	x := i.wide[2*i.tiles+2:]
	n := i.vector()
	Label("group" + name)
	MOVQ(mustParam("u"), u)
	MOVQ(mustParam("taps"), tap)
	MOVQ(mustParam("n"), left)
	for _, s := range sum {
		VXORPD(s, s, s)
	}
	Label("tap" + name)
	MOVQ(Mem{Base: tap}, at)
	ADDQ(src, at)
	VMOVUPD(Mem{Base: u}, w[0])
	VMOVUPD(Mem{Base: u, Disp: n}, w[1])
	for t := range i.tiles {
		xt := x[t%len(x)]
		VBROADCASTSD(Mem{Base: at, Disp: 8 * t}, xt)
		VFMADD231PD(xt, w[0], sum[2*t])
		VFMADD231PD(xt, w[1], sum[2*t+1])
	}
	ADDQ(Imm(8), tap)
	ADDQ(U32(uint32(2*n)), u)
	DECQ(left)
	JNZ(LabelRef("tap" + name))
	for s, r := range sum {
		VMOVUPD(r, Mem{Base: m, Disp: s * n})
	}
	ADDQ(U32(uint32(8*i.tiles)), src)
	ADDQ(U32(uint32(i.product())), m)
	DECQ(groups)
	JNZ(LabelRef("group" + name))
	VZEROUPPER()
	RET()
}

// pixelOutput rounds the sums of 8 outputs pixel by pixel, with bias and guard:
//
//	m       the outputs' place in [pixels][2*lanes]
//	norms   [pixels]
//	table   slope [8], bias [8], e [8]
//	dst     the first pixel, float32, 8 channels a pixel
//	pixels  1 or more
//	flags   for each pixel a bit for each channel that the guard leaves open
func pixelOutput(i isa, f format) {
	name := "pixelOutput" + f.name + i.name
	TEXT(name, NOSPLIT, "func(m, norms, table *float64, dst *float32, pixels int, flags *uint8)")
	Pragma("noescape")
	Doc(name + " rounds sums: see asm/pixels.go.")
	m := Load(Param("m"), GP64()).(reg.GPVirtual)
	norms := Load(Param("norms"), GP64()).(reg.GPVirtual)
	table := Load(Param("table"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	pixels := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	flags := Load(Param("flags"), GP64()).(reg.GPVirtual)
	halves, v, w := i.halves(), i.vector(), i.wide
	const lo, hi, s, t, k = 0, 1, 2, 3, 4
	bits, all := GP32(), GP32()
	// The table, as far as there are registers for it.
	row := func(r, h int) reg.VecPhysical { return w[5+r*halves+h] }
	for r := range 3 {
		for h := range halves {
			VMOVUPD(Mem{Base: table, Disp: 64*r + h*v}, row(r, h))
		}
	}
	Label(name)
	VBROADCASTSD(Mem{Base: norms}, w[k])
	for h := range halves {
		VMOVUPD(Mem{Base: m, Disp: h * v}, w[hi])
		VADDPD(row(1, h), w[hi], w[hi])
		VMOVAPD(row(2, h), w[s])
		VFMADD231PD(row(0, h), w[k], w[s])
		VSUBPD(w[s], w[hi], w[lo])
		VADDPD(w[s], w[hi], w[hi])
		i.roundPair(f, lo, hi, s, t, bits)
		if f.name != "Float32" {
			i.narrow(lo)
		}
		VMOVUPS(i.half[lo], Mem{Base: dst, Disp: h * v / 2})
		if h == 0 {
			MOVL(bits, all)
		} else {
			SHLL(Imm(uint64(h*i.lanes)), bits)
			ORL(bits, all)
		}
	}
	MOVB(all.As8(), Mem{Base: flags})
	ADDQ(Imm(uint64(2*v)), m)
	ADDQ(Imm(8), norms)
	ADDQ(Imm(32), dst)
	INCQ(flags)
	DECQ(pixels)
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// unpackLine makes lines of 8 channels of pixels, 4 at a time:
//
//	src     the first pixel, float32, 8 channels a pixel
//	dst     the first number of the first line
//	plane   bytes from a line to the next
//	pixels  a multiple of 4, 4 or more
func unpackLine() {
	TEXT("unpackLineAVX2", NOSPLIT, "func(src *float32, dst *float64, plane, pixels int)")
	Pragma("noescape")
	Doc("unpackLineAVX2 makes 8 lines of pixels: see asm/pixels.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	plane := Load(Param("plane"), GP64()).(reg.GPVirtual)
	pixels := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	third, fourth := GP64(), GP64()
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, third) // 3 planes
	LEAQ(Mem{Base: dst, Index: plane, Scale: 4}, fourth)
	y := ymm()
	Label("unpack")
	for j := range 4 {
		VMOVUPS(Mem{Base: src, Disp: 32 * j}, y[j])
	}
	VUNPCKLPS(y[1], y[0], y[4])
	VUNPCKHPS(y[1], y[0], y[5])
	VUNPCKLPS(y[3], y[2], y[6])
	VUNPCKHPS(y[3], y[2], y[7])
	VUNPCKLPD(y[6], y[4], y[8])  // channels 0, 4
	VUNPCKHPD(y[6], y[4], y[9])  // 1, 5
	VUNPCKLPD(y[7], y[5], y[10]) // 2, 6
	VUNPCKHPD(y[7], y[5], y[11]) // 3, 7
	for c := range 4 {
		VCVTPS2PD(xmm()[8+c], y[12])
		VEXTRACTF128(Imm(1), y[8+c], reg.X13)
		VCVTPS2PD(reg.X13, y[13])
		for h, base := range []reg.Register{dst, fourth} {
			at := Mem{Base: base}
			switch c {
			case 1, 2:
				at.Index, at.Scale = plane, uint8(c)
			case 3:
				at.Index, at.Scale = third, 1
			}
			VMOVUPD(y[12+h], at)
		}
	}
	ADDQ(U32(128), src)
	ADDQ(Imm(32), dst)
	ADDQ(Imm(32), fourth)
	SUBQ(Imm(4), pixels)
	JNZ(LabelRef("unpack"))
	VZEROUPPER()
	RET()
}
