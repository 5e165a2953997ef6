package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowKernels writes all kernels of asm.Rows.
func rowKernels() {
	for _, i := range []isa{avx512, avx2} {
		t := newTable(i, "rows"+i.name+"Constants")
		t.words(math.MaxInt64, infinity, sign, quietNaN, one)
		for _, f := range []format{float16Out, bfloat16Out} {
			t.words(f.half()+1, ^f.last(), f.least(), f.span(), f.least()+f.span())
		}
		rowSums(i)
		for _, f := range []format{float32Out, float16Out, bfloat16Out} {
			rowLine(i, f)
		}
		for _, f := range actFunctions[2:] {
			rowAct(i, f.name, f.eval, true)
			rowAct(i, f.name, f.eval, false)
		}
		for _, o := range rowOperations {
			o.grid(i)
		}
		t.floats(-3, 3, 6, 1-0x1p-50, 1+0x1p-50)
		rowHardSwish(i)
	}
	rowReLU()
	rowGather()
	rowFinite()
	rowGreatest()
	rowCut()
	for _, o := range rowOperations[:len(rowOperations)-1] { // float32 numbers need not be rounded
		o.single()
	}
}

// halfPixel is half h of a pixel of float32 numbers.
func (i isa) halfPixel(at reg.Register, h int) Mem { return Mem{Base: at, Disp: h * i.vector() / 2} }

// rowSums adds up x - pivot and its square:
//
//	x       pixels of 8 float32 numbers, 1 or more
//	pivot   one for each lane
//	sums    [2][8], which it sets: the sums and the sums of squares
//
// There are four accumulators each, for pixels 0, 4, 8, ..., 1, 5, 9, ... and so
// on; what four do not divide goes to the first ones. In the end they are added
// as (a+b)+(c+d).
func rowSums(i isa) {
	name := "rowSums" + i.name
	TEXT(name, NOSPLIT, "func(x *float32, pixels int, pivot *[8]float64, sums *[2][8]float64)")
	Pragma("noescape")
	Doc(name + " adds a row up: see asm/rows.go.")
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	pivots := Load(Param("pivot"), GP64()).(reg.GPVirtual)
	out := Load(Param("sums"), GP64()).(reg.GPVirtual)
	n, at := GP64(), GP64()
	s, q, pivot, t := i.wide[0:4], i.wide[4:8], i.wide[8], i.wide[9:13]
	add := func(k, h int) {
		VCVTPS2PD(Mem{Base: at, Disp: 32*k + h*i.vector()/2}, t[k])
		VSUBPD(pivot, t[k], t[k])
		VADDPD(t[k], s[k], s[k])
		VFMADD231PD(t[k], t[k], q[k])
	}
	for h := range i.halves() {
		loop := name + string(rune('0'+h))
		MOVQ(x, at)
		MOVQ(mustParam("pixels"), n)
		VMOVUPD(Mem{Base: pivots, Disp: h * i.vector()}, pivot)
		for k := range 4 {
			VXORPD(s[k], s[k], s[k])
			VXORPD(q[k], q[k], q[k])
		}
		SUBQ(Imm(4), n)
		JL(LabelRef("rest" + loop))
		Label("four" + loop)
		if h == 0 { // what is read soon, beyond the end of a line, too
			PREFETCHT0(Mem{Base: at, Disp: 4096})
			PREFETCHT0(Mem{Base: at, Disp: 4096 + 64})
		}
		for k := range 4 {
			add(k, h)
		}
		ADDQ(U32(128), at)
		SUBQ(Imm(4), n)
		JGE(LabelRef("four" + loop))
		Label("rest" + loop)
		for k := range 3 {
			CMPQ(n, I32(int32(k-3)))
			JL(LabelRef("sum" + loop)) // n+4 pixels are left, no more than k
			add(k, h)
		}
		Label("sum" + loop)
		for k, a := range [][]reg.VecPhysical{s, q} {
			VADDPD(a[1], a[0], a[0])
			VADDPD(a[3], a[2], a[2])
			VADDPD(a[2], a[0], a[0])
			VMOVUPD(a[0], Mem{Base: out, Disp: 64*k + h*i.vector()})
		}
	}
	VZEROUPPER()
	RET()
}

