package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowGather lays 8 lines of numbers, one of each channel, out as pixels, 8 pixels
// at a time:
//
//	dst     pixels of 8 float32 numbers
//	lines   8 lines of float64 numbers
//	pixels  a positive multiple of 8
func rowGather() {
	TEXT("rowGatherAVX2", NOSPLIT, "func(dst *float32, lines *[8]*float64, pixels int)")
	Pragma("noescape")
	Doc("rowGatherAVX2 lays lines out as pixels: see asm/rows.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	lines := Load(Param("lines"), GP64()).(reg.GPVirtual)
	n := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	x, line := GP64(), GP64()
	XORQ(x, x)
	y, half := ymm(), xmm()
	Label("gather")
	for c := range 8 {
		MOVQ(Mem{Base: lines, Disp: 8 * c}, line)
		VCVTPD2PSY(Mem{Base: line, Index: x, Scale: 8}, half[c])
		VCVTPD2PSY(Mem{Base: line, Index: x, Scale: 8, Disp: 32}, half[13])
		VINSERTF128(Imm(1), half[13], y[c], y[c])
	}
	transpose(y[:8], y[8])
	for p, r := range []int{0, 2, 1, 3} {
		VINSERTF128(Imm(1), half[r+4], y[r], y[8])
		VMOVUPS(y[8], Mem{Base: dst, Disp: 32 * p})
		VPERM2F128(Imm(0x31), y[r+4], y[r], y[8])
		VMOVUPS(y[8], Mem{Base: dst, Disp: 32 * (p + 4)})
	}
	ADDQ(U32(256), dst)
	ADDQ(Imm(8), x)
	CMPQ(x, n)
	JL(LabelRef("gather"))
	VZEROUPPER()
	RET()
}

// transpose turns rows c of 8 float32 numbers into these: register 0, 2, 1, 3 hold
// numbers 0 to 3 of rows 0 to 3 below and 4 to 7 above, 4, 6, 5, 7 of rows 4 to
// 7. t is scratch.
func transpose(y []reg.VecPhysical, t reg.VecPhysical) {
	for _, c := range []int{0, 2, 4, 6} {
		VUNPCKHPS(y[c+1], y[c], t)
		VUNPCKLPS(y[c+1], y[c], y[c])
		VMOVAPS(t, y[c+1])
	}
	for _, c := range []int{0, 1, 4, 5} {
		VUNPCKHPD(y[c+2], y[c], t)
		VUNPCKLPD(y[c+2], y[c], y[c])
		VMOVAPS(t, y[c+2])
	}
}

// rowFinite reports whether all numbers are finite.
func rowFinite() {
	TEXT("rowFiniteAVX2", NOSPLIT, "func(x *float32, pixels int) bool")
	Pragma("noescape")
	Doc("rowFiniteAVX2 looks for numbers that are not finite: see asm/rows.go.")
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	n := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	// An exponent of ones becomes a sign by adding 1 to it, once the sign is gone.
	bits := GP32()
	for k, to := range []reg.VecPhysical{reg.Y1, reg.Y2} {
		MOVL(U32([]uint32{0x7fffffff, 0x00800000}[k]), bits)
		VMOVD(bits, reg.X0)
		VPBROADCASTD(reg.X0, to)
	}
	VXORPS(reg.Y3, reg.Y3, reg.Y3)
	Label("finite")
	VPAND(Mem{Base: x}, reg.Y1, reg.Y0)
	VPADDD(reg.Y2, reg.Y0, reg.Y0)
	VPOR(reg.Y0, reg.Y3, reg.Y3)
	ADDQ(Imm(32), x)
	DECQ(n)
	JNZ(LabelRef("finite"))
	VMOVMSKPS(reg.Y3, bits)
	TESTL(bits, bits)
	SETEQ(bits.As8())
	VZEROUPPER()
	Store(bits.As8(), ReturnIndex(0))
	RET()
}

// rowCut rounds float32 numbers to 10 bits behind the point by a carry:
//
//	dst, x  pixels of 8 float32 numbers, 1 or more; the same or apart
//	add     what is added to the bits
//	odd     1 if the last bit that stays is added too
func rowCut() {
	TEXT("rowCutAVX2", NOSPLIT, "func(dst, x *float32, pixels int, add, odd uint32)")
	Pragma("noescape")
	Doc("rowCutAVX2 rounds to TF32: see asm/rows.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	n := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	bits := GP32()
	for k, to := range []reg.VecPhysical{reg.Y2, reg.Y3, reg.Y4} {
		if k == 2 {
			MOVL(U32(0xffffe000), bits)
		} else {
			MOVL(mustParam([]string{"add", "odd"}[k]), bits)
		}
		VMOVD(bits, reg.X0)
		VPBROADCASTD(reg.X0, to)
	}
	Label("cut")
	VMOVDQU(Mem{Base: x}, reg.Y0)
	VPSRLD(Imm(13), reg.Y0, reg.Y1)
	VPAND(reg.Y3, reg.Y1, reg.Y1)
	VPADDD(reg.Y2, reg.Y0, reg.Y0)
	VPADDD(reg.Y1, reg.Y0, reg.Y0)
	VPAND(reg.Y4, reg.Y0, reg.Y0)
	VMOVDQU(reg.Y0, Mem{Base: dst})
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), dst)
	DECQ(n)
	JNZ(LabelRef("cut"))
	VZEROUPPER()
	RET()
}
