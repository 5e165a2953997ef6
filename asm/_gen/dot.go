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
//	line    bytes from a line of pixels to the next
//	image   bytes from a channel block to the next
//	w       [blocks][K*K][8] float32
//	out     for each of the 8 channels of a block the sum, then the sum of magnitudes
//
// Products of float32 numbers are exact. There is a sum for each line of the
// kernel, of K*blocks terms; the others are added to the first in order.
func dot(i isa, f form) {
	name := "winograd" + f.name + "Dot" + i.name
	TEXT(name, NOSPLIT, "func(src *float32, line, image int, w *float32, blocks int, out *[16]float64)")
	Pragma("noescape")
	Doc(name + " is one output directly: see asm/winograd.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	image := Load(Param("image"), GP64()).(reg.GPVirtual)
	w := Load(Param("w"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	v, k := i.vector(), f.taps
	sum, size, x, p := i.wide[:k], i.wide[k], i.wide[k+1], i.wide[k+2]
	for h := range i.halves() {
		if h > 0 {
			MOVQ(mustParam("src"), src)
			MOVQ(mustParam("w"), w)
			MOVQ(mustParam("blocks"), blocks)
		}
		for _, r := range i.wide[:k+1] {
			VXORPD(r, r, r)
		}
		loop := fmt.Sprint(name, h)
		Label(loop)
		in := newRows(k, src, line)
		for y := range k {
			for c := range k {
				VCVTPS2PD(in.at(y, 32*c+h*v/2), x)
				VCVTPS2PD(Mem{Base: w, Disp: 32*(k*y+c) + h*v/2}, p)
				VMULPD(x, p, p)
				VADDPD(p, sum[y], sum[y])
				if i.lanes == 8 {
					VPANDQ(i.bits(1<<63-1), p, p)
				} else {
					VPAND(i.bits(1<<63-1), p, p)
				}
				VADDPD(p, size, size)
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
		VMOVUPD(size, Mem{Base: out, Disp: 64 + h*v})
	}
	VZEROUPPER()
	RET()
}
