package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rounding is how a kernel rounds to the format of its results.
type rounding string

const (
	roundNot     rounding = "Float64" // not at all
	roundFloat32 rounding = "Float32" // by the conversion
	roundGrid    rounding = "Grid"    // to the format that asm.NoiseGrid describes
)

// rounder rounds registers, as fp16.Format.Round does but for the sign and
// payload of NaN, which canonical sets.
type rounder struct {
	isa
	rounding
	low, high, lift, up, down reg.VecPhysical // asm.NoiseGrid
	t, u                      reg.VecPhysical // spoiled
}

// round rounds x. On a grid it adds to x and takes away the power of two B, with
// the sign of x, that has its last place where the grid has it around x, see fp16:
// B is 2^lift times the power of two below |x|, that within the format's range.
// The sum rounds, the difference is exact, but for a zero's sign. Two more products
// make infinities of what is too large, and are exact elsewhere.
func (r *rounder) round(x reg.VecPhysical) {
	switch r.rounding {
	case roundFloat32:
		h := r.half[r.index(x)]
		r.toFloat32(x, h)
		VCVTPS2PD(h, x)
	case roundGrid:
		b, s := r.t, r.u
		r.and(r.bits(infinity), x, b)
		r.move(x, s)
		VMAXPD(r.low, b, b)
		VMINPD(r.high, b, b)
		VMULPD(r.lift, b, b)
		r.copySign(s, b)
		VADDPD(b, x, x)
		VSUBPD(b, x, x)
		VMULPD(r.up, x, x)
		VMULPD(r.down, x, x)
		r.copySign(s, x)
	}
}

// copySign turns the sign bit of x on where that of s is on. s loses its other
// bits, or keeps them.
func (r *rounder) copySign(s, x reg.VecPhysical) {
	if r.lanes == 8 {
		VPTERNLOGQ(Imm(0xf8), r.bits(sign), s, x) // x | s & sign
		return
	}
	VPAND(r.bits(sign), s, s)
	VPOR(s, x, x)
}

// canonical sets every NaN in x to the one NaN.
func (r *rounder) canonical(x reg.VecPhysical) {
	const unordered = 3
	if r.lanes == 8 {
		VCMPPD(Imm(unordered), x, x, reg.K1)
		VMOVUPD(r.bits(quietNaN), reg.K1, x)
		return
	}
	VCMPPD(Imm(unordered), x, x, r.t)
	VBLENDVPD(r.t, r.bits(quietNaN), x, x)
}

// applyNoise writes the kernels that apply noise n to x. They share a signature:
//
//	dst, x, n  numbers, of which dst may be the same as x or n
//	vectors    how many vectors, 1 or more
//	s          a factor
//	grid       asm.NoiseGrid
func applyNoise(i isa, how rounding) {
	x, n := i.wide[0], i.wide[1]
	s := i.wide[5]
	for _, k := range []struct {
		name string
		body func(r *rounder)
	}{
		{"Add", func(r *rounder) { // rn(x + rn(rn(n) s))
			r.round(n)
			VMULPD(s, n, n)
			r.round(n)
			VADDPD(n, x, x)
		}},
		{"Modulate", func(r *rounder) { // rn(x rn(1 + rn(rn(n) s)))
			r.round(n)
			VMULPD(s, n, n)
			r.round(n)
			VADDPD(r.float(1), n, n)
			r.round(n)
			VMULPD(n, x, x)
		}},
		// rn(rn(n) sign(rn(x))). The sign: numbers other than 0 are 2^2046 times
		// themselves at least 1, cut off there; and the sum with 0 makes +0 of -0.
		// A NaN stays one, as MIN and MAX return the second operand then.
		{"Sign", func(r *rounder) {
			r.round(n)
			r.round(x)
			VMULPD(r.float(0x1p1023), x, x)
			VMULPD(r.float(0x1p1023), x, x)
			r.move(r.float(1), r.t)
			VMINPD(x, r.t, x)
			r.move(r.float(-1), r.t)
			VMAXPD(x, r.t, x)
			VADDPD(r.float(0), x, x)
			VMULPD(x, n, x)
		}},
		{"Scale", func(r *rounder) { VMULPD(s, x, x) }}, // rn(x s), without n
	} {
		name := "noise" + k.name + string(how) + i.name
		TEXT(name, NOSPLIT, "func(dst, x, n *float64, vectors int, s float64, grid *float64)")
		Pragma("noescape")
		Doc(name + " applies noise: see asm/noise.go.")
		r := &rounder{isa: i, rounding: how, t: i.wide[3], u: i.wide[4],
			low: i.wide[6], high: i.wide[7], lift: i.wide[8], up: i.wide[9], down: i.wide[10]}
		dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
		px := Load(Param("x"), GP64()).(reg.GPVirtual)
		var pn reg.GPVirtual
		if k.name != "Scale" {
			pn = Load(Param("n"), GP64()).(reg.GPVirtual)
		}
		vectors := Load(Param("vectors"), GP64()).(reg.GPVirtual)
		if k.name != "Sign" {
			VBROADCASTSD(mustParam("s"), s)
		}
		if how == roundGrid {
			grid := Load(Param("grid"), GP64()).(reg.GPVirtual)
			for k, v := range []reg.VecPhysical{r.low, r.high, r.lift, r.up, r.down} {
				VBROADCASTSD(Mem{Base: grid, Disp: 8 * k}, v)
			}
		}
		Label("loop" + name)
		VMOVUPD(Mem{Base: px}, x)
		ADDQ(U32(uint32(i.vector())), px)
		if k.name != "Scale" {
			VMOVUPD(Mem{Base: pn}, n)
			ADDQ(U32(uint32(i.vector())), pn)
		}
		k.body(r)
		r.round(x)
		r.canonical(x)
		VMOVUPD(x, Mem{Base: dst})
		ADDQ(U32(uint32(i.vector())), dst)
		DECQ(vectors)
		JNZ(LabelRef("loop" + name))
		VZEROUPPER()
		RET()
	}
}
