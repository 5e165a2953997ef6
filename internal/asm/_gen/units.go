package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// units writes all kernels of asm.Units. They are of AVX2, for AVX-512 too.
func units() {
	unit("Truncate", false)
	unit("Floor", true)
}

// Numbers of the rule, asm.UnitRule, 32 bytes each.
const (
	unitLowest = 32 * iota
	unitTo
	unitFrom
	unitKeep
	unitExponent
	unitAbs
	unitLeast
	unitOver
	unitHuge
	unitTiny
	unitShift
	unitScale
	unitJoined
)

// unit adds blocks of products of a row and four columns to four accumulators: see asm/units.go.
//
//	row      [blocks*terms] of a number and its power of two
//	columns  [blocks*terms] of four numbers and their powers of two
//	terms    a multiple of 4
//	c        the accumulators
//	done     how many blocks were added: the next one needs plain Go
func unit(name string, floor bool) {
	name = "unit" + name + "AVX2"
	TEXT(name, NOSPLIT, "func(row, columns *float64, blocks, terms int, rule *[13][4]uint64, c *[4]float64) (done int)")
	Pragma("noescape")
	Doc(name + " adds blocks as a matrix unit does: see asm/units.go.")
	row := Load(Param("row"), GP64()).(reg.GPVirtual)
	columns := Load(Param("columns"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	terms := Load(Param("terms"), GP64()).(reg.GPVirtual)
	rule := Load(Param("rule"), GP64()).(reg.GPVirtual)
	acc := Load(Param("c"), GP64()).(reg.GPVirtual)
	left, x, y, done, odd := GP64(), GP64(), GP64(), GP64(), GP64()
	c, top, e, to, zero, t, u := YMM(), YMM(), YMM(), YMM(), YMM(), YMM(), YMM()
	sum := []reg.VecVirtual{YMM(), YMM()}
	k := func(at int) Mem { return Mem{Base: rule, Disp: at} }
	// each runs over the terms of the block, four at a time.
	each := func(label string, do func(n int)) {
		MOVQ(row, x)
		MOVQ(columns, y)
		MOVQ(terms, left)
		Label(name + label)
		for n := range 4 {
			do(n)
		}
		ADDQ(Imm(64), x)
		ADDQ(U32(256), y)
		SUBQ(Imm(4), left)
		JNZ(LabelRef(name + label))
	}
	// round rounds to float32.
	round := func(s reg.VecVirtual) {
		VCVTPD2PSY(s, t.AsX())
		VCVTPS2PD(t.AsX(), s)
	}
	XORQ(done, done)
	VXORPD(zero, zero, zero)
	VMOVUPD(Mem{Base: acc}, c)
	Label(name + "block")

	// The greatest power of two of the products, and that of the accumulator.
	VMOVUPD(k(unitLowest), top)
	each("greatest", func(n int) {
		VBROADCASTSD(Mem{Base: x, Disp: 16*n + 8}, t)
		VMULPD(Mem{Base: y, Disp: 64*n + 32}, t, t)
		VMAXPD(t, top, top)
	})
	VANDPD(k(unitExponent), c, e)
	VMAXPD(k(unitLeast), e, e)
	VCMPPD(Imm(4), zero, c, t) // not 0
	VANDPD(t, e, e)
	most := top // of all terms
	if floor {
		most = YMM()
		VMAXPD(e, top, most)
	} else {
		VMAXPD(e, top, top)
	}

	// The terms in units of the last place that is kept, truncated.
	VMOVUPD(k(unitTo), to)
	VPSUBQ(top, to, to)
	VMOVAPD(zero, sum[0])
	VMOVAPD(zero, sum[1])
	each("sum", func(n int) {
		VBROADCASTSD(Mem{Base: x, Disp: 16 * n}, t)
		VMULPD(Mem{Base: y, Disp: 64 * n}, t, t)
		VMULPD(to, t, t)
		VROUNDPD(Imm(3), t, t)
		VADDPD(t, sum[n&1], sum[n&1])
	})
	s := sum[0]
	VADDPD(sum[1], s, s)
	if floor {
		// The sum in units of 2^-7 of those, floored, and so the accumulator, in units of the greater power of both.
		VPSUBQ(most, top, t)
		VPADDQ(k(unitShift), t, t)
		VMULPD(t, s, s)
		VROUNDPD(Imm(1), s, s)
		VMOVUPD(k(unitTo), to)
		VPSUBQ(most, to, to)
		VMULPD(to, c, t)
		VROUNDPD(Imm(1), t, t)
		VMULPD(k(unitScale), t, t)
		VADDPD(t, s, s)
		VPSUBQ(k(unitJoined), most, t)
		VMULPD(t, s, s)
		round(s)
		VCMPPD(Imm(13), k(unitTiny), top, u) // at least
	} else {
		VMULPD(to, c, t)
		VROUNDPD(Imm(3), t, t)
		VADDPD(t, s, s)
		VPSUBQ(k(unitFrom), top, t)
		VMULPD(t, s, s)
		VANDPD(k(unitKeep), s, s)
		VANDPD(k(unitAbs), s, t)
		VCMPPD(Imm(13), k(unitLeast), t, u)
		VCMPPD(Imm(0), zero, t, to)
		VORPD(to, u, u)
		VCMPPD(Imm(1), k(unitOver), t, to) // less
		VANDPD(to, u, u)
	}
	VCMPPD(Imm(1), k(unitHuge), most, t)
	VANDPD(t, u, u)

	// Numbers that are neither too large nor too small need no more than that.
	VMOVMSKPD(u, odd.As32())
	CMPQ(odd, Imm(15))
	JNE(LabelRef(name + "end"))
	VMOVAPD(s, c)
	INCQ(done)
	MOVQ(x, row)
	MOVQ(y, columns)
	DECQ(blocks)
	JNZ(LabelRef(name + "block"))
	Label(name + "end")
	VMOVUPD(c, Mem{Base: acc})
	VZEROUPPER()
	Store(done, ReturnIndex(0))
	RET()
}
