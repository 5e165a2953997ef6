package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// winograd writes all kernels of asm.Winograd.
func winograd() {
	for _, i := range []isa{avx512, avx2} {
		t := newTable(i, "winograd"+i.name+"Constants")
		t.floats(a, b, a*a, b*b, a*a+b*b, a*a*b*b, a*a*a, b*b*b)
		t.roundings()
		input(i)
		multiply(i)
		output(i, float32Out)
		output(i, float16Out)
		output(i, bfloat16Out)
		dot(i)
	}
	packLine()
	unpackTile()
}

// The interpolation points of F(4x4,3x3) beside 0 and infinity: +-a and +-b.
const (
	a = 5.0 / 8
	b = 13.0 / 8
)

// rows are pointers to six lines at equal distance: base, and base + 3 lines.
type rows struct {
	base, third, step reg.GPVirtual
}

func sixRows(base, step reg.GPVirtual) rows {
	third := GP64()
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, third)
	ADDQ(base, third)
	return rows{base, third, step}
}

// at returns the address of line i, 0 to 5, displaced by disp.
func (r rows) at(i, disp int) Mem {
	m := Mem{Base: r.base, Disp: disp}
	if i >= 3 {
		m.Base, i = r.third, i-3
	}
	if i > 0 {
		m.Index, m.Scale = r.step, uint8(i)
	}
	return m
}

// input is the input transform of one tile, B^T d B for 8 channels at a time:
//
//	src     first pixel of the 6x6 window of channel block 0, float32, 8 channels a pixel
//	line    bytes from a line of pixels to the next
//	image   bytes from a channel block to the next
//	dst     the tile's place in [blocks][36][tiles][8]
//	blocks  channel blocks, 1 or more
//	scratch 36 vectors
func input(i isa) {
	TEXT("winogradInput"+i.name, NOSPLIT, "func(src *float32, line, image int, dst *float64, blocks int, scratch *float64)")
	Pragma("noescape")
	Doc("winogradInput" + i.name + " transforms the window of one tile: see asm/winograd.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	image := Load(Param("image"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	scratch := Load(Param("scratch"), GP64()).(reg.GPVirtual)
	v := i.vector()
	Label("input" + i.name)
	in := sixRows(src, line)
	for h := range i.halves() {
		for x := range 6 {
			for y := range 6 {
				VCVTPS2PD(in.at(y, 32*x+h*v/2), i.wide[y])
			}
			i.inputLine()
			for y := range 6 {
				VMOVUPD(i.wide[6+y], Mem{Base: scratch, Disp: (6*y + x) * v})
			}
		}
		for y := range 6 {
			for x := range 6 {
				VMOVUPD(Mem{Base: scratch, Disp: (6*y + x) * v}, i.wide[x])
			}
			i.inputLine()
			for x := range 6 {
				VMOVUPD(i.wide[6+x], Mem{Base: dst, Disp: (6*y+x)*i.plane() + h*v})
			}
		}
	}
	ADDQ(image, src)
	ADDQ(U32(uint32(36*i.plane())), dst)
	DECQ(blocks)
	JNZ(LabelRef("input" + i.name))
	VZEROUPPER()
	RET()
}

// plane is the bytes of one point of a block of channels and a group of tiles.
func (i isa) plane() int { return 64 * i.tiles }

// product is the bytes of one point of a group of tiles and of outputs.
func (i isa) product() int { return i.tiles * 2 * i.vector() }

// inputLine sets registers 6 to 11 to B^T of registers 0 to 5: the values of
// the polynomial's cofactors at 0, a, -a, b, -b and infinity,
//
//	r0 = d4 - (a^2+b^2) d2 + a^2 b^2 d0     r5 = d5 - (a^2+b^2) d3 + a^2 b^2 d1
//	r1, r2 = (d4 - b^2 d2) +- a (d3 - b^2 d1)
//	r3, r4 = (d4 - a^2 d2) +- b (d3 - a^2 d1)
//
// two roundings deep each.
func (i isa) inputLine() {
	d, r := i.wide[:6], i.wide[6:12]
	s, q := i.float(a*a+b*b), i.float(a*a*b*b)
	VMOVAPD(d[4], r[0])
	VMOVAPD(d[4], r[1])
	VMOVAPD(d[4], r[3])
	VMOVAPD(d[5], r[5])
	VFNMADD231PD(s, d[2], r[0])
	VFNMADD231PD(i.float(b*b), d[2], r[1])
	VFNMADD231PD(i.float(a*a), d[2], r[3])
	VFNMADD231PD(s, d[3], r[5])
	VMOVAPD(d[3], d[2]) // d2 is done
	VFNMADD231PD(i.float(b*b), d[1], d[2])
	VFNMADD231PD(i.float(a*a), d[1], d[3])
	VFMADD231PD(q, d[0], r[0])
	VFMADD231PD(q, d[1], r[5])
	VMOVAPD(r[1], r[2])
	VMOVAPD(r[3], r[4])
	VFMADD231PD(i.float(a), d[2], r[1])
	VFNMADD231PD(i.float(a), d[2], r[2])
	VFMADD231PD(i.float(b), d[3], r[3])
	VFNMADD231PD(i.float(b), d[3], r[4])
}

func mustParam(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// multiply is the multiplication of one point: m = v u, the channels added in
// order by fused multiply-adds from zero.
//
//	v       the point's place in [groups][blocks][36][tiles][8], the transformed windows
//	u       [blocks*8][2*lanes], the transformed weights of 2*lanes outputs
//	m       the point's place in [groups][36][tiles][2*lanes]
func multiply(i isa) {
	TEXT("winogradMultiply"+i.name, NOSPLIT, "func(v, u, m *float64, blocks, groups int)")
	Pragma("noescape")
	Doc("winogradMultiply" + i.name + " multiplies at one point: see asm/winograd.go.")
	v := Load(Param("v"), GP64()).(reg.GPVirtual)
	m := Load(Param("m"), GP64()).(reg.GPVirtual)
	groups := Load(Param("groups"), GP64()).(reg.GPVirtual)
	u, steps := GP64(), GP64()
	sum := i.wide[:2*i.tiles]
	w := i.wide[2*i.tiles : 2*i.tiles+2]
	x := i.wide[2*i.tiles+2:]
	n := i.vector()

	Label("group" + i.name)
	MOVQ(mustParam("u"), u)
	MOVQ(mustParam("blocks"), steps)
	for _, s := range sum {
		VXORPD(s, s, s)
	}
	Label("block" + i.name)
	for c := range 8 {
		VMOVUPD(Mem{Base: u, Disp: 2 * c * n}, w[0])
		VMOVUPD(Mem{Base: u, Disp: (2*c + 1) * n}, w[1])
		for t := range i.tiles {
			xt := x[t%len(x)]
			VBROADCASTSD(Mem{Base: v, Disp: 64*t + 8*c}, xt)
			VFMADD231PD(xt, w[0], sum[2*t])
			VFMADD231PD(xt, w[1], sum[2*t+1])
		}
	}
	ADDQ(U32(uint32(36*i.plane())), v)
	ADDQ(U32(uint32(16*n)), u)
	DECQ(steps)
	JNZ(LabelRef("block" + i.name))
	for s, r := range sum {
		VMOVUPD(r, Mem{Base: m, Disp: s * n})
	}
	ADDQ(U32(uint32(36*i.product())), m)
	DECQ(groups)
	JNZ(LabelRef("group" + i.name))
	VZEROUPPER()
	RET()
}
