package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dot is one output of a 3x3 convolution directly:
//
//	src     first pixel of the 3x3 window of channel block 0, float32, 8 channels a pixel
//	line    bytes from a line of pixels to the next
//	image   bytes from a channel block to the next
//	w       [blocks][9][8] float32
//	out     for each of the 8 channels of a block the sum, then the sum of magnitudes
//
// Products of float32 numbers are exact. There is a sum for each line of the
// kernel, of 3*blocks terms; the second and the third are added to the first.
func dot(i isa) {
	TEXT("winogradDot"+i.name, NOSPLIT, "func(src *float32, line, image int, w *float32, blocks int, out *[16]float64)")
	Pragma("noescape")
	Doc("winogradDot" + i.name + " is one output directly: see asm/winograd.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	image := Load(Param("image"), GP64()).(reg.GPVirtual)
	w := Load(Param("w"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	v := i.vector()
	halves := i.halves()
	// 3 lines by halves of sums, then of magnitudes, then scratch.
	sum := func(y, h int) reg.VecPhysical { return i.wide[y*halves+h] }
	size := i.wide[3*halves : 4*halves]
	x, p := i.wide[4*halves], i.wide[4*halves+1]
	for _, r := range i.wide[:4*halves] {
		VXORPD(r, r, r)
	}
	Label("dot" + i.name)
	for y := range 3 {
		for c := range 3 {
			for h := range halves {
				m := Mem{Base: src, Disp: 32*c + h*v/2}
				if y > 0 {
					m.Index, m.Scale = line, uint8(y)
				}
				VCVTPS2PD(m, x)
				VCVTPS2PD(Mem{Base: w, Disp: 32*(3*y+c) + h*v/2}, p)
				VMULPD(x, p, p)
				VADDPD(p, sum(y, h), sum(y, h))
				if i.lanes == 8 {
					VPANDQ(i.bits(1<<63-1), p, p)
				} else {
					VPAND(i.bits(1<<63-1), p, p)
				}
				VADDPD(p, size[h], size[h])
			}
		}
	}
	ADDQ(image, src)
	ADDQ(U32(9*32), w)
	DECQ(blocks)
	JNZ(LabelRef("dot" + i.name))
	for h := range halves {
		VADDPD(sum(1, h), sum(0, h), sum(0, h))
		VADDPD(sum(2, h), sum(0, h), sum(0, h))
	}
	for h := range halves {
		VMOVUPD(sum(0, h), Mem{Base: out, Disp: h * v})
		VMOVUPD(size[h], Mem{Base: out, Disp: 64 + h*v})
	}
	VZEROUPPER()
	RET()
}
