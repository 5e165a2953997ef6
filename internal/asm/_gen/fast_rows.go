package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Places in asm.fastGELUVectors, in bytes.
const (
	fLow = 64 * iota
	fHigh
	fZero
	fOne
	fMiddle
	fHalf
	fPhi

	fastPhiTerms = 15
)

// fastRow writes a line of each channel, GELU, or one after the other:
//
//	dst, src  pixels of 8 float32 numbers, 1 or more; the same or apart
//	lines     pivot, slope and offset, 8 each
//
// Four registers go side by side. AVX-512 has two pixels in each, and takes the last ones
// singly by the lower halves.
func fastRow(i isa, line, gelu bool) {
	name, signature := "rowFast", "func(dst, src *float32, pixels int"
	if line {
		name += "Line"
		signature += ", lines *[3][8]float32"
	}
	if gelu {
		name += "GELU"
	}
	name += i.name
	TEXT(name, NOSPLIT, signature+")")
	Pragma("noescape")
	Doc(name + " applies operations in fast arithmetic: see asm/fast_rows.go.")
	dst := Load(Param("dst"), reg.RDI).(reg.GPPhysical)
	src := Load(Param("src"), reg.RSI).(reg.GPPhysical)
	n := Load(Param("pixels"), reg.RDX).(reg.GPPhysical)
	constant := func(i isa, j int) Op { return Mem{Base: reg.R8, Disp: 32 * j} } // pivot, slope, offset
	if line {
		Load(Param("lines"), reg.R8)
	}
	if line && i.lanes == 16 {
		for j := range 3 {
			VBROADCASTF32X8(Mem{Base: reg.R8, Disp: 32 * j}, i.wide[16+j])
		}
		constant = func(at isa, j int) Op {
			if at.lanes == 16 {
				return at.wide[16+j]
			}
			return Mem{Base: reg.R8, Disp: 32 * j}
		}
	}
	if gelu {
		LEAQ(NewDataAddr(Symbol{Name: "·fastGELUVectors"}, 0), reg.R9)
		for k, at := range []int{fLow, fHigh, fZero, fOne} {
			VMOVUPS(Mem{Base: reg.R9, Disp: at}, i.wide[12+k])
		}
	}
	const registers = 4
	loop := func(i isa, pixels int, end string) {
		next := fmt.Sprint(name, pixels)
		Label(next)
		CMPQ(n, Imm(uint64(pixels)))
		JL(LabelRef(end))
		all := pixels * 8 / i.lanes
		for k := range all {
			x, t := i.wide[3*k], i.wide[3*k+1]
			VMOVUPS(Mem{Base: src, Disp: k * i.vector()}, x)
			if line {
				VSUBPS(constant(i, 0), x, x)
				VMOVUPS(constant(i, 1), t)
				VFMADD213PS(constant(i, 2), t, x)
			}
		}
		if gelu {
			i.fastGELU(all)
		}
		for k := range all {
			VMOVUPS(i.wide[3*k], Mem{Base: dst, Disp: k * i.vector()})
		}
		ADDQ(U32(uint32(32*pixels)), src)
		ADDQ(U32(uint32(32*pixels)), dst)
		SUBQ(Imm(uint64(pixels)), n)
		JMP(LabelRef(next))
	}
	loop(i, registers*i.lanes/8, name+"1")
	loop(avx2.singles(), 1, "end"+name)
	Label("end" + name)
	VZEROUPPER()
	RET()
}

// fastGELU replaces numbers x, in every third register from the first on, by GELU of them;
// the two registers after each are scratch.
//
// VMAXPS and VMINPS return their second operand, here the first, if that is NaN.
func (i isa) fastGELU(all int) {
	constant := func(at int) Mem { return Mem{Base: reg.R9, Disp: at} }
	low, high, zero, one := i.wide[12], i.wide[13], i.wide[14], i.wide[15]
	each := func(f func(x, u, p Op)) {
		for k := range all {
			f(i.wide[3*k], i.wide[3*k+1], i.wide[3*k+2])
		}
	}
	each(func(x, u, p Op) {
		VMAXPS(x, low, x)
		VMINPS(x, high, u)
		VFMADD213PS(constant(fMiddle), u, u)
		VMOVUPS(constant(fPhi+64*(fastPhiTerms-1)), p)
	})
	for term := fastPhiTerms - 2; term >= 0; term-- {
		each(func(x, u, p Op) { VFMADD213PS(constant(fPhi+64*term), u, p) })
	}
	each(func(x, u, p Op) {
		VFMADD213PS(constant(fHalf), x, p)
		VMINPS(p, one, p)
		VMAXPS(p, zero, p)
		VMULPS(p, x, x)
	})
}
