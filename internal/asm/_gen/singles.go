package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Places in asm.fastExpVectors, in bytes.
const (
	eFar = 64 * iota
	eRound
	ePerLn2
	eHigh
	eLow
	eTerms

	fastExpTerms = 7
)

// singles writes all kernels of asm.Singles. They take sixteen numbers at a time, which are
// one register of AVX-512 and two of AVX2; of float64 numbers two and four.
func singles() {
	for _, i := range []isa{avx512.singles(), avx2.singles()} {
		newTable(i, "singles"+i.name+"Constants").words(canonicalNaN)
		singleApply(i, "Add", VADDPS, false)
		singleApply(i, "Mul", VMULPS, false)
		singleApply(i, "Scale", VMULPS, true)
		singleShift(i)
		if i.lanes == 8 {
			singleLay(i)
			singleBlocks(i)
		}
		singleGreatest(i)
		singleExp(i)
		singleSums(i, false)
		singleSums(i, true)
		singleLine(i)
	}
}

// singleKernel begins a kernel, and returns what loads its parameters.
func (i isa) singleKernel(what, signature string) (name string, load func(p string) reg.GPVirtual) {
	name = "single" + what + i.name
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + " is one of asm.Singles: see asm/singles.go.")
	return name, func(p string) reg.GPVirtual { return Load(Param(p), GP64()).(reg.GPVirtual) }
}

// sixteen goes on with the next sixteen of n numbers, to which the pointers move.
func sixteen(name string, n reg.GPVirtual, pointers ...reg.GPVirtual) {
	for _, p := range pointers {
		ADDQ(Imm(64), p)
	}
	SUBQ(Imm(16), n)
	JNZ(LabelRef(name))
}

func end() {
	VZEROUPPER()
	RET()
}

// singleNaN makes every NaN of y the one NaN; t is scratch.
func (i isa) singleNaN(y, t, nan reg.VecPhysical) {
	if i.lanes == 16 {
		VCMPPS(Imm(3), y, y, reg.K1)
		VMOVAPS(nan, reg.K1, y)
		return
	}
	VCMPPS(Imm(3), y, y, t)
	VBLENDVPS(t, nan, y, y)
}

// singleApply is an operation of n pairs of numbers, of which the second is always the same
// one if so it says.
func singleApply[F ~func(ops ...Op)](i isa, what string, apply F, spread bool) {
	name, load := i.singleKernel(what, "func(dst, a, b *float32, n int)")
	dst, a, b, n := load("dst"), load("a"), load("b"), load("n")
	nan, by := i.wide[0], i.wide[1]
	i.load(i.bits(canonicalNaN), nan)
	pointers := []reg.GPVirtual{dst, a, b}
	if spread {
		i.spread(Mem{Base: b}, by)
		pointers = pointers[:2]
	}
	Label(name)
	for h := range 16 / i.lanes {
		y, t := i.wide[2+2*h], i.wide[3+2*h]
		i.load(Mem{Base: a, Disp: h * i.vector()}, y)
		if spread {
			apply(by, y, y)
		} else {
			apply(Mem{Base: b, Disp: h * i.vector()}, y, y)
		}
		i.singleNaN(y, t, nan)
		i.load(y, Mem{Base: dst, Disp: h * i.vector()})
	}
	sixteen(name, n, pointers...)
	end()
}

// singleShift adds a line to each of some rows.
func singleShift(i isa) {
	name, load := i.singleKernel("Shift", "func(dst *float32, step int, src *float32, line int, by *float32, n, rows int)")
	dst, step, src, line, by, n := load("dst"), load("step"), load("src"), load("line"), load("by"), load("n")
	to, from, left := GP64(), GP64(), GP64()
	nan := i.wide[0]
	i.load(i.bits(canonicalNaN), nan)
	Label(name)
	MOVQ(dst, to)
	MOVQ(src, from)
	MOVQ(mustParam("rows"), left)
	shift := i.wide[1 : 1+16/i.lanes]
	for h, r := range shift {
		i.load(Mem{Base: by, Disp: h * i.vector()}, r)
	}
	Label(name + "row")
	PREFETCHT1(Mem{Base: to, Disp: 128}) // where the next columns go
	for h, r := range shift {
		y, t := i.wide[4+2*h], i.wide[5+2*h]
		i.add(Mem{Base: from, Disp: h * i.vector()}, r, y)
		i.singleNaN(y, t, nan)
		i.load(y, Mem{Base: to, Disp: h * i.vector()})
	}
	ADDQ(step, to)
	ADDQ(line, from)
	DECQ(left)
	JNZ(LabelRef(name + "row"))
	sixteen(name, n, dst, src, by)
	end()
}

