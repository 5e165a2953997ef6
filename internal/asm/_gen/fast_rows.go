package main

import (
	"fmt"
	"slices"

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
// Four registers go side by side, of AVX-512 eight: their operations wait for each other.
// AVX-512 has two pixels in each, and takes the last ones by four, and singly by the lower halves.
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
			VBROADCASTF32X8(Mem{Base: reg.R8, Disp: 32 * j}, i.wide[29+j])
		}
		constant = func(at isa, j int) Op {
			if at.lanes == 16 {
				return at.wide[29+j]
			}
			return Mem{Base: reg.R8, Disp: 32 * j}
		}
	}
	if gelu {
		LEAQ(NewDataAddr(Symbol{Name: "·fastGELUVectors"}, 0), reg.R9)
		for k, at := range []int{fLow, fHigh, fZero, fOne} {
			VMOVUPS(Mem{Base: reg.R9, Disp: at}, i.fastRowRegisters().limits[k])
		}
	}
	const registers = 4
	rs := i.fastRowRegisters()
	loop := func(i isa, pixels int, end string) {
		next := fmt.Sprint(name, pixels)
		Label(next)
		CMPQ(n, Imm(uint64(pixels)))
		JL(LabelRef(end))
		all := pixels * 8 / i.lanes
		for k := range all {
			x, t := of(i, rs.x[k]), of(i, rs.u[k])
			VMOVUPS(Mem{Base: src, Disp: k * i.vector()}, x)
			if line {
				VSUBPS(constant(i, 0), x, x)
				VMOVUPS(constant(i, 1), t)
				VFMADD213PS(constant(i, 2), t, x)
			}
		}
		if gelu {
			i.fastGELU(rs, all)
		}
		for k := range all {
			VMOVUPS(of(i, rs.x[k]), Mem{Base: dst, Disp: k * i.vector()})
		}
		ADDQ(U32(uint32(32*pixels)), src)
		ADDQ(U32(uint32(32*pixels)), dst)
		SUBQ(Imm(uint64(pixels)), n)
		JMP(LabelRef(next))
	}
	if i.lanes == 16 {
		loop(i, 2*registers*i.lanes/8, fmt.Sprint(name, registers*i.lanes/8))
	}
	loop(i, registers*i.lanes/8, name+"1")
	loop(avx2.singles(), 1, "end"+name)
	Label("end" + name)
	VZEROUPPER()
	RET()
}

// fastRowRegisters are the registers of fastRow: numbers, two more for each, and -Far, Far,
// 0 and 1.
type fastRowRegisters struct{ x, u, p, limits []reg.VecPhysical }

func (i isa) fastRowRegisters() (r fastRowRegisters) {
	if i.lanes == 16 {
		return fastRowRegisters{i.wide[:8], i.wide[8:16], i.wide[16:24], i.wide[24:28]}
	}
	r.limits = i.wide[12:16]
	for k := range 4 {
		r.x, r.u, r.p = append(r.x, i.wide[3*k]), append(r.u, i.wide[3*k+1]), append(r.p, i.wide[3*k+2])
	}
	return r
}

// of returns a register, of AVX-512 or of AVX2, as one of the instruction set.
func of(i isa, r reg.VecPhysical) reg.VecPhysical {
	for _, all := range [][]reg.VecPhysical{zmm(), ymm()} {
		if k := slices.Index(all, r); k >= 0 {
			if i.lanes == 16 {
				return zmm()[k]
			}
			return ymm()[k]
		}
	}
	panic("no such register")
}

// fastGELU replaces numbers x by GELU of them, so many registers of them.
//
// VMAXPS and VMINPS return their second operand, here the first, if that is NaN.
func (i isa) fastGELU(rs fastRowRegisters, all int) {
	constant := func(at int) Op { return Mem{Base: reg.R9, Disp: at} }
	each := func(at int, f func(c, x, u, p Op)) {
		c := constant(at)
		if all == 8 { // one load for all
			c = i.wide[28]
			VMOVUPS(constant(at), c)
		}
		for k := range all {
			f(c, of(i, rs.x[k]), of(i, rs.u[k]), of(i, rs.p[k]))
		}
	}
	low, high, zero, one := of(i, rs.limits[0]), of(i, rs.limits[1]), of(i, rs.limits[2]), of(i, rs.limits[3])
	each(fMiddle, func(c, x, u, p Op) {
		VMAXPS(x, low, x)
		VMINPS(x, high, u)
		VFMADD213PS(c, u, u)
	})
	each(fPhi+64*(fastPhiTerms-1), func(c, x, u, p Op) { VMOVUPS(c, p) })
	for term := fastPhiTerms - 2; term >= 0; term-- {
		each(fPhi+64*term, func(c, x, u, p Op) { VFMADD213PS(c, u, p) })
	}
	each(fHalf, func(c, x, u, p Op) {
		VFMADD213PS(c, x, p)
		VMINPS(p, one, p)
		VMAXPS(p, zero, p)
		VMULPS(p, x, x)
	})
}
