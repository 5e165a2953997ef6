package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// whole writes all kernels of asm.Whole. They are of AVX2, for AVX-512 too.
func whole() {
	wholeLines("Multiply", 4)
	wholeLines("MultiplyLine", 1)
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