// singleLay lays eights of numbers out apart: four registers of AVX2 at a time, and one.
func singleLay(i isa) {
	name, load := i.singleKernel("Lay", "func(dst *float32, step int, src *float32, n int)")
	dst, step, src, n := load("dst"), load("step"), load("src"), load("n")
	Label(name)
	CMPQ(n, Imm(32))
	JL(LabelRef(name + "one"))
	for k := range 4 {
		VMOVUPS(Mem{Base: src, Disp: 32 * k}, ymm()[k])
	}
	for k := range 4 {
		VMOVUPS(ymm()[k], Mem{Base: dst})
		ADDQ(step, dst)
	}
	ADDQ(U32(128), src)
	SUBQ(Imm(32), n)
	JNZ(LabelRef(name))
	end()
	Label(name + "one")
	VMOVUPS(Mem{Base: src}, ymm()[0])
	VMOVUPS(ymm()[0], Mem{Base: dst})
	ADDQ(step, dst)
	ADDQ(Imm(32), src)
	SUBQ(Imm(8), n)
	JNZ(LabelRef(name + "one"))
	end()
}

// singleBlocks adds a line to rows of eights, each of which goes to a block of channels.
func singleBlocks(i isa) {
	name, load := i.singleKernel("Blocks",
		"func(dst *float32, plane int, src *float32, line int, by *float32, blocks, pixels int)")
	dst, plane, src, line, by, blocks := load("dst"), load("plane"), load("src"), load("line"), load("by"), load("blocks")
	to, from, left := GP64(), GP64(), GP64()
	nan, shift, y, t := i.wide[0], i.wide[1], i.wide[2], i.wide[3]
	i.load(i.bits(canonicalNaN), nan)
	Label(name)
	MOVQ(dst, to)
	MOVQ(src, from)
	MOVQ(mustParam("pixels"), left)
	i.load(Mem{Base: by}, shift)
	Label(name + "pixel")
	i.add(Mem{Base: from}, shift, y)
	i.singleNaN(y, t, nan)
	i.load(y, Mem{Base: to})
	ADDQ(Imm(32), to)
	ADDQ(line, from)
	DECQ(left)
	JNZ(LabelRef(name + "pixel"))
	ADDQ(plane, dst)
	ADDQ(Imm(32), src)
	ADDQ(Imm(32), by)
	DECQ(blocks)
	JNZ(LabelRef(name))
	end()
}

// singleGreatest takes the greatest numbers in each of sixteen lanes.
func singleGreatest(i isa) {
	name, load := i.singleKernel("Greatest", "func(x *float32, n int, most *[16]float32)")
	x, n, out := load("x"), load("n"), load("most")
	most := i.wide[:16/i.lanes]
	for h, r := range most {
		i.load(Mem{Base: out, Disp: h * i.vector()}, r)
	}
	Label(name)
	for h, r := range most {
		VMAXPS(Mem{Base: x, Disp: h * i.vector()}, r, r)
	}
	sixteen(name, n, x)
	for h, r := range most {
		i.load(r, Mem{Base: out, Disp: h * i.vector()})
	}
	end()
}

