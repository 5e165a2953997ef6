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
	name, signature := "measureCount",
		"func(x, y *float64, n int, by *[5][4]float64, sum *[4]float64, counts *[8][64]int32)"
	params := []string{"x", "y"}
	if rows == 2 {
		name, signature = "measureCountTwo",
			"func(x, y, x1, y1 *float64, n int, by *[2][5][4]float64, sum *[2][4]float64, counts *[2][8][64]int32)"
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
	bits := reg.X6
	y := ymm()
	sums, dx, dy, q := []reg.VecPhysical{y[0], y[1]}, y[2], y[3], y[4]
	for row := range rows {
		VMOVUPD(Mem{Base: to, Disp: 32 * row}, sums[row])
	}
	VPCMPEQD(bits, bits, bits)
	VPSRLD(Imm(26), bits, bits) // 63
	binned(rows, n, counts, func(place Mem) {
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
			VMOVDQU(reg.X4, place.Offset(16*row))
			VMOVUPD(Mem{Base: z}, dy)
			VSUBPD(at(1), dy, dy)
			VMULPD(dx, dy, dy)
			VMULPD(dx, dx, y[14])
			turned(sums[row], dx, y[14], dy, [3]reg.VecPhysical{y[10], y[11], y[12]})
			ADDQ(Imm(32), x)
			ADDQ(Imm(32), z)
		}
	})
	for row := range rows {
		VMOVUPD(sums[row], Mem{Base: to, Disp: 32 * row})
	}
	VZEROUPPER()
	RET()
}

// binned takes n numbers of each row, four at a time, of which find writes the bins to a place, and
// then counts those. Where a place in memory is not known yet from which a later number is to be
// read, processors guess that it is another one, and begin again where it is not; so the bins of up
// to 32 numbers are all found before the first of them is counted.
func binned(rows int, n, counts reg.GPVirtual, find func(place Mem)) {
	const most = 8 // fours
	places := AllocLocal(16 * rows * most)
	at, left, bin, other, swap := GP64(), GP64(), GP64(), GP64(), GP64()
	LEAQ(Mem{Base: counts, Disp: 1024}, other)
	times := func(label string, body func()) {
		MOVQ(U32(4*most), left)
		CMPQ(n, left)
		CMOVQLT(n, left)
		LEAQ(places, at)
		Label(label)
		body()
		ADDQ(Imm(uint64(16*rows)), at)
		SUBQ(Imm(4), left)
		JNZ(LabelRef(label))
	}
	Label("some")
	times("find", func() { find(Mem{Base: at}) })
	times("count", func() {
		for row := range rows {
			for k := range 4 {
				MOVL(Mem{Base: at, Disp: 16*row + 4*k}, bin.As32())
				INCL(Mem{Base: counts, Index: bin, Scale: 4, Disp: 2048*row + 256*k})
			}
		}
		MOVQ(counts, swap) // the four other tables: an increment waits for one before in its place
		MOVQ(other, counts)
		MOVQ(swap, other)
	})
	SUBQ(Imm(4*most), n)
	JG(LabelRef("some"))
}
