package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// measure writes the kernels of Measure, for AVX2, and used with AVX-512 too. Their sums are in
// the order of the numbers, one number at a time: a sum waits for the one before, so four share
// a register, and what is added to them is made for four numbers at once and turned over.
func measure() {
	measureSums()
	measureCount()
}

// turned adds lane k of a, b, c, for k = 0 to 3, to lanes 0 to 2 of sum.
func turned(sum, a, b, c, zero reg.VecPhysical, t [4]reg.VecPhysical) {
	VUNPCKLPD(b, a, t[0])
	VUNPCKHPD(b, a, t[1])
	VUNPCKLPD(zero, c, t[2])
	VUNPCKHPD(zero, c, t[3])
	for _, half := range []uint64{0x20, 0x31} {
		for k := range 2 {
			VPERM2F128(Imm(half), t[2+k], t[k], a)
			VADDPD(a, sum, sum)
		}
	}
}

func measureSums() {
	TEXT("measureSumsAVX2", NOSPLIT, "func(x *float64, n int, to *[4][4]float64)")
	Pragma("noescape")
	Doc("measureSumsAVX2 is Measure.Sums: see asm/measure.go.")
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	to := Load(Param("to"), GP64()).(reg.GPVirtual)
	y := ymm()
	sum, lo, hi, first, v, square, size, off, zero, sign := y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7], y[8], y[9]
	for k, r := range []reg.VecPhysical{sum, lo, hi, first} {
		VMOVUPD(Mem{Base: to, Disp: 32 * k}, r)
	}
	VXORPD(zero, zero, zero)
	VPCMPEQD(sign, sign, sign)
	VPSRLQ(Imm(1), sign, sign)
	Label("sums")
	VMOVUPD(Mem{Base: x}, v)
	VMULPD(v, v, square)
	VANDPD(sign, v, size)
	VSUBPD(first, v, off)
	VMINPD(lo, v, lo) // the second one of NaN and of two zeros
	VMAXPD(hi, v, hi)
	turned(sum, square, size, off, zero, [4]reg.VecPhysical{y[10], y[11], y[12], y[13]})
	ADDQ(Imm(32), x)
	SUBQ(Imm(4), n)
	JNZ(LabelRef("sums"))
	for k, r := range []reg.VecPhysical{sum, lo, hi} {
		VMOVUPD(r, Mem{Base: to, Disp: 32 * k})
	}
	VZEROUPPER()
	RET()
}

func measureCount() {
	TEXT("measureCountAVX2", NOSPLIT, "func(x, y *float64, n int, by *[5]float64, sum *[4]float64, counts *[8][64]int32)")
	Pragma("noescape")
	Doc("measureCountAVX2 is Measure.Count: see asm/measure.go.")
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	z := Load(Param("y"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	by := Load(Param("by"), GP64()).(reg.GPVirtual)
	to := Load(Param("sum"), GP64()).(reg.GPVirtual)
	counts := Load(Param("counts"), GP64()).(reg.GPVirtual)
	other, swap := GP64(), GP64()
	LEAQ(Mem{Base: counts, Disp: 1024}, other)
	y, bin := ymm(), GP64()
	sum, a, b, lo, bins, span, dx, dy, q, zero := y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7], y[8], y[9]
	for k, r := range []reg.VecPhysical{a, b, lo, bins, span} {
		VBROADCASTSD(Mem{Base: by, Disp: 8 * k}, r)
	}
	VMOVUPD(Mem{Base: to}, sum)
	VXORPD(zero, zero, zero)
	Label("count")
	VMOVUPD(Mem{Base: x}, q)
	VSUBPD(a, q, dx)
	VSUBPD(lo, q, q)
	VMULPD(bins, q, q)
	VDIVPD(span, q, q)
	VCVTTPD2DQY(q, reg.X8)
	VMOVUPD(Mem{Base: z}, dy)
	VSUBPD(b, dy, dy)
	VMULPD(dx, dy, dy)
	VMULPD(dx, dx, y[14])
	for k := range 4 {
		if k == 0 {
			VMOVD(reg.X8, bin.As32())
		} else {
			VPEXTRD(Imm(uint64(k)), reg.X8, bin.As32())
		}
		ANDL(Imm(63), bin.As32())
		INCL(Mem{Base: counts, Index: bin, Scale: 4, Disp: 256 * k})
	}
	MOVQ(counts, swap) // the four other tables: an increment waits for one before in its place
	MOVQ(other, counts)
	MOVQ(swap, other)
	turned(sum, dx, y[14], dy, zero, [4]reg.VecPhysical{y[10], y[11], y[12], y[13]})
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), z)
	SUBQ(Imm(4), n)
	JNZ(LabelRef("count"))
	VMOVUPD(sum, Mem{Base: to})
	VZEROUPPER()
	RET()
}