// singleExp makes exponentials and adds them in sixteen lanes. The constants are in registers
// but for those of the polynomial.
func singleExp(i isa) {
	name, load := i.singleKernel("Exp", "func(dst, src *float32, n int, top *float32, sums *[16]float32)")
	dst, src, n, sums, at := load("dst"), load("src"), load("n"), load("sums"), GP64()
	halves := 16 / i.lanes
	sum := i.wide[:halves]
	top := i.wide[2]
	i.spread(Mem{Base: load("top")}, top)
	for h, r := range sum {
		i.load(Mem{Base: sums, Disp: h * i.vector()}, r)
	}
	LEAQ(NewDataAddr(Symbol{Name: "·fastExpVectors"}, 0), at)
	constant := func(place int) Op { return Mem{Base: at, Disp: place} }
	if i.lanes == 16 {
		for k := range eTerms/64 + fastExpTerms {
			i.load(Mem{Base: at, Disp: 64 * k}, i.wide[16+k])
		}
		constant = func(place int) Op { return i.wide[16+place/64] }
	}
	Label(name)
	for h := range halves {
		z, k, r, p, out := i.wide[3+5*h], i.wide[4+5*h], i.wide[5+5*h], i.wide[6+5*h], i.wide[7+5*h]
		i.load(Mem{Base: src, Disp: h * i.vector()}, z)
		i.sub(top, z, z)
		if i.lanes == 16 { // not below: of NaN too
			VCMPPS(Imm(5), constant(eFar), z, reg.K1)
		} else {
			VCMPPS(Imm(5), constant(eFar), z, out)
		}
		i.load(constant(ePerLn2), k)
		VFMADD213PS(constant(eRound), z, k)
		i.sub(constant(eRound), k, p)
		VFNMADD231PS(constant(eHigh), p, z)
		VFNMADD231PS(constant(eLow), p, z)
		i.load(constant(eTerms+64*(fastExpTerms-1)), r)
		for term := fastExpTerms - 2; term >= 0; term-- {
			VFMADD213PS(constant(eTerms+64*term), z, r)
		}
		VPSLLD(Imm(23), k, k)
		VPADDD(k, r, r)
		if i.lanes == 16 {
			VMOVAPS_Z(r, reg.K1, r)
		} else {
			VANDPS(out, r, r)
		}
		i.add(r, sum[h], sum[h])
		i.load(r, Mem{Base: dst, Disp: h * i.vector()})
	}
	sixteen(name, n, dst, src)
	for h, r := range sum {
		i.load(r, Mem{Base: sums, Disp: h * i.vector()})
	}
	end()
}

// singleSums adds numbers, or the squares of what they lie from a mean, in sixteen lanes of
// float64 numbers.
func singleSums(i isa, squares bool) {
	what, signature := "Sums", "func(x *float32, n int, sums *[16]float64)"
	if squares {
		what, signature = "Squares", "func(x *float32, n int, mean *float64, sums *[16]float64)"
	}
	name, load := i.singleKernel(what, signature)
	x, n, out := load("x"), load("n"), load("sums")
	parts := 32 / i.lanes
	sum, v, mean := i.wide[:parts], i.wide[parts:2*parts], i.wide[2*parts]
	if squares {
		VBROADCASTSD(Mem{Base: load("mean")}, mean)
	}
	for h, r := range sum {
		VMOVUPD(Mem{Base: out, Disp: h * i.vector()}, r)
	}
	Label(name)
	for h, r := range sum {
		VCVTPS2PD(Mem{Base: x, Disp: h * i.vector() / 2}, v[h])
		if squares {
			VSUBPD(mean, v[h], v[h])
			VFMADD231PD(v[h], v[h], r)
		} else {
			VADDPD(v[h], r, r)
		}
	}
	sixteen(name, n, x)
	for h, r := range sum {
		VMOVUPD(r, Mem{Base: out, Disp: h * i.vector()})
	}
	end()
}

// singleLine standardizes numbers in float64.
func singleLine(i isa) {
	name, load := i.singleKernel("Line", "func(dst, src, scale, shift *float32, n int, line *[2]float64)")
	dst, src, scale, shift, n, line := load("dst"), load("src"), load("scale"), load("shift"), load("n"), load("line")
	nan, mean, slope := i.wide[0], i.wide[1], i.wide[2]
	i.load(i.bits(canonicalNaN), nan)
	VBROADCASTSD(Mem{Base: line}, mean)
	VBROADCASTSD(Mem{Base: line, Disp: 8}, slope)
	Label(name)
	for h := range 32 / i.lanes {
		at := func(p reg.GPVirtual) Mem { return Mem{Base: p, Disp: h * i.vector() / 2} }
		y, a, b := i.wide[3+3*h], i.wide[4+3*h], i.wide[5+3*h]
		VCVTPS2PD(at(src), y)
		VCVTPS2PD(at(scale), a)
		VCVTPS2PD(at(shift), b)
		VSUBPD(mean, y, y)
		VMULPD(slope, y, y)
		VFMADD213PD(b, a, y)
		to, t := i.lower(y), i.lower(a)
		if i.lanes == 16 {
			VCVTPD2PS(y, to)
			VCMPPS(Imm(3), to, to, reg.K1)
			VMOVAPS(i.lower(nan), reg.K1, to)
		} else {
			VCVTPD2PSY(y, to)
			VCMPPS(Imm(3), to, to, t)
			VBLENDVPS(t, i.lower(nan), to, to)
		}
		VMOVUPS(to, at(dst))
	}
	sixteen(name, n, dst, src, scale, shift)
	end()
}
