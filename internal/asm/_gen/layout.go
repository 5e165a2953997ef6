package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// packLine lays 8 lines of numbers, one of each channel, out as pixels of 8
// float32 numbers, and adds the squares of the scaled numbers to a sum for each
// pixel. Eight pixels at a time; written for AVX2, and used with AVX-512 too.
func packLine() {
	TEXT("packLineAVX2", NOSPLIT, "func(in *[8]*float64, scale *[8]float64, out *float32, sums *float64, pixels int)")
	Pragma("noescape")
	Doc("packLineAVX2 lays 8 lines out as pixels: see asm/winograd.go.")
	in := Load(Param("in"), GP64()).(reg.GPVirtual)
	scale := Load(Param("scale"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	sums := Load(Param("sums"), GP64()).(reg.GPVirtual)
	n := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	x, line := GP64(), GP64()
	XORQ(x, x)
	y := ymm()
	lo, hi, t := y[8], y[9], y[10]
	Label("pixels")
	VMOVUPD(Mem{Base: sums}, lo)
	VMOVUPD(Mem{Base: sums, Disp: 32}, hi)
	for c := range 8 {
		MOVQ(Mem{Base: in, Disp: 8 * c}, line)
		VBROADCASTSD(Mem{Base: scale, Disp: 8 * c}, t)
		for h, sum := range []reg.VecPhysical{lo, hi} {
			p := y[11+h]
			VMOVUPD(Mem{Base: line, Index: x, Scale: 8, Disp: 32 * h}, p)
			VCVTPD2PSY(p, []reg.VecPhysical{xmm()[c], xmm()[13]}[h])
			VMULPD(t, p, p)
			VFMADD231PD(p, p, sum)
		}
		VINSERTF128(Imm(1), reg.X13, y[c], y[c])
	}
	VMOVUPD(lo, Mem{Base: sums})
	VMOVUPD(hi, Mem{Base: sums, Disp: 32})
	// Transpose: pairs, then fours, then the halves.
	for _, c := range []int{0, 2, 4, 6} {
		a, b := y[c], y[c+1]
		VUNPCKHPS(b, a, t)
		VUNPCKLPS(b, a, a)
		VMOVAPS(t, b)
	}
	for _, c := range []int{0, 4} {
		for k := range 2 { // a holds pixels 2k, 2k+1 (and +4) of c, c+1; b of c+2, c+3
			a, b := y[c+k], y[c+2+k]
			VUNPCKHPD(b, a, t)
			VUNPCKLPD(b, a, a)
			VMOVAPS(t, b)
		}
	}
	// y0, y2, y1, y3: pixels 0 to 3 of channels 0 to 3 below, 4 to 7 above;
	// y4, y6, y5, y7 of channels 4 to 7.
	for p, r := range []int{0, 2, 1, 3} {
		VINSERTF128(Imm(1), xmm()[r+4], y[r], t)
		VMOVUPS(t, Mem{Base: out, Disp: 32 * p})
		VPERM2F128(Imm(0x31), y[r+4], y[r], t)
		VMOVUPS(t, Mem{Base: out, Disp: 32 * (p + 4)})
	}
	ADDQ(U32(256), out)
	ADDQ(Imm(64), sums)
	ADDQ(Imm(8), x)
	CMPQ(x, n)
	JL(LabelRef("pixels"))
	VZEROUPPER()
	RET()
}

// sumSquares adds the squares of n numbers to 24 sums, in 6 registers.
func sumSquares() {
	const name = "sumSquaresAVX2"
	TEXT(name, NOSPLIT, "func(x *float64, n int, sums *float64)")
	Pragma("noescape")
	Doc(name + " adds squares: see asm/direct.go.")
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	sums := Load(Param("sums"), GP64()).(reg.GPVirtual)
	const registers = 6
	y := ymm()
	for r := range registers {
		VMOVUPD(Mem{Base: sums, Disp: 32 * r}, y[r])
	}
	Label(name)
	for r := range registers {
		VMOVUPD(Mem{Base: x, Disp: 32 * r}, y[registers+r])
		VFMADD231PD(y[registers+r], y[registers+r], y[r])
	}
	ADDQ(Imm(32*registers), x)
	SUBQ(Imm(4*registers), n)
	JNE(LabelRef(name))
	for r := range registers {
		VMOVUPD(y[r], Mem{Base: sums, Disp: 32 * r})
	}
	VZEROUPPER()
	RET()
}

// addSquares adds the squares of n scaled numbers, a multiple of 8, to sums.
func addSquares() {
	TEXT("addSquaresAVX2", NOSPLIT, "func(x *float64, scale float64, sums *float64, n int)")
	Pragma("noescape")
	Doc("addSquaresAVX2 adds squares: see asm/direct.go.")
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	sums := Load(Param("sums"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	scale, err := Param("scale").Resolve()
	if err != nil {
		panic(err)
	}
	y := ymm()
	VBROADCASTSD(scale.Addr, y[0])
	at := GP64()
	XORQ(at, at)
	Label("squares")
	for h := range 2 {
		VMULPD(Mem{Base: x, Index: at, Scale: 8, Disp: 32 * h}, y[0], y[1+h])
		VMOVUPD(Mem{Base: sums, Index: at, Scale: 8, Disp: 32 * h}, y[3+h])
		VFMADD231PD(y[1+h], y[1+h], y[3+h])
		VMOVUPD(y[3+h], Mem{Base: sums, Index: at, Scale: 8, Disp: 32 * h})
	}
	ADDQ(Imm(8), at)
	CMPQ(at, n)
	JL(LabelRef("squares"))
	VZEROUPPER()
	RET()
}
