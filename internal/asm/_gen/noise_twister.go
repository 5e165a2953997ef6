package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of the Mersenne Twister.
const (
	mtUpper  = 1 << 31
	mtMatrix = 0x9908b0df
	mtMask1  = 0x9d2c5680
	mtMask2  = 0xefc60000
)

func twisterConstants(t *table) {
	t.words(twice(mtUpper), twice(mtUpper-1), twice(1), twice(mtMatrix), twice(mtMask1), twice(mtMask2), twice(1<<24-1))
	t.floats(0x1p-24)
}

// twist writes words of the recurrence, eight at a time:
//
//	s       words, of which one more than 8 vectors is read
//	far     words as far from s as the recurrence reaches
//	vectors 1 or more
func twist(i isa) {
	name := "noiseTwist" + i.name
	TEXT(name, NOSPLIT, "func(s, far *uint32, vectors int)")
	Pragma("noescape")
	Doc(name + " steps the Mersenne Twister: see asm/noise.go.")
	s := Load(Param("s"), GP64()).(reg.GPVirtual)
	far := Load(Param("far"), GP64()).(reg.GPVirtual)
	n := Load(Param("vectors"), GP64()).(reg.GPVirtual)
	y := i.wide
	upper, lower, one, matrix, zero := y[4], y[5], y[6], y[7], y[8]
	for k, w := range []uint32{mtUpper, mtUpper - 1, 1, mtMatrix} {
		VMOVDQU(i.bits(twice(w)), y[4+k])
	}
	VPXOR(zero, zero, zero)
	Label("loop" + name)
	VPAND(Mem{Base: s}, upper, y[0])
	VMOVDQU(Mem{Base: s, Disp: 4}, y[1])
	VPAND(y[1], lower, y[2])
	VPOR(y[2], y[0], y[0])
	VPSRLD(Imm(1), y[0], y[0])
	VPAND(one, y[1], y[1])
	VPSUBD(y[1], zero, y[1])
	VPAND(matrix, y[1], y[1])
	VPXOR(y[1], y[0], y[0])
	VPXOR(Mem{Base: far}, y[0], y[0])
	VMOVDQU(y[0], Mem{Base: s})
	ADDQ(Imm(32), s)
	ADDQ(Imm(32), far)
	DECQ(n)
	JNZ(LabelRef("loop" + name))
	VZEROUPPER()
	RET()
}

// temper makes multiples of 2^-24 in [0,1) of words of the recurrence, eight at a
// time:
//
//	dst     float64 numbers
//	words   as many
//	vectors 1 or more
func temper(i isa) {
	name := "noiseTemper" + i.name
	TEXT(name, NOSPLIT, "func(dst *float64, words *uint32, vectors int)")
	Pragma("noescape")
	Doc(name + " tempers words of the Mersenne Twister: see asm/noise.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	words := Load(Param("words"), GP64()).(reg.GPVirtual)
	n := Load(Param("vectors"), GP64()).(reg.GPVirtual)
	y, x := i.wide, i.half
	mask1, mask2, low, unit := y[4], y[5], y[6], y[7]
	for k, w := range []uint32{mtMask1, mtMask2, 1<<24 - 1} {
		VMOVDQU(i.bits(twice(w)), y[4+k])
	}
	VMOVUPD(i.float(0x1p-24), unit)
	Label("loop" + name)
	VMOVDQU(Mem{Base: words}, y[0])
	VPSRLD(Imm(11), y[0], y[1])
	VPXOR(y[1], y[0], y[0])
	VPSLLD(Imm(7), y[0], y[1])
	VPAND(mask1, y[1], y[1])
	VPXOR(y[1], y[0], y[0])
	VPSLLD(Imm(15), y[0], y[1])
	VPAND(mask2, y[1], y[1])
	VPXOR(y[1], y[0], y[0])
	VPSRLD(Imm(18), y[0], y[1])
	VPXOR(y[1], y[0], y[0])
	VPAND(low, y[0], y[0])
	VEXTRACTI128(Imm(1), y[0], x[1])
	VCVTDQ2PD(x[0], y[2])
	VCVTDQ2PD(x[1], y[3])
	VMULPD(unit, y[2], y[2])
	VMULPD(unit, y[3], y[3])
	VMOVUPD(y[2], Mem{Base: dst})
	VMOVUPD(y[3], Mem{Base: dst, Disp: 32})
	ADDQ(Imm(32), words)
	ADDQ(Imm(64), dst)
	DECQ(n)
	JNZ(LabelRef("loop" + name))
	VZEROUPPER()
	RET()
}
