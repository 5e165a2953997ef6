package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lines writes all kernels of asm.Lines.
func lines() {
	for _, i := range []isa{avx512, avx2} {
		newTable(i, "lines"+i.name+"Constants").words(quietNaN)
		lineApply(i, "Add", VADDPD, false)
		lineApply(i, "Mul", VMULPD, false)
		lineApply(i, "Scale", VMULPD, true)
		lineGreatest(i)
		lineNarrow(i)
		lineWiden(i, "Shift", true)
		lineWiden(i, "Widen", false)
		weave(i)
	}
}

// lineNarrow rounds numbers to float32:
//
//	dst   eight numbers, and the next eight step bytes on
//	src   n numbers, n a positive multiple of 8
func lineNarrow(i isa) {
	name := "lineNarrow" + i.name
	TEXT(name, NOSPLIT, "func(dst *float32, step int, src *float64, n int)")
	Pragma("noescape")
	Doc(name + " rounds numbers: see asm/lines.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	step := Load(Param("step"), GP64()).(reg.GPVirtual)
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	Label(name)
	for h := range i.halves() {
		from := Mem{Base: src, Disp: h * i.vector()}
		if i.lanes == 8 {
			VCVTPD2PS(from, i.half[h])
		} else {
			VCVTPD2PSY(from, i.half[h])
		}
		VMOVUPS(i.half[h], Mem{Base: dst, Disp: h * i.vector() / 2})
	}
	ADDQ(step, dst)
	ADDQ(Imm(64), src)
	SUBQ(Imm(8), n)
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// lineWiden makes float64 numbers of float32 numbers, or of their sums with others:
//
//	dst      n numbers, n a positive multiple of 8
//	src, by  n numbers each
func lineWiden(i isa, what string, shift bool) {
	name := "line" + what + i.name
	TEXT(name, NOSPLIT, map[bool]string{
		true: "func(dst *float64, src, by *float32, n int)", false: "func(dst *float64, src *float32, n int)",
	}[shift])
	Pragma("noescape")
	Doc(name + " makes float64 numbers: see asm/lines.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	by := src
	if shift {
		by = Load(Param("by"), GP64()).(reg.GPVirtual)
	}
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	nan := i.wide[0]
	VMOVUPD(i.bits(quietNaN), nan)
	Label(name)
	for h := range i.halves() {
		y, t := i.wide[2+2*h], i.wide[3+2*h]
		VMOVUPS(Mem{Base: src, Disp: h * i.vector() / 2}, i.lower(y))
		if shift {
			VADDPS(Mem{Base: by, Disp: h * i.vector() / 2}, i.lower(y), i.lower(y))
		}
		VCVTPS2PD(i.lower(y), y)
		i.oneNaN(y, t, nan)
		VMOVUPD(y, Mem{Base: dst, Disp: h * i.vector()})
	}
	ADDQ(Imm(32), src)
	if shift {
		ADDQ(Imm(32), by)
	}
	ADDQ(Imm(64), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// oneNaN makes every NaN of y the one NaN; t is scratch.
func (i isa) oneNaN(y, t, nan reg.VecPhysical) {
	if i.lanes == 8 {
		VCMPPD(Imm(3), y, y, reg.K1)
		VBLENDMPD(nan, y, reg.K1, y)
		return
	}
	VCMPPD(Imm(3), y, y, t)
	VBLENDVPD(t, nan, y, y)
}

// lineGreatest takes the greatest number and the sum, in each of 8 lanes:
//
//	x     n numbers, n a positive multiple of 8
//	most  8 numbers, and so sums
func lineGreatest(i isa) {
	name := "lineGreatest" + i.name
	TEXT(name, NOSPLIT, "func(x *float64, n int, most, sums *[8]float64)")
	Pragma("noescape")
	Doc(name + " takes the greatest numbers: see asm/lines.go.")
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	most, sum := i.wide[:i.halves()], i.wide[2:2+i.halves()]
	for h := range most {
		VMOVUPD(Mem{Base: x, Disp: h * i.vector()}, most[h])
		VXORPD(sum[h], sum[h], sum[h])
	}
	Label(name)
	for h := range most {
		t := i.wide[4+h]
		VMOVUPD(Mem{Base: x, Disp: h * i.vector()}, t)
		VMAXPD(t, most[h], most[h])
		VADDPD(t, sum[h], sum[h])
	}
	ADDQ(Imm(64), x)
	SUBQ(Imm(8), n)
	JNZ(LabelRef(name))
	out := Load(Param("most"), GP64()).(reg.GPVirtual)
	sums := Load(Param("sums"), GP64()).(reg.GPVirtual)
	for h := range most {
		VMOVUPD(most[h], Mem{Base: out, Disp: h * i.vector()})
		VMOVUPD(sum[h], Mem{Base: sums, Disp: h * i.vector()})
	}
	VZEROUPPER()
	RET()
}

// lineApply is an operation of n pairs of numbers, of which the second is always the same one
// if so it says, rounded to float32:
//
//	dst     n numbers; it may be a or b
//	a, b    n numbers each, or one
//	n       a positive multiple of 8
func lineApply[F ~func(ops ...Op)](i isa, what string, apply F, spread bool) {
	name := "line" + what + i.name
	TEXT(name, NOSPLIT, "func(dst, a, b *float64, n int)")
	Pragma("noescape")
	Doc(name + " rounds to float32: see asm/lines.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	a := Load(Param("a"), GP64()).(reg.GPVirtual)
	b := Load(Param("b"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	nan, by := i.wide[0], i.wide[1]
	VMOVUPD(i.bits(quietNaN), nan)
	if spread {
		VBROADCASTSD(Mem{Base: b}, by)
	}
	Label(name)
	for h := range i.halves() {
		y, t := i.wide[2+2*h], i.wide[3+2*h]
		VMOVUPD(Mem{Base: a, Disp: h * i.vector()}, y)
		if spread {
			apply(by, y, y)
		} else {
			apply(Mem{Base: b, Disp: h * i.vector()}, y, y)
		}
		if i.lanes == 8 {
			VCVTPD2PS(y, i.lower(y))
		} else {
			VCVTPD2PSY(y, i.lower(y))
		}
		VCVTPS2PD(i.lower(y), y)
		i.oneNaN(y, t, nan)
		VMOVUPD(y, Mem{Base: dst, Disp: h * i.vector()})
	}
	ADDQ(Imm(64), a)
	if !spread {
		ADDQ(Imm(64), b)
	}
	ADDQ(Imm(64), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// weave lays as many lines as a register has numbers out side by side:
//
//	dst     the first number; width bytes from there to the next of its line
//	src     the first line; line bytes from there to the next
//	n       numbers of a line, a positive multiple of a register's
func weave(i isa) {
	name := "lineWeave" + i.name
	TEXT(name, NOSPLIT, "func(dst *float64, width int, src *float64, line, n int)")
	Pragma("noescape")
	Doc(name + " lays lines out side by side: see asm/lines.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	width := Load(Param("width"), GP64()).(reg.GPVirtual)
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	at := GP64()
	r, t := i.wide[:i.lanes], i.wide[i.lanes:2*i.lanes]
	Label(name)
	MOVQ(src, at)
	for k := range i.lanes {
		VMOVUPD(Mem{Base: at}, r[k])
		ADDQ(line, at)
	}
	for k := 0; k < i.lanes; k += 2 {
		VUNPCKLPD(r[k+1], r[k], t[k])
		VUNPCKHPD(r[k+1], r[k], t[k+1])
	}
	out := make([]reg.VecPhysical, i.lanes) // of the numbers of each place
	for odd := range 2 {
		if i.lanes == 4 {
			out[odd], out[odd+2] = r[odd], r[odd+2]
			VPERM2F128(Imm(0x20), t[odd+2], t[odd], out[odd])
			VPERM2F128(Imm(0x31), t[odd+2], t[odd], out[odd+2])
			continue
		}
		m := r[4*odd:]
		for pair := range 2 { // of lines 0 to 3, and 4 to 7: places 0 and 4, and 2 and 6
			VSHUFF64X2(Imm(0x88), t[4*pair+odd+2], t[4*pair+odd], m[2*pair])
			VSHUFF64X2(Imm(0xdd), t[4*pair+odd+2], t[4*pair+odd], m[2*pair+1])
		}
		for k := range 2 {
			out[odd+2*k], out[odd+2*k+4] = i.wide[16+4*odd+k], i.wide[18+4*odd+k]
			VSHUFF64X2(Imm(0x88), m[2+k], m[k], out[odd+2*k])
			VSHUFF64X2(Imm(0xdd), m[2+k], m[k], out[odd+2*k+4])
		}
	}
	for _, v := range out {
		VMOVUPD(v, Mem{Base: dst})
		ADDQ(width, dst)
	}
	ADDQ(Imm(uint64(i.vector())), src)
	SUBQ(Imm(uint64(i.lanes)), n)
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}
