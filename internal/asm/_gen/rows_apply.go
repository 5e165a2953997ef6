package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A rowOperation sets dst to a function of x, which has a second operand n or not,
// and numbers s of the lanes. All kernels share a signature:
//
//	dst, x, n  pixels of 8 float32 numbers; dst may be x or n
//	pixels     1 or more
//	s          8 float32 numbers
//	grid       asm.NoiseGrid
//
// The bodies are written for float64 numbers, which are rounded after each
// operation, and for float32 arithmetic, which rounds by itself. The result is in x.
type rowOperation struct {
	name   string
	second bool
	wide   func(r *rounder, x, n reg.VecPhysical, s Op)
	narrow func(x, n, s, one reg.VecPhysical)
}

var rowOperations = []rowOperation{
	{"Add", true, // rn(x + n)
		func(r *rounder, x, n reg.VecPhysical, s Op) { VADDPD(n, x, x) },
		func(x, n, s, one reg.VecPhysical) { VADDPS(n, x, x) }},
	{"Noise", true, // rn(x + rn(rn(n) s))
		func(r *rounder, x, n reg.VecPhysical, s Op) {
			r.round(n)
			VMULPD(s, n, n)
			r.round(n)
			VADDPD(n, x, x)
		},
		func(x, n, s, one reg.VecPhysical) {
			VMULPS(s, n, n)
			VADDPS(n, x, x)
		}},
	{"Modulate", true, // rn(x rn(1 + rn(rn(n) s)))
		func(r *rounder, x, n reg.VecPhysical, s Op) {
			r.round(n)
			VMULPD(s, n, n)
			r.round(n)
			VADDPD(r.float(1), n, n)
			r.round(n)
			VMULPD(n, x, x)
		},
		func(x, n, s, one reg.VecPhysical) {
			VMULPS(s, n, n)
			VADDPS(one, n, n)
			VMULPS(n, x, x)
		}},
	{"Mul", true, // rn(x n)
		func(r *rounder, x, n reg.VecPhysical, s Op) { VMULPD(n, x, x) },
		func(x, n, s, one reg.VecPhysical) { VMULPS(n, x, x) }},
	{"Scale", false, // rn(x s)
		func(r *rounder, x, n reg.VecPhysical, s Op) { VMULPD(s, x, x) },
		func(x, n, s, one reg.VecPhysical) { VMULPS(s, x, x) }},
	{"Shift", false, // rn(x + s)
		func(r *rounder, x, n reg.VecPhysical, s Op) { VADDPD(s, x, x) },
		func(x, n, s, one reg.VecPhysical) { VADDPS(s, x, x) }},
	{"Divide", false, // rn(x / s)
		func(r *rounder, x, n reg.VecPhysical, s Op) { VDIVPD(s, x, x) },
		func(x, n, s, one reg.VecPhysical) { VDIVPS(s, x, x) }},
	{"Most", false, // of x and s: x if they are equal or x is NaN
		func(r *rounder, x, n reg.VecPhysical, s Op) { VMAXPD(x, s.(reg.VecPhysical), x) },
		func(x, n, s, one reg.VecPhysical) { VMAXPS(x, s, x) }},
	{"Least", false,
		func(r *rounder, x, n reg.VecPhysical, s Op) { VMINPD(x, s.(reg.VecPhysical), x) },
		func(x, n, s, one reg.VecPhysical) { VMINPS(x, s, x) }},
	{"Leak", false, // of rn(x s) and x the greater, x if they are equal or one is NaN
		func(r *rounder, x, n reg.VecPhysical, s Op) {
			VMULPD(s, x, n)
			VMAXPD(x, n, x)
		},
		func(x, n, s, one reg.VecPhysical) {
			VMULPS(s, x, n)
			VMAXPS(x, n, x)
		}},
	{"Round", false, // rn(x)
		func(r *rounder, x, n reg.VecPhysical, s Op) {}, nil},
}

const rowSignature = "func(dst, x, n *float32, pixels int, s *[8]float32, grid *float64)"

// grid writes the operation for a format that asm.NoiseGrid describes.
func (o rowOperation) grid(i isa) {
	name := "row" + o.name + "Grid" + i.name
	dst, px, pn, pixels, ps := o.begin(name)
	x, n, s := i.wide[0], i.wide[1], i.wide[2]
	r := &rounder{isa: i, rounding: roundGrid, t: i.wide[3], u: i.wide[4],
		low: i.wide[6], high: i.wide[7], lift: i.wide[8], up: i.wide[9], down: i.wide[10]}
	grid := Load(Param("grid"), GP64()).(reg.GPVirtual)
	for k, v := range []reg.VecPhysical{r.low, r.high, r.lift, r.up, r.down} {
		VBROADCASTSD(Mem{Base: grid, Disp: 8 * k}, v)
	}
	Label("loop" + name)
	for h := range i.halves() {
		VCVTPS2PD(i.halfPixel(px, h), x)
		if o.second {
			VCVTPS2PD(i.halfPixel(pn, h), n)
		}
		VCVTPS2PD(i.halfPixel(ps, h), s)
		o.wide(r, x, n, s)
		r.round(x)
		r.canonical(x)
		i.toFloat32(x, i.half[0])
		VMOVUPS(i.half[0], i.halfPixel(dst, h))
	}
	o.end(name, dst, px, pn, pixels)
}

// single writes the operation for float32 numbers, in eight lanes of AVX2.
func (o rowOperation) single() {
	name := "row" + o.name + "Float32AVX2"
	dst, px, pn, pixels, ps := o.begin(name)
	x, n, s, one, nan, is := reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5
	VMOVUPS(Mem{Base: ps}, s)
	bits := GP32()
	for k, to := range []reg.VecPhysical{one, nan} {
		MOVL(U32([]uint32{0x3f800000, 0x7fc00000}[k]), bits)
		VMOVD(bits, reg.X0)
		VPBROADCASTD(reg.X0, to)
	}
	row := GP64() // in bytes
	MOVQ(pixels, row)
	SHLQ(Imm(5), row)
	Label("loop" + name)
	VMOVUPS(Mem{Base: px}, x)
	if o.second {
		VMOVUPS(Mem{Base: pn}, n)
		PREFETCHT1(Mem{Base: pn, Index: row, Scale: 1}) // of the next row: the other image is far
	}
	o.narrow(x, n, s, one)
	const unordered = 3
	VCMPPS(Imm(unordered), x, x, is)
	VBLENDVPS(is, nan, x, x)
	VMOVUPS(x, Mem{Base: dst})
	o.end(name, dst, px, pn, pixels)
}

func (o rowOperation) begin(name string) (dst, x, n, pixels, s reg.GPVirtual) {
	TEXT(name, NOSPLIT, rowSignature)
	Pragma("noescape")
	Doc(name + " applies an operation: see asm/rows.go.")
	load := func(p string) reg.GPVirtual { return Load(Param(p), GP64()).(reg.GPVirtual) }
	if o.second {
		n = load("n")
	}
	return load("dst"), load("x"), n, load("pixels"), load("s")
}

func (o rowOperation) end(name string, dst, x, n, pixels reg.GPVirtual) {
	ADDQ(Imm(32), x)
	if o.second {
		ADDQ(Imm(32), n)
	}
	ADDQ(Imm(32), dst)
	DECQ(pixels)
	JNZ(LabelRef("loop" + name))
	VZEROUPPER()
	RET()
}
