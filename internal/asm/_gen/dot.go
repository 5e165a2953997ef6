package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dot is one output of a convolution with KxK taps directly:
//
//	src     first pixel of the KxK window of channel block 0, float32, 8 channels a pixel
//	next    the same of the output after it, to be asked for in advance
//	line    bytes from a line of pixels to the next
//	image   bytes from a channel block to the next
//	w       [blocks][K*K][8] float32
//	out     for each of the 8 channels of a block the sum
//
// Products of float32 numbers are exact. There is a sum for each line of the
// kernel, of K*blocks terms; the others are added to the first in order.
func dot(i isa, f form) {
	name := "winograd" + f.name + "Dot" + i.name
	TEXT(name, NOSPLIT, "func(src, next *float32, line, image int, w *float32, blocks int, out *[8]float64)")
	Pragma("noescape")
	Doc(name + " is one output directly: see asm/winograd.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	next := Load(Param("next"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	image := Load(Param("image"), GP64()).(reg.GPVirtual)
	w := Load(Param("w"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	v, k := i.vector(), f.taps
	sum, x, p := i.wide[:k], i.wide[k], i.wide[k+1]
	for h := range i.halves() {
		if h > 0 {
			MOVQ(mustParam("src"), src)
			MOVQ(mustParam("w"), w)
			MOVQ(mustParam("blocks"), blocks)
		}
		for _, r := range sum {
			VXORPD(r, r, r)
		}
		loop := fmt.Sprint(name, h)
		Label(loop)
		in := newRows(k, src, line)
		if h == 0 {
			ahead := newRows(k, next, line)
			for y := range k {
				for disp := 0; disp < 32*k-1; disp += 64 {
					PREFETCHT0(ahead.at(y, disp))
				}
				PREFETCHT0(ahead.at(y, 32*k-1))
			}
			ADDQ(image, next)
		}
		for y := range k {
			for c := range k {
				VCVTPS2PD(in.at(y, 32*c+h*v/2), x)
				VCVTPS2PD(Mem{Base: w, Disp: 32*(k*y+c) + h*v/2}, p)
				VFMADD231PD(x, p, sum[y])
			}
		}
		ADDQ(image, src)
		ADDQ(U32(uint32(32*k*k)), w)
		DECQ(blocks)
		JNZ(LabelRef(loop))
		for _, s := range sum[1:] {
			VADDPD(s, sum[0], sum[0])
		}
		VMOVUPD(sum[0], Mem{Base: out, Disp: h * v})
	}
	VZEROUPPER()
	RET()
}

// inWords is one output of a convolution with KxK taps directly, in words: for each
// of the 8 channels of a block the sum s of products, the sum l of the errors that
// additions to s make, and the sum of magnitudes of the errors that those to l
// make, as twoSum of package conv finds them; all from zero, in order.
//
//	src     first pixel of the KxK window of channel block 0, float32, 8 channels a pixel
//	line    bytes from a line of pixels to the next
//	image   bytes from a channel block to the next
//	w       [blocks][K*K][8] float32
//	taps    K
//	blocks  channel blocks, 1 or more
//	out     s [8], l [8], lost [8]
func inWords(i isa) {
	name := "convWords" + i.name
	TEXT(name, NOSPLIT, "func(src *float32, line, image int, w *float32, taps, blocks int, out *[24]float64)")
	Pragma("noescape")
	Doc(name + " is one output in words: see asm/winograd.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	image := Load(Param("image"), GP64()).(reg.GPVirtual)
	w := Load(Param("w"), GP64()).(reg.GPVirtual)
	taps := Load(Param("taps"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	row, at, lines, left := GP64(), GP64(), GP64(), GP64()
	v, half := i.vector(), i.vector()/2
	s, l, lost := i.wide[0], i.wide[1], i.wide[2]
	p, t, z, e := i.wide[3], i.wide[4], i.wide[5], i.wide[6]
	// twoSum adds x to sum and leaves the error in x.
	twoSum := func(sum, x reg.VecPhysical) {
		VADDPD(x, sum, t)
		VSUBPD(sum, t, z)
		VSUBPD(z, t, e)
		VSUBPD(e, sum, e) // sum - (t - z)
		VSUBPD(z, x, x)   // x - z
		VADDPD(x, e, x)
		VMOVAPD(t, sum)
	}
	for h := range i.halves() {
		if h > 0 {
			MOVQ(mustParam("src"), src)
			MOVQ(mustParam("w"), w)
			MOVQ(mustParam("blocks"), blocks)
		}
		for _, r := range []reg.VecPhysical{s, l, lost} {
			VXORPD(r, r, r)
		}
		loop := fmt.Sprint(name, h)
		Label(loop + "block")
		MOVQ(src, row)
		MOVQ(taps, lines)
		Label(loop + "line")
		MOVQ(row, at)
		MOVQ(taps, left)
		Label(loop + "tap")
		VCVTPS2PD(Mem{Base: at, Disp: h * half}, p)
		VCVTPS2PD(Mem{Base: w, Disp: h * half}, t)
		VMULPD(t, p, p)
		twoSum(s, p)
		twoSum(l, p)
		if i.lanes == 8 {
			VPANDQ(i.bits(1<<63-1), p, p)
		} else {
			VPAND(i.bits(1<<63-1), p, p)
		}
		VADDPD(p, lost, lost)
		ADDQ(Imm(32), at)
		ADDQ(Imm(32), w)
		DECQ(left)
		JNZ(LabelRef(loop + "tap"))
		ADDQ(line, row)
		DECQ(lines)
		JNZ(LabelRef(loop + "line"))
		ADDQ(image, src)
		DECQ(blocks)
		JNZ(LabelRef(loop + "block"))
		for r, x := range []reg.VecPhysical{s, l, lost} {
			VMOVUPD(x, Mem{Base: out, Disp: 64*r + h*v})
		}
	}
	VZEROUPPER()
	RET()
}

// exactPixels is 4 pixels side by side of 2*lanes outputs directly, by anchored
// sums: t = T + xw, rounded, from an anchor S on; d = t - T, e = xw - d and T = t
// without error, and l adds up the e.
//
//	src     the first pixel's place at the first tap, float32
//	taps    for each tap the bytes from there; the next pixel is 32 bytes further
//	n       number of taps
//	u       [n][2*lanes]
//	anchor  S [2*lanes]
//	out     [4][T-S [2*lanes], l [2*lanes]]
func exactPixels(i isa) {
	name := "exactPixels" + i.name
	TEXT(name, NOSPLIT, "func(src *float32, taps *int, n int, u, anchor, out *float64)")
	Pragma("noescape")
	Doc(name + " is 4 pixels by anchored sums: see asm/pixels.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	anchor := Load(Param("anchor"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	taps, u, left, at := GP64(), GP64(), GP64(), GP64()
	v := i.vector()
	pixels := i.lanes / 2 // at once
	sum := func(p, h int) reg.VecPhysical { return i.wide[4*p+h] }
	low := func(p, h int) reg.VecPhysical { return i.wide[4*p+2+h] }
	free := i.wide[4*pixels:]
	w, x, d, t := free[0:2], free[2], free[3], free[4]
	for first := 0; first < 4; first += pixels {
		loop := fmt.Sprint(name, first)
		MOVQ(mustParam("taps"), taps)
		MOVQ(mustParam("u"), u)
		MOVQ(mustParam("n"), left)
		for p := range pixels {
			for h := range 2 {
				VMOVUPD(Mem{Base: anchor, Disp: h * v}, sum(p, h))
				VXORPD(low(p, h), low(p, h), low(p, h))
			}
		}
		Label(loop)
		MOVQ(Mem{Base: taps}, at)
		ADDQ(src, at)
		for h := range 2 {
			VMOVUPD(Mem{Base: u, Disp: h * v}, w[h])
		}
		for p := range pixels {
			VBROADCASTSS(Mem{Base: at, Disp: 32 * (first + p)}, i.halfOf(x))
			VCVTPS2PD(i.halfOf(x), x)
			for h := range 2 {
				s := sum(p, h)
				VMOVAPD(s, t)
				VFMADD231PD(x, w[h], t)
				VSUBPD(s, t, d)
				VMOVAPD(t, s)
				VFMSUB231PD(x, w[h], d) // xw - d
				VADDPD(d, low(p, h), low(p, h))
			}
		}
		ADDQ(Imm(8), taps)
		ADDQ(U32(uint32(2*v)), u)
		DECQ(left)
		JNZ(LabelRef(loop))
		for p := range pixels {
			for h := range 2 {
				VSUBPD(Mem{Base: anchor, Disp: h * v}, sum(p, h), sum(p, h))
				VMOVUPD(sum(p, h), Mem{Base: out, Disp: (4*(first+p) + h) * v})
				VMOVUPD(low(p, h), Mem{Base: out, Disp: (4*(first+p) + 2 + h) * v})
			}
		}
	}
	VZEROUPPER()
	RET()
}

// halfOf returns a register at half the width.
func (i isa) halfOf(r reg.VecPhysical) reg.VecPhysical {
	for n, w := range i.wide {
		if w == r {
			return i.half[n]
		}
	}
	panic("no such register")
}
