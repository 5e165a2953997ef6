package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// whole writes all kernels of asm.Whole: of AVX2, for AVX-512 too, and of AVX-512 with VNNI.
func whole() {
	wholeLines("Multiply", 4)
	wholeLines("MultiplyLine", 1)
	wholeBytes()
	wholeWiden()
	wholeIntegers()
	wholeFloats()
	wholeNarrow()
	wholeWeave()
	wholeExtremes()
	wholeQuantize()
	wholeLinesVNNI("Multiply", 4, 2)
	wholeLinesVNNI("MultiplyLine", 1, 4)
}

// wholeLinesVNNI is wholeLines with a register for 16 columns, in which one instruction multiplies and adds. Sums of so
// many pairs are apart, so that no instruction waits for the one before.
func wholeLinesVNNI(name string, lines, apart int) {
	name = "whole" + name + "VNNI"
	TEXT(name, NOSPLIT, "func(a *int16, line int, b *int16, pairs int, sums *int32)")
	Pragma("noescape")
	Doc(name + " multiplies whole numbers: see asm/whole.go.")
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	pairs, sums := Load(Param("pairs"), GP64()), Load(Param("sums"), GP64())
	bases := []reg.Register{a}
	if lines > 1 {
		line := Load(Param("line"), GP64())
		for l := range lines - 1 {
			at := GP64()
			MOVQ(bases[l], at)
			ADDQ(line, at)
			bases = append(bases, at)
		}
	}
	var acc [][]reg.VecVirtual
	for range apart {
		var of []reg.VecVirtual
		for range lines {
			s := ZMM()
			VPXORD(s, s, s)
			of = append(of, s)
		}
		acc = append(acc, of)
	}
	left, right := ZMM(), ZMM()
	multiply := func(pair int) {
		if lines > 1 {
			VMOVDQU32(Mem{Base: b, Disp: 64 * pair}, right)
		}
		for l, at := range bases {
			VPBROADCASTD(Mem{Base: at, Disp: 4 * pair}, left)
			if lines > 1 {
				VPDPWSSD(right, left, acc[pair][l])
			} else {
				VPDPWSSD(Mem{Base: b, Disp: 64 * pair}, left, acc[pair][l])
			}
		}
	}
	step := func(n int) {
		ADDQ(U32(uint32(64*n)), b)
		for _, at := range bases {
			ADDQ(Imm(uint64(4*n)), at)
		}
	}
	SUBQ(Imm(uint64(apart)), pairs)
	JL(LabelRef(name + "rest"))
	Label(name + "pairs")
	for pair := range apart {
		multiply(pair)
	}
	step(apart)
	SUBQ(Imm(uint64(apart)), pairs)
	JGE(LabelRef(name + "pairs"))
	Label(name + "rest")
	ADDQ(Imm(uint64(apart)), pairs)
	JZ(LabelRef(name + "sums"))
	Label(name + "pair")
	multiply(0)
	step(1)
	DECQ(pairs)
	JNZ(LabelRef(name + "pair"))
	Label(name + "sums")
	for l := range lines {
		for k := 1; k < apart; k++ {
			VPADDD(acc[k][l], acc[0][l], acc[0][l])
		}
		VMOVDQU32(acc[0][l], Mem{Base: sums, Disp: 64 * l})
	}
	VZEROUPPER()
	RET()
}

// wholeLines multiplies so many lines of a by a panel of b, of 16 columns: see asm/whole.go. Two terms of a line
// are spread over a register, multiplied by those of eight columns and added in one instruction.
func wholeLines(name string, lines int) {
	name = "whole" + name + "AVX2"
	TEXT(name, NOSPLIT, "func(a *int16, line int, b *int16, pairs int, sums *int32)")
	Pragma("noescape")
	Doc(name + " multiplies whole numbers: see asm/whole.go.")
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	pairs, sums := Load(Param("pairs"), GP64()), Load(Param("sums"), GP64())
	of := []Mem{{Base: a}}
	if lines == 4 {
		line, last := Load(Param("line"), GP64()), GP64()
		LEAQ(Mem{Base: a, Index: line, Scale: 2}, last)
		ADDQ(line, last)
		of = append(of, Mem{Base: a, Index: line, Scale: 1}, Mem{Base: a, Index: line, Scale: 2}, Mem{Base: last})
	}
	var acc [][2]reg.VecVirtual
	for range lines {
		acc = append(acc, [2]reg.VecVirtual{YMM(), YMM()})
	}
	for _, s := range acc {
		VPXOR(s[0], s[0], s[0])
		VPXOR(s[1], s[1], s[1])
	}
	right := [2]reg.VecVirtual{YMM(), YMM()}
	Label(name + "pair")
	for h, r := range right {
		VMOVDQU(Mem{Base: b, Disp: 32 * h}, r)
	}
	for l, s := range acc {
		left := YMM()
		VPBROADCASTD(of[l], left)
		for h, r := range right {
			t := YMM()
			VPMADDWD(r, left, t)
			VPADDD(t, s[h], s[h])
		}
	}
	ADDQ(Imm(64), b)
	ADDQ(Imm(4), a)
	if lines == 4 {
		ADDQ(Imm(4), of[3].Base)
	}
	DECQ(pairs)
	JNZ(LabelRef(name + "pair"))
	for l, s := range acc {
		for h, v := range s {
			VMOVDQU(v, Mem{Base: sums, Disp: 64*l + 32*h})
		}
	}
	VZEROUPPER()
	RET()
}

