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
