package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// norm writes all kernels of asm.Norm.
func norm() {
	for _, i := range []isa{avx512, avx2} {
		t := newTable(i, "norm"+i.name+"Constants")
		t.words(math.MaxInt64)
		for _, f := range []format{float32Out, float16Out, bfloat16Out} {
			t.words(f.half()+1, ^f.last(), f.least(), f.span(), f.least()+f.span())
		}
		top(i)
		sums(i)
		for _, f := range []format{float32Out, float16Out, bfloat16Out} {
			apply(i, f)
			applyRow(i, f)
		}
	}
}

// top is the greatest high word of the bits of |x|. Words are compared as
// integers, so that a NaN is greater than any number.
//
//	x       n numbers, n a positive multiple of 8
//	out     8 pairs of words, low and high, the greatest of a lane each
func top(i isa) {
	TEXT("normTop"+i.name, NOSPLIT, "func(x *float64, n int, out *[16]uint32)")
	Pragma("noescape")
	Doc("normTop" + i.name + " finds the largest number: see asm/norm.go.")
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	v := i.vector()
	greatest, abs := i.wide[:i.halves()], i.wide[3]
	VMOVUPD(i.bits(math.MaxInt64), abs)
	for _, g := range greatest {
		VXORPD(g, g, g)
	}
	Label("top" + i.name)
	for h, g := range greatest {
		t := i.wide[4+h]
		VANDPD(Mem{Base: x, Disp: h * v}, abs, t)
		VPMAXUD(t, g, g)
	}
	ADDQ(Imm(64), x)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("top" + i.name))
	for h, g := range greatest {
		VMOVUPD(g, Mem{Base: out, Disp: h * v})
	}
	VZEROUPPER()
	RET()
}

// sums are five accumulators and a check, for each of 8 lanes: see asm/norm.go.
//
//	x       n numbers, n a positive multiple of 8
//	acc     [6][8]: the accumulators, which hold where they start, and the bits
//	        of what was left of x
func sums(i isa) {
	TEXT("normSums"+i.name, NOSPLIT, "func(x *float64, n int, acc *[6][8]float64)")
	Pragma("noescape")
	Doc("normSums" + i.name + " adds numbers and their squares: see asm/norm.go.")
	in := Load(Param("x"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	acc := Load(Param("acc"), GP64()).(reg.GPVirtual)
	v := i.vector()
	// The six accumulators of half h are registers 6h to 6h+5.
	x, q, t := i.wide[12], i.wide[13], i.wide[14]
	for h := range i.halves() {
		for k := range 6 {
			VMOVUPD(Mem{Base: acc, Disp: 64*k + h*v}, i.wide[6*h+k])
		}
	}
	// add adds r to the accumulator a, and leaves in r what a lost of it:
	//
	//	t = a+r   r = r - (t-a)   a = t
	add := func(r, a reg.VecPhysical) {
		VADDPD(r, a, t)
		VSUBPD(a, t, a)
		VSUBPD(a, r, r)
		VMOVAPD(t, a)
	}
	Label("sums" + i.name)
	for h := range i.halves() {
		a := i.wide[6*h:]
		VMOVUPD(Mem{Base: in, Disp: h * v}, x)
		VMULPD(x, x, q)
		add(x, a[0])
		add(q, a[2])
		add(x, a[1])
		add(q, a[3])
		VORPD(x, a[5], a[5])
		VADDPD(q, a[4], a[4])
	}
	ADDQ(Imm(64), in)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("sums" + i.name))
	for h := range i.halves() {
		for k := range 6 {
			VMOVUPD(i.wide[6*h+k], Mem{Base: acc, Disp: 64*k + h*v})
		}
	}
	VZEROUPPER()
	RET()
}

// apply evaluates a line, with its guard:
//
//	dst     n numbers, n a positive multiple of 8; it may be src
//	src     n numbers
//	line    muHi, muLo, slope, beta, and the coefficients of |t| and |y| in E
//	open    n/8 bytes, a bit for each number that the guard leaves open
//	any     the bits of open, combined
func apply(i isa, f format) {
	name := "normApply" + f.name + i.name
	TEXT(name, NOSPLIT, "func(dst, src *float64, n int, line *[6]float64, open *uint8) (any uint64)")
	Pragma("noescape")
	Doc(name + " normalises and rounds: see asm/norm.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	open := Load(Param("open"), GP64()).(reg.GPVirtual)
	v := i.vector()
	r := i.wide
	muHi, muLo, slope, beta, ct, cy := r[0], r[1], r[2], r[3], r[4], r[5]
	for k, c := range r[:6] {
		VBROADCASTSD(Mem{Base: line, Disp: 8 * k}, c)
	}
	abs, t, y, e, lo, hi := r[6], r[7], r[8], r[9], r[10], r[11]
	VMOVUPD(i.bits(math.MaxInt64), abs)
	bits, some := GP64(), GP64()
	XORQ(some, some)
	Label("next" + f.name + i.name)
	for h := range i.halves() {
		VMOVUPD(Mem{Base: src, Disp: h * v}, t)
		VSUBPD(muHi, t, t)
		VSUBPD(muLo, t, t)
		VMULPD(slope, t, t)
		VADDPD(beta, t, y)
		VANDPD(abs, t, t)
		VANDPD(abs, y, e)
		VMULPD(cy, e, e)
		VFMADD231PD(ct, t, e)
		VSUBPD(e, y, lo)
		VADDPD(e, y, hi)
		i.decide(f, lo, hi, abs, bits.As32())
		VMOVUPD(lo, Mem{Base: dst, Disp: h * v})
		if h > 0 {
			SHLL(Imm(uint64(h*i.lanes)), bits.As32())
			ORB(bits.As8(), Mem{Base: open})
		} else {
			MOVB(bits.As8(), Mem{Base: open})
		}
		ORQ(bits, some)
	}
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), dst)
	INCQ(open)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next" + f.name + i.name))
	VZEROUPPER()
	Store(some, ReturnIndex(0))
	RET()
}