// wholeBytes multiplies a line of a by a panel of bytes: see asm/whole.go. Panels lie one after the other, and no
// cache holds all of those of a large matrix, so that they are asked for some lines ahead.
func wholeBytes() {
	const name = "wholeMultiplyBytesAVX2"
	TEXT(name, NOSPLIT, "func(a *int16, b *int8, pairs int, sums *int32)")
	Pragma("noescape")
	Doc(name + " multiplies whole numbers: see asm/whole.go.")
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	pairs, sums := Load(Param("pairs"), GP64()), Load(Param("sums"), GP64())
	var acc [2][2]reg.VecVirtual // of even and of odd pairs, so that no instruction waits for the one before
	for i := range acc {
		for h := range acc[i] {
			acc[i][h] = YMM()
			VPXOR(acc[i][h], acc[i][h], acc[i][h])
		}
	}
	multiply := func(pair int) {
		left := YMM()
		VPBROADCASTD(Mem{Base: a, Disp: 4 * pair}, left)
		for h := range 2 {
			right := YMM()
			VPMOVSXBW(Mem{Base: b, Disp: 32*pair + 16*h}, right)
			VPMADDWD(right, left, right)
			VPADDD(right, acc[pair%2][h], acc[pair%2][h])
		}
	}
	const some, ahead = 4, 1024
	step := func(n int) {
		ADDQ(U32(uint32(32*n)), b)
		ADDQ(Imm(uint64(4*n)), a)
	}
	SUBQ(Imm(some), pairs)
	JL(LabelRef(name + "rest"))
	Label(name + "pairs")
	for at := 0; at < 32*some; at += 64 {
		PREFETCHT0(Mem{Base: b, Disp: ahead + at})
	}
	for pair := range some {
		multiply(pair)
	}
	step(some)
	SUBQ(Imm(some), pairs)
	JGE(LabelRef(name + "pairs"))
	Label(name + "rest")
	ADDQ(Imm(some), pairs)
	JZ(LabelRef(name + "sums"))
	Label(name + "pair")
	multiply(0)
	step(1)
	DECQ(pairs)
	JNZ(LabelRef(name + "pair"))
	Label(name + "sums")
	for h, v := range acc[0] {
		VPADDD(acc[1][h], v, v)
		VMOVDQU(v, Mem{Base: sums, Disp: 32 * h})
	}
	VZEROUPPER()
	RET()
}

// wholeFloats makes float64 numbers of the sums of a line, and adds one number: see asm/whole.go.
func wholeFloats() {
	const name = "wholeFloatsAVX2"
	TEXT(name, NOSPLIT, "func(dst *float64, sums *int32, add float64)")
	Pragma("noescape")
	Doc(name + " makes float64 numbers: see asm/whole.go.")
	dst, sums := Load(Param("dst"), GP64()), Load(Param("sums"), GP64())
	add := spreadParam("add")
	for k := range 4 {
		y := YMM()
		VCVTDQ2PD(Mem{Base: sums, Disp: 16 * k}, y)
		VADDPD(add, y, y)
		VMOVUPD(y, Mem{Base: dst, Disp: 32 * k})
	}
	VZEROUPPER()
	RET()
}

// spreadParam spreads a float64 parameter over a register.
func spreadParam(name string) reg.VecVirtual {
	x, y := Load(Param(name), XMM()), YMM()
	VBROADCASTSD(x.(reg.VecVirtual), y)
	return y
}