// rowLine evaluates the lines of 8 channels, with its guard:
//
//	dst, src  pixels of 8 float32 numbers, 1 or more; the same or apart
//	lines     pivot, slope, offset, and of the bound the part of |y| and the rest,
//	          8 each
//	open      a byte for each pixel, a bit for each lane that the guard leaves open
//	any       the bits of open, combined
func rowLine(i isa, f format) {
	name := "rowLine" + f.name + i.name
	TEXT(name, NOSPLIT, "func(dst, src *float32, pixels int, lines *[5][8]float64, open *uint8) (any uint64)")
	Pragma("noescape")
	Doc(name + " normalises and rounds: see asm/rows.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	n := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	lines := Load(Param("lines"), GP64()).(reg.GPVirtual)
	open := Load(Param("open"), GP64()).(reg.GPVirtual)
	abs, y, e, lo, hi := i.wide[0], i.wide[1], i.wide[2], i.wide[3], i.wide[4]
	// Registers 12 to 15 are decide's.
	line := func(k, h int) Op { return Mem{Base: lines, Disp: 64*k + h*i.vector()} }
	if i.lanes == 8 {
		for k := range 5 {
			VMOVUPD(line(k, 0), i.wide[5+k])
		}
		line = func(k, h int) Op { return i.wide[5+k] }
	}
	VMOVUPD(i.bits(math.MaxInt64), abs)
	bits, some := GP64(), GP64()
	XORQ(some, some)
	Label("next" + name)
	for h := range i.halves() {
		VCVTPS2PD(i.halfPixel(src, h), y)
		VSUBPD(line(0, h), y, y)
		VMOVUPD(line(1, h), e)
		VFMADD213PD(line(2, h), e, y)
		VANDPD(abs, y, e)
		VMOVUPD(line(3, h), lo)
		VFMADD213PD(line(4, h), lo, e)
		VSUBPD(e, y, lo)
		VADDPD(e, y, hi)
		i.decideRow(f, lo, hi, abs, bits.As32())
		VMOVUPS(i.half[i.index(lo)], i.halfPixel(dst, h))
		i.flag(h, bits, open)
		ORQ(bits, some)
	}
	ADDQ(Imm(32), src)
	ADDQ(Imm(32), dst)
	INCQ(open)
	DECQ(n)
	JNZ(LabelRef("next" + name))
	VZEROUPPER()
	Store(some, ReturnIndex(0))
	RET()
}

// flag stores the bits of half h of a pixel.
func (i isa) flag(h int, bits reg.GPVirtual, open reg.Register) {
	if h == 0 {
		MOVB(bits.As8(), Mem{Base: open})
		return
	}
	SHLL(Imm(uint64(h*i.lanes)), bits.As32())
	ORB(bits.As8(), Mem{Base: open})
}

// decideRow rounds lo and hi to the format, lo to float32 numbers in its half, and
// sets a bit for each lane where they differ in any bit, or where decide does.
func (i isa) decideRow(f format, lo, hi, abs reg.VecPhysical, bits reg.Register) {
	l, h := i.half[i.index(lo)], i.half[i.index(hi)]
	if f.name != "Float32" {
		i.decide(f, lo, hi, abs, bits)
		i.toFloat32(lo, l)
		return
	}
	i.toFloat32(lo, l)
	i.toFloat32(hi, h)
	i.differ(l, h, bits)
}

// differ sets a bit for each lane where float32 numbers differ in any bit; hi is
// lost.
func (i isa) differ(lo, hi reg.VecPhysical, bits reg.Register) {
	if i.lanes == 8 {
		VPCMPD(Imm(4), hi, lo, reg.K1)
		KMOVB(reg.K1, bits)
		return
	}
	VPCMPEQD(hi, lo, hi)
	VMOVMSKPS(hi, bits)
	XORL(Imm(15), bits)
}

// pixelsSideBySide is how many pixels an activation takes at a time: each register of
// numbers has one or two chains of operations, more than the processor finds by itself
// when they follow one another, and AVX2 has few registers.
func (i isa) pixelsSideBySide(function string) int {
	switch {
	case i.lanes == 8:
		return 4
	case function == "GELU":
		return 2
	}
	return 1
}

// rowAct writes an activation:
//
//	dst, src  pixels of 8 float32 numbers, 1 or more, apart
//	grid      asm.ActGrid, for results of other formats than float32
//	open      a byte for each pixel, a bit for each lane that the guard leaves open
//	any       the bits of open, combined
func rowAct(i isa, function string, eval func(...*actKernel), single bool) {
	format := "Grid"
	if single {
		format = "Float32"
	}
	name := "row" + function + format + i.name
	TEXT(name, NOSPLIT, "func(dst, src *float32, pixels int, grid *float64, open *uint8) (any uint64)")
	Doc(name + " applies an activation: see asm/rows.go.")
	dst := Load(Param("dst"), reg.RDI).(reg.GPPhysical)
	src := Load(Param("src"), reg.RSI).(reg.GPPhysical)
	n := Load(Param("pixels"), reg.RDX).(reg.GPPhysical)
	grid := Load(Param("grid"), reg.R8)
	open := Load(Param("open"), reg.R10)
	table := i.actTable()
	bits, some := reg.RBX, reg.RAX
	XORQ(some, some)
	sizes := []int{1} // pixels at a time
	if most := i.pixelsSideBySide(function); most > 1 {
		sizes = []int{most, 1}
	}
	if function == "GELU" && i.lanes == 8 { // near needs few registers: twice as many, if none of them is far
		sizes = []int{8, 4, 1}
	}
	first := fmt.Sprint("next", name, sizes[0])
	apply := func(loop string, size int, eval func(...*actKernel)) {
		place := func(j int, at reg.Register) Mem { return i.halfPixel(at, j%i.halves()).Offset(j / i.halves() * 32) }
		all := i.sideBySide(size*i.halves(), grid, table, func(j int, to reg.VecPhysical) { VCVTPS2PD(place(j, src), to) })
		eval(all...)
		results(all)
		for j, k := range all {
			if single {
				k.guardFloat32(reg.EBX)
			} else {
				k.guard(false, reg.EBX)
				i.toFloat32(k.x, i.half[i.index(k.x)])
			}
			VMOVUPS(i.half[i.index(k.x)], place(j, dst))
			flag := Mem{Base: open, Disp: j / i.halves()}
			if h := j % i.halves(); h == 0 {
				MOVB(reg.BL, flag)
			} else {
				SHLL(Imm(uint64(h*i.lanes)), reg.EBX)
				ORB(reg.BL, flag)
			}
			ORQ(bits, some)
		}
		ADDQ(U32(uint32(32*size)), src)
		ADDQ(U32(uint32(32*size)), dst)
		ADDQ(Imm(uint64(size)), open)
		SUBQ(Imm(uint64(size)), n)
		if len(sizes) > 1 {
			if size > 1 {
				loop = first
			}
			JMP(LabelRef(loop))
		} else {
			JNZ(LabelRef(loop))
		}
	}
	for s, size := range sizes {
		loop := fmt.Sprint("next", name, size)
		Label(loop)
		if s+1 < len(sizes) {
			CMPQ(n, Imm(uint64(size)))
			JL(LabelRef(fmt.Sprint("next", name, sizes[s+1])))
		} else if len(sizes) > 1 {
			TESTQ(n, n)
			JZ(LabelRef("end" + name))
		}
		if function == "GELU" {
			far := fmt.Sprint("far", name, size)
			i.anyLarge(src, size, (&actKernel{isa: i, table: table}).c(cLimit))
			if size == 8 {
				far = fmt.Sprint("next", name, sizes[s+1])
			}
			JNZ(LabelRef(far))
			apply(loop, size, geluNear)
			if size == 8 {
				continue
			}
			Label(far)
		}
		apply(loop, size, eval)
	}
	Label("end" + name)
	VZEROUPPER()
	Store(some, ReturnIndex(0))
	RET()
}

// anyLarge clears the zero flag if a number of some pixels, as many as side by side or
// one, is NaN or greater than a limit, of which twice the bits are in memory.
func (i isa) anyLarge(src reg.Register, pixels int, limit Mem) {
	if i.lanes < 8 { // no number is too large whose maximum with the limit is that
		for p, x := range ymm()[:pixels] {
			VMOVDQU(Mem{Base: src, Disp: 32 * p}, x)
			VPADDD(x, x, x)
			VPMAXUD(limit, x, x)
			if p > 0 {
				VPMAXUD(x, reg.Y0, reg.Y0)
			}
		}
		VPXOR(limit, reg.Y0, reg.Y0)
		VPTEST(reg.Y0, reg.Y0)
		return
	}
	const greater = 6 // not less or equal
	if pixels == 1 {
		VMOVDQU(Mem{Base: src}, reg.Y0)
		VPADDD(reg.Y0, reg.Y0, reg.Y0)
		VPCMPUD_BCST(Imm(greater), limit, reg.Y0, reg.K1)
		KORTESTW(reg.K1, reg.K1)
		return
	}
	for k, x := range zmm()[:pixels/2] {
		VMOVDQU32(Mem{Base: src, Disp: 64 * k}, x)
		VPADDD(x, x, x)
		if k > 0 {
			VPMAXUD(x, reg.Z0, reg.Z0)
		}
	}
	VPCMPUD_BCST(Imm(greater), limit, reg.Z0, reg.K1)
	KORTESTW(reg.K1, reg.K1)
}

// guardFloat32 rounds the ends y -+ ActErr y of the interval to float32, the former
// to the half of x's register. Those of an infinity are a NaN and an infinity.
func (k *actKernel) guardFloat32(bits reg.Register) {
	lo, hi := k.x, k.register()
	VMOVAPD(k.y, lo)
	VMOVAPD(k.y, hi)
	k.with(VFNMADD231PD, VFNMADD231PD_BCST, k.c(cErr), k.y, lo)
	k.with(VFMADD231PD, VFMADD231PD_BCST, k.c(cErr), k.y, hi)
	k.toFloat32(lo, k.half[k.index(lo)])
	k.toFloat32(hi, k.half[k.index(hi)])
	k.differ(k.half[k.index(lo)], k.half[k.index(hi)], bits)
}

// rowReLU is max(0, x), which is x for equal operands and for a NaN.
func rowReLU() {
	TEXT("rowReLUAVX2", NOSPLIT, "func(dst, src *float32, pixels int, grid *float64, open *uint8) (any uint64)")
	Pragma("noescape")
	Doc("rowReLUAVX2 applies an activation: see asm/rows.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	n := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	open := Load(Param("open"), GP64()).(reg.GPVirtual)
	some := GP64()
	XORQ(some, some)
	VXORPS(reg.Y0, reg.Y0, reg.Y0)
	Label("nextReLU")
	VMAXPS(Mem{Base: src}, reg.Y0, reg.Y1)
	VMOVUPS(reg.Y1, Mem{Base: dst})
	MOVB(some.As8(), Mem{Base: open})
	ADDQ(Imm(32), src)
	ADDQ(Imm(32), dst)
	INCQ(open)
	DECQ(n)
	JNZ(LabelRef("nextReLU"))
	VZEROUPPER()
	Store(some, ReturnIndex(0))
	RET()
}

// rowGreatest keeps in dst what is greater, or a NaN: VMAXPS returns its second operand, that
// of dst, if the numbers are equal or one is a NaN.
func rowGreatest() {
	TEXT("rowGreatestAVX2", NOSPLIT, "func(dst, src *float32, pixels, step int)")
	Pragma("noescape")
	Doc("rowGreatestAVX2 keeps the greatest numbers: see asm/rows.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	n := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	step := Load(Param("step"), GP64()).(reg.GPVirtual)
	SHLQ(Imm(5), step) // bytes
	Label("nextGreatest")
	VMOVUPS(Mem{Base: src}, reg.Y0)
	VMAXPS(Mem{Base: dst}, reg.Y0, reg.Y1)
	VCMPPS(Imm(3), reg.Y0, reg.Y0, reg.Y2) // unordered: a NaN
	VBLENDVPS(reg.Y2, reg.Y0, reg.Y1, reg.Y1)
	VMOVUPS(reg.Y1, Mem{Base: dst})
	ADDQ(step, src)
	ADDQ(Imm(32), dst)
	DECQ(n)
	JNZ(LabelRef("nextGreatest"))
	VZEROUPPER()
	RET()
}

// rowHardSwish is x (x+3)/6 of an x that is -3 at least, where x+3 is 6 at most, in three roundings: it rounds the ends
// of y's interval, and leaves open where they differ, or are NaN.
func rowHardSwish(i isa) {
	name := "rowHardSwishFloat32" + i.name
	TEXT(name, NOSPLIT, "func(dst, src *float32, pixels int, grid *float64, open *uint8) (any uint64)")
	Pragma("noescape")
	Doc(name + " applies an activation: see asm/rows.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	n := Load(Param("pixels"), GP64()).(reg.GPVirtual)
	open := Load(Param("open"), GP64()).(reg.GPVirtual)
	constants := i.wide[8:13]
	for k, v := range []float64{-3, 3, 6, 1 - 0x1p-50, 1 + 0x1p-50} {
		VMOVUPD(i.float(v), constants[k])
	}
	least, three, six, low, high := constants[0], constants[1], constants[2], constants[3], constants[4]
	bits, nans, some := GP64(), GP64(), GP64()
	XORQ(some, some)
	Label("next" + name)
	for h := range i.halves() {
		x, u, lo, hi := i.wide[4*h], i.wide[4*h+1], i.wide[4*h+2], i.wide[4*h+3]
		VCVTPS2PD(i.halfPixel(src, h), x)
		VMAXPD(x, least, x) // of two operands of which one is NaN they return the second
		VADDPD(three, x, u)
		VMINPD(u, six, u)
		VMULPD(u, x, x)
		VDIVPD(six, x, x)
		VMULPD(low, x, lo)
		VMULPD(high, x, hi)
		i.nans(x, u, nans)
		i.decideRow(float32Out, lo, hi, nil, bits.As32())
		VMOVUPS(i.lower(lo), i.halfPixel(dst, h))
		ORQ(nans, bits)
		i.flag(h, bits, open)
		ORQ(bits, some)
	}
	ADDQ(Imm(32), src)
	ADDQ(Imm(32), dst)
	INCQ(open)
	DECQ(n)
	JNZ(LabelRef("next" + name))
	VZEROUPPER()
	Store(some, ReturnIndex(0))
	RET()
}

// nans sets a bit for each lane that is NaN; t is scratch.
func (i isa) nans(x, t reg.VecPhysical, bits reg.GPVirtual) {
	const unordered = 3
	if i.lanes == 8 {
		VCMPPD(Imm(unordered), x, x, reg.K1)
		KMOVB(reg.K1, bits.As32())
		return
	}
	VCMPPD(Imm(unordered), x, x, t)
	VMOVMSKPD(t, bits.As32())
}