// applyRow evaluates a line whose parameters are each number's own, with its guard:
//
//	dst     n numbers, n a positive multiple of 8; it may be src
//	src     n numbers
//	gamma   n numbers, and beta too
//	row     muHi, muLo, 1/sigma, the least |x-mu|, and the coefficients of |t| and |y| in E
//	open    n/8 bytes, a bit for each number that the guard leaves open
//	any     the bits of open, combined
func applyRow(i isa, f format) {
	name := "normApplyRow" + f.name + i.name
	TEXT(name, NOSPLIT, "func(dst, src, gamma, beta *float64, n int, row *[6]float64, open *uint8) (any uint64)")
	Pragma("noescape")
	Doc(name + " normalises and rounds: see asm/norm.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	gamma := Load(Param("gamma"), GP64()).(reg.GPVirtual)
	beta := Load(Param("beta"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	row := Load(Param("row"), GP64()).(reg.GPVirtual)
	open := Load(Param("open"), GP64()).(reg.GPVirtual)
	v := i.vector()
	r := i.wide
	muHi, muLo, inv, least, ct, cy := r[0], r[1], r[2], r[3], r[4], r[5]
	for k, c := range r[:6] {
		VBROADCASTSD(Mem{Base: row, Disp: 8 * k}, c)
	}
	abs, t, y, e, lo, hi := r[6], r[7], r[8], r[9], r[10], r[11]
	VMOVUPD(i.bits(math.MaxInt64), abs)
	bits, near, all, some := GP64(), GP64(), GP64(), GP64()
	XORQ(some, some)
	Label("next" + name)
	for h := range i.halves() {
		VMOVUPD(Mem{Base: src, Disp: h * v}, t)
		VSUBPD(muHi, t, t)
		VSUBPD(muLo, t, t)
		VANDPD(abs, t, e)
		if i.lanes == 8 { // not greater
			VCMPPD(Imm(10), least, e, reg.K4)
			KMOVB(reg.K4, near.As32())
		} else {
			VCMPPD(Imm(10), least, e, e)
			VMOVMSKPD(e, near.As32())
		}
		VMULPD(Mem{Base: gamma, Disp: h * v}, inv, y)
		VMULPD(y, t, t)
		VADDPD(Mem{Base: beta, Disp: h * v}, t, y)
		VANDPD(abs, t, t)
		VANDPD(abs, y, e)
		VMULPD(cy, e, e)
		VFMADD231PD(ct, t, e)
		VSUBPD(e, y, lo)
		VADDPD(e, y, hi)
		i.decide(f, lo, hi, abs, bits.As32())
		VMOVUPD(lo, Mem{Base: dst, Disp: h * v})
		ORL(near.As32(), bits.As32())
		if h > 0 {
			SHLL(Imm(uint64(h*i.lanes)), bits.As32())
			ORL(bits.As32(), all.As32())
		} else {
			MOVL(bits.As32(), all.As32())
		}
	}
	MOVB(all.As8(), Mem{Base: open})
	ORQ(all, some)
	for _, at := range []reg.Register{src, dst, gamma, beta} {
		ADDQ(Imm(64), at)
	}
	INCQ(open)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next" + name))
	VZEROUPPER()
	Store(some, ReturnIndex(0))
	RET()
}

// decide rounds lo and hi to the format, both still float64 numbers, and sets a
// bit for each lane where they differ or where lo is beyond the normal numbers,
// unless lo and hi were the same before.
//
// It rounds to nearest, ties away from zero, by a carry: an exact value lies
// between lo and hi, not at them, so that no tie is decided. Registers from 12 on
// are scratch.
func (i isa) decide(f format, lo, hi, abs reg.VecPhysical, bits reg.Register) {
	half, kept := i.bits(f.half()+1), i.bits(^f.last())
	t := i.wide[12]
	if i.lanes == 8 {
		VCMPPD(Imm(4), hi, lo, reg.K1) // a NaN differs from itself
		VPADDQ(half, lo, lo)
		VPADDQ(half, hi, hi)
		VPXORQ(hi, lo, hi)
		VPTESTMQ(kept, hi, reg.K1, reg.K2)
		VPANDQ(kept, lo, lo)
		VPANDQ(abs, lo, t)
		VPSUBQ(i.bits(f.least()), t, t)
		VPCMPUQ(Imm(6), i.bits(f.span()), t, reg.K1, reg.K3) // unsigned: below least, too
		KORB(reg.K2, reg.K3, reg.K2)
		KMOVB(reg.K2, bits)
		return
	}
	equal, least, most := i.wide[13], i.wide[14], i.wide[15]
	VCMPPD(Imm(0), hi, lo, equal) // no NaN is
	VPADDQ(half, lo, lo)
	VPADDQ(half, hi, hi)
	VPXOR(hi, lo, hi)
	VMOVDQU(kept, t)
	VPAND(t, hi, hi)
	VPAND(t, lo, lo)
	VPXOR(t, t, t)
	VPCMPEQQ(t, hi, hi)
	VPAND(abs, lo, t)
	VMOVDQU(i.bits(f.least()), least)
	VPCMPGTQ(t, least, least)
	VPCMPGTQ(i.bits(f.least()+f.span()), t, most)
	VPOR(most, least, t)
	VPANDN(hi, t, t)
	VPOR(equal, t, t) // decided
	VMOVMSKPD(t, bits)
	XORL(Imm(15), bits)
}