// wholeNarrow makes numbers of 16 bits: see asm/whole.go. A conversion that is not exact, and the greatest absolute
// value, are noted and looked at in the end.
func wholeNarrow() {
	const name = "wholeNarrowAVX2"
	TEXT(name, NOSPLIT, "func(dst *int16, src *float64, n int) (most uint32)")
	Pragma("noescape")
	Doc(name + " makes numbers of 16 bits: see asm/whole.go.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	most, other := XMM(), YMM()
	VPXOR(most, most, most)
	VXORPD(other, other, other)
	Label(name)
	var of [2]reg.VecVirtual
	for h := range of {
		x, back, size := YMM(), YMM(), XMM()
		of[h] = XMM()
		VMOVUPD(Mem{Base: src, Disp: 32 * h}, x)
		VCVTTPD2DQY(x, of[h])
		VCVTDQ2PD(of[h], back)
		VCMPPD(Imm(4), x, back, back) // not equal, NaN too
		VORPD(back, other, other)
		VPABSD(of[h], size)
		VPMAXUD(size, most, most)
	}
	VPACKSSDW(of[1], of[0], of[0])
	VMOVDQU(of[0], Mem{Base: dst})
	ADDQ(Imm(64), src)
	ADDQ(Imm(16), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef(name))
	t := XMM()
	for _, order := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(order), most, t)
		VPMAXUD(t, most, most)
	}
	size, any := GP32(), GP32()
	VMOVD(most, size)
	VMOVMSKPD(other, any)
	NEGL(any) // borrows where there is one
	SBBL(any, any)
	ORL(any, size)
	VZEROUPPER()
	Store(size, ReturnIndex(0))
	RET()
}

