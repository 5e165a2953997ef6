package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// measure writes the kernels of Measure, for AVX2, and used with AVX-512 too. Their sums are in
// the order of the numbers, one number at a time: a sum waits for the one before, so four share
// a register, and what is added to them is made for four numbers at once and turned over.
func measure() {
	for _, rows := range []int{1, 2} {
		measureSums(rows)
		measureCount(rows)
	}
}

// turned adds lane k of a, b, c, for k = 0 to 3, to lanes 0 to 2 of sum, and something to lane 3.
// Integers' forms of instructions run on two ports of many processors, those of numbers on one.
func turned(sum, a, b, c reg.VecPhysical, t [3]reg.VecPhysical) {
	VPUNPCKLQDQ(b, a, t[0])
	VPUNPCKHQDQ(b, a, t[1])
	VPSHUFD(Imm(0xee), c, t[2]) // lanes 1 and 3
	for _, half := range []uint64{0x20, 0x31} {
		for k, of := range []reg.VecPhysical{c, t[2]} {
			VPERM2F128(Imm(half), of, t[k], a)
			VADDPD(a, sum, sum)
		}
	}
}

// measureSums writes Sums of one, or of two rows of numbers, whose sums do not wait for each
// other's.
func measureSums(rows int) {
	name, signature := "measureSums", "func(x *float64, n int, to *[4][4]float64)"
	if rows == 2 {
		name, signature = "measureSumsTwo", "func(x, x1 *float64, n int, to *[2][4][4]float64)"
	}
	TEXT(name+"AVX2", NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + "AVX2 is Measure." + name[len("measure"):] + ": see asm/measure.go.")
	from := []reg.GPVirtual{Load(Param("x"), GP64()).(reg.GPVirtual)}
	if rows == 2 {
		from = append(from, Load(Param("x1"), GP64()).(reg.GPVirtual))
	}
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	to := Load(Param("to"), GP64()).(reg.GPVirtual)
	y := ymm()
	v, square, size, off, sign := y[4], y[5], y[6], y[7], y[8]
	all := [2][3]reg.VecPhysical{{y[0], y[1], y[2]}, {y[3], y[14], y[15]}} // sum, lo, hi
	at := func(row, k int) Mem { return Mem{Base: to, Disp: 128*row + 32*k} }
	for row := range from {
		for k, r := range all[row] {
			VMOVUPD(at(row, k), r)
		}
	}
	VPCMPEQD(sign, sign, sign)
	VPSRLQ(Imm(1), sign, sign)
	Label("sums")
	for row, x := range from {
		sum, lo, hi := all[row][0], all[row][1], all[row][2]
		VMOVUPD(Mem{Base: x}, v)
		VMULPD(v, v, square)
		VANDPD(sign, v, size)
		VSUBPD(at(row, 3), v, off)
		VMINPD(lo, v, lo) // the second one of NaN and of two zeros
		VMAXPD(hi, v, hi)
		turned(sum, square, size, off, [3]reg.VecPhysical{y[10], y[11], y[12]})
		ADDQ(Imm(32), x)
	}
	SUBQ(Imm(4), n)
	JNZ(LabelRef("sums"))
	for row := range from {
		for k, r := range all[row] {
			VMOVUPD(r, at(row, k))
		}
	}
	VZEROUPPER()
	RET()
}

// measureCount writes Count, of one or of two rows of numbers.
func measureCount(rows int) {
	name, signature := "measureCount", "func(x, y *float64, n int, by *[5][4]float64, sum *[4]float64, counts *[8][64]int32)"
	params := []string{"x", "y"}
	if rows == 2 {
		name, signature = "measureCountTwo", "func(x, y, x1, y1 *float64, n int, by *[2][5][4]float64, sum *[2][4]float64, counts *[2][8][64]int32)"
		params = append(params, "x1", "y1")
	}
	TEXT(name+"AVX2", NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + "AVX2 is Measure." + name[len("measure"):] + ": see asm/measure.go.")
	var from []reg.GPVirtual
	for _, p := range params {
		from = append(from, Load(Param(p), GP64()).(reg.GPVirtual))
	}
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	by := Load(Param("by"), GP64()).(reg.GPVirtual)
	to := Load(Param("sum"), GP64()).(reg.GPVirtual)
	counts := Load(Param("counts"), GP64()).(reg.GPVirtual)
	other, swap := GP64(), GP64()
	place, bits := AllocLocal(16*rows), reg.X6
	LEAQ(Mem{Base: counts, Disp: 1024}, other)
	y, bin := ymm(), GP64()
	sums, dx, dy, q := []reg.VecPhysical{y[0], y[1]}, y[2], y[3], y[4]
	for row := range rows {
		VMOVUPD(Mem{Base: to, Disp: 32 * row}, sums[row])
	}
	VPCMPEQD(bits, bits, bits)
	VPSRLD(Imm(26), bits, bits) // 63
	Label("count")
	for row := range rows {
		at := func(k int) Mem { return Mem{Base: by, Disp: 160*row + 32*k} } // a, b, lo, bins, span
		x, z := from[2*row], from[2*row+1]
		VMOVUPD(Mem{Base: x}, q)
		VSUBPD(at(0), q, dx)
		VSUBPD(at(2), q, q)
		VMULPD(at(3), q, q)
		VDIVPD(at(4), q, q)
		VCVTTPD2DQY(q, reg.X4)
		VPAND(bits, reg.X4, reg.X4)
		VMOVDQU(reg.X4, place.Offset(16*row)) // from where it is read sooner than lanes are moved apart
		VMOVUPD(Mem{Base: z}, dy)
		VSUBPD(at(1), dy, dy)
		VMULPD(dx, dy, dy)
		VMULPD(dx, dx, y[14])
		for k := range 4 {
			MOVL(place.Offset(16*row+4*k), bin.As32())
			INCL(Mem{Base: counts, Index: bin, Scale: 4, Disp: 2048*row + 256*k})
		}
		turned(sums[row], dx, y[14], dy, [3]reg.VecPhysical{y[10], y[11], y[12]})
		ADDQ(Imm(32), x)
		ADDQ(Imm(32), z)
	}
	MOVQ(counts, swap) // the four other tables: an increment waits for one before in its place
	MOVQ(other, counts)
	MOVQ(swap, other)
	SUBQ(Imm(4), n)
	JNZ(LabelRef("count"))
	for row := range rows {
		VMOVUPD(sums[row], Mem{Base: to, Disp: 32 * row})
	}
	VZEROUPPER()
	RET()
}
