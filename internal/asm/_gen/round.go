package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// roundPair rounds lo and hi (register numbers) to the format and sets a bit
// for each lane where they differ in any bit, so that an interval around zero
// counts as open. For float32 it leaves float32 numbers in the half register of
// lo; for the half types float64 numbers in lo. s and t are scratch.
//
// The half types round the bits of the float64: to nearest even by a carry, as
// fp16.Format.RoundSlice does. Zero, subnormal and overflowing results are left
// open.
func (i isa) roundPair(f format, lo, hi, s, t int, bits reg.GPVirtual) {
	w, n := i.wide, i.half
	if f.name == "Float32" {
		if i.lanes == 8 {
			VCVTPD2PS(w[lo], n[lo])
			VCVTPD2PS(w[hi], n[hi])
			VPCMPD(Imm(4), n[hi], n[lo], reg.K1)
			KMOVB(reg.K1, bits)
		} else {
			VCVTPD2PSY(w[lo], n[lo])
			VCVTPD2PSY(w[hi], n[hi])
			VPCMPEQD(n[hi], n[lo], n[hi])
			VMOVMSKPS(n[hi], bits)
			XORL(Imm(15), bits)
		}
		return
	}
	word := i.bits
	for _, x := range []reg.VecPhysical{w[lo], w[hi]} {
		VPSRLQ(Imm(uint64(f.drop())), x, w[t])
		if i.lanes == 8 {
			VPANDQ(word(1), w[t], w[t])
			VMOVDQU64(word(f.last()), w[s])
		} else {
			VPAND(word(1), w[t], w[t])
			VMOVDQU(word(f.last()), w[s])
		}
		VPADDQ(word(f.half()), w[t], w[t])
		VPADDQ(w[t], x, x)
		if i.lanes == 8 {
			VPANDNQ(x, w[s], x)
		} else {
			VPANDN(x, w[s], x)
		}
	}
	if i.lanes == 8 {
		VPCMPQ(Imm(4), w[hi], w[lo], reg.K1)
		VPANDQ(word(math.MaxInt64), w[lo], w[t])
		VPSUBQ(word(f.least()), w[t], w[t])
		VPCMPUQ(Imm(6), word(f.span()), w[t], reg.K2)
		KORB(reg.K1, reg.K2, reg.K1)
		KMOVB(reg.K1, bits)
		return
	}
	VPCMPEQQ(w[hi], w[lo], w[hi])
	VPAND(word(math.MaxInt64), w[lo], w[t])
	VPSUBQ(word(f.least()), w[t], w[t])
	VPXOR(word(1<<63), w[t], w[t])
	VMOVDQU(word(f.span()), w[s])
	VPXOR(word(1<<63), w[s], w[s])
	VPCMPGTQ(w[s], w[t], w[t])
	VPANDN(w[hi], w[t], w[t])
	VMOVMSKPD(w[t], bits)
	XORL(Imm(15), bits)
}

// narrow turns a register into float32 numbers in its half.
func (i isa) narrow(x int) {
	if i.lanes == 8 {
		VCVTPD2PS(i.wide[x], i.half[x])
	} else {
		VCVTPD2PSY(i.wide[x], i.half[x])
	}
}