// wholeWeave lays two lines side by side, number by number: see asm/whole.go.
func wholeWeave() {
	const name = "wholeWeaveAVX2"
	TEXT(name, NOSPLIT, "func(dst, a, b *int16)")
	Pragma("noescape")
	Doc(name + " lays lines side by side: see asm/whole.go.")
	dst, a, b := Load(Param("dst"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	x, y, low, high := YMM(), YMM(), YMM(), YMM()
	VMOVDQU(Mem{Base: a}, x)
	VMOVDQU(Mem{Base: b}, y)
	VPUNPCKLWD(y, x, low)
	VPUNPCKHWD(y, x, high)
	VPERM2I128(Imm(0x20), high, low, x)
	VPERM2I128(Imm(0x31), high, low, y)
	VMOVDQU(x, Mem{Base: dst})
	VMOVDQU(y, Mem{Base: dst, Disp: 32})
	VZEROUPPER()
	RET()
}

// wholeExtremes finds the least and the greatest numbers of 8 lanes: see asm/whole.go.
func wholeExtremes() {
	const name = "wholeExtremesAVX2"
	TEXT(name, NOSPLIT, "func(x *float64, n int, least, greatest *[8]float64) (others int)")
	Pragma("noescape")
	Doc(name + " finds the least and the greatest numbers: see asm/whole.go.")
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	least, greatest := Load(Param("least"), GP64()), Load(Param("greatest"), GP64())
	var low, high [2]reg.VecVirtual
	odd := YMM()
	VXORPD(odd, odd, odd)
	for h := range low {
		low[h], high[h] = YMM(), YMM()
		VMOVUPD(Mem{Base: least, Disp: 32 * h}, low[h])
		VMOVUPD(Mem{Base: greatest, Disp: 32 * h}, high[h])
	}
	Label(name)
	for h := range low {
		v, t := YMM(), YMM()
		VMOVUPD(Mem{Base: x, Disp: 32 * h}, v)
		VMINPD(v, low[h], low[h])
		VMAXPD(v, high[h], high[h])
		VSUBPD(v, v, t) // 0, or NaN
		VADDPD(t, odd, odd)
	}
	ADDQ(Imm(64), x)
	SUBQ(Imm(8), n)
	JNZ(LabelRef(name))
	for h := range low {
		VMOVUPD(low[h], Mem{Base: least, Disp: 32 * h})
		VMOVUPD(high[h], Mem{Base: greatest, Disp: 32 * h})
	}
	others := GP64()
	VCMPPD(Imm(3), odd, odd, odd) // NaN
	VMOVMSKPD(odd, others.As32())
	VZEROUPPER()
	Store(others, ReturnIndex(0))
	RET()
}

// wholeQuantize takes the whole numbers next to quotients: see asm/whole.go.
func wholeQuantize() {
	const name = "wholeQuantizeAVX2"
	constants := GLOBL("wholeConstants", RODATA|NOPTR) // a half, and all bits but that of the sign
	DATA(0, U64(0x3fe0000000000000))
	DATA(8, U64(0x7fffffffffffffff))
	TEXT(name, NOSPLIT, "func(dst, src *float64, n int, by *[4]float64) (done int)")
	Pragma("noescape")
	Doc(name + " quantizes: see asm/whole.go.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	by := Load(Param("by"), GP64())
	var of [4]reg.VecVirtual
	for k := range of {
		of[k] = YMM()
		VBROADCASTSD(Mem{Base: by, Disp: 8 * k}, of[k])
	}
	scale, zero, least, greatest := of[0], of[1], of[2], of[3]
	half, size, nothing := YMM(), YMM(), YMM()
	VBROADCASTSD(constants, half)
	VBROADCASTSD(constants.Offset(8), size)
	VXORPD(nothing, nothing, nothing)
	done, open := GP64(), GP32()
	XORQ(done, done)
	Label(name)
	var q, v [2]reg.VecVirtual
	for h := range q {
		q[h], v[h] = YMM(), YMM()
		VMOVUPD(Mem{Base: src, Disp: 32 * h}, q[h])
		VDIVPD(scale, q[h], q[h])
		VROUNDPD(Imm(8), q[h], v[h]) // to nearest even
		VSUBPD(v[h], q[h], q[h])
		VANDPD(size, q[h], q[h])
		VCMPPD(Imm(5), half, q[h], q[h]) // not less, NaN too
	}
	VORPD(q[1], q[0], q[0])
	VMOVMSKPD(q[0], open)
	TESTL(open, open)
	JNZ(LabelRef(name + "end"))
	for h := range v {
		VADDPD(zero, v[h], v[h])
		VMAXPD(least, v[h], v[h])
		VMINPD(greatest, v[h], v[h])
		VADDPD(nothing, v[h], v[h]) // no -0
		VMOVUPD(v[h], Mem{Base: dst, Disp: 32 * h})
	}
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), dst)
	ADDQ(Imm(8), done)
	SUBQ(Imm(8), n)
	JNZ(LabelRef(name))
	Label(name + "end")
	VZEROUPPER()
	Store(done, ReturnIndex(0))
	RET()
}

// wholeWiden makes numbers of 16 bits of bytes: see asm/whole.go.
func wholeWiden() {
	const name = "wholeWidenAVX2"
	TEXT(name, NOSPLIT, "func(dst *int16, src *int8, n int)")
	Pragma("noescape")
	Doc(name + " makes numbers of 16 bits: see asm/whole.go.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	Label(name)
	for h := range 2 {
		y := YMM()
		VPMOVSXBW(Mem{Base: src, Disp: 16 * h}, y)
		VMOVDQU(y, Mem{Base: dst, Disp: 32 * h})
	}
	ADDQ(Imm(32), src)
	ADDQ(Imm(64), dst)
	SUBQ(Imm(32), n)
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// wholeIntegers looks whether numbers are whole: see asm/whole.go.
func wholeIntegers() {
	const name = "wholeIntegersAVX2"
	TEXT(name, NOSPLIT, "func(d *float64, n int) (done int)")
	Pragma("noescape")
	Doc(name + " looks whether numbers are whole: see asm/whole.go.")
	d, n := Load(Param("d"), GP64()), Load(Param("n"), GP64())
	done, open := GP64(), GP32()
	XORQ(done, done)
	Label(name)
	var back [2]reg.VecVirtual
	var other [2]reg.VecVirtual
	for h := range back {
		x, t := YMM(), XMM()
		back[h], other[h] = YMM(), YMM()
		VMOVUPD(Mem{Base: d, Disp: 32 * h}, x)
		VCVTTPD2DQY(x, t)
		VCVTDQ2PD(t, back[h])
		VCMPPD(Imm(4), x, back[h], other[h]) // not equal, NaN too
	}
	VORPD(other[1], other[0], other[0])
	VMOVMSKPD(other[0], open)
	TESTL(open, open)
	JNZ(LabelRef(name + "end"))
	for h, y := range back {
		VMOVUPD(y, Mem{Base: d, Disp: 32 * h})
	}
	ADDQ(Imm(64), d)
	ADDQ(Imm(8), done)
	SUBQ(Imm(8), n)
	JNZ(LabelRef(name))
	Label(name + "end")
	VZEROUPPER()
	Store(done, ReturnIndex(0))
	RET()
}
