package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// format is a number format that outputs are rounded to.
type format struct {
	name       string
	p          int
	emin, emax int
}

var (
	float32Out  = format{"Float32", 24, -126, 127}
	float16Out  = format{"Float16", 11, -14, 15}
	bfloat16Out = format{"BFloat16", 8, -126, 127}
)

// Of the float64 bits of a number: those below the format's last one, just
// less than half of that one, the least normal number, and from it to the
// greatest.
func (f format) drop() int     { return 53 - f.p }
func (f format) last() uint64  { return 1<<f.drop() - 1 }
func (f format) half() uint64  { return f.last() >> 1 }
func (f format) least() uint64 { return uint64(f.emin+1023) << 52 }
func (f format) span() uint64  { return uint64(f.emax+1024)<<52 - f.last() - 1 - f.least() }

// output is the output transform of one tile for 8 output channels, A^T m A,
// with bias and guard.
//
//	m       the tile's and outputs' place in [36][tiles][2*lanes]
//	k       the tile's norm
//	table   [16][8] N, then [8] bias, then [8] u|bias|
//	dst     first pixel of the 4x4 outputs, float32, 8 channels a pixel
//	line    bytes from a line of pixels to the next
//	flags   16 bytes, a bit for each channel that the guard leaves open
//	scratch 24 vectors
func output(i isa, f format) {
	name := "winogradOutput" + f.name + i.name
	TEXT(name, NOSPLIT, "func(m *float64, k float64, table *float64, dst *float32, line int, flags *uint8, scratch *float64)")
	Pragma("noescape")
	Doc(name + " transforms one tile's outputs and rounds them: see asm/winograd.go.")
	m := Load(Param("m"), GP64()).(reg.GPVirtual)
	table := Load(Param("table"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	flags := Load(Param("flags"), GP64()).(reg.GPVirtual)
	scratch := Load(Param("scratch"), GP64()).(reg.GPVirtual)
	v := i.vector()
	d, r := i.wide[:6], i.wide[6:10]
	k, lo, hi, e := i.wide[10], i.wide[11], i.wide[12], i.wide[13]
	bits := GP32()
	for h := range i.halves() {
		for x := range 6 {
			for y := range 6 {
				VMOVUPD(Mem{Base: m, Disp: (6*y+x)*i.product() + h*v}, d[y])
			}
			i.outputLine(d, r)
			for y := range 4 {
				VMOVUPD(r[y], Mem{Base: scratch, Disp: (6*y + x) * v})
			}
		}
		VBROADCASTSD(mustParam("k"), k)
		line := GP64()
		MOVQ(dst, line)
		for y := range 4 {
			for x := range 6 {
				VMOVUPD(Mem{Base: scratch, Disp: (6*y + x) * v}, d[x])
			}
			i.outputLine(d, r)
			for x := range 4 {
				VMOVUPD(Mem{Base: table, Disp: 17*64 + h*v}, e)
				VFMADD231PD(Mem{Base: table, Disp: (4*y+x)*64 + h*v}, k, e)
				VADDPD(Mem{Base: table, Disp: 16*64 + h*v}, r[x], r[x])
				VSUBPD(e, r[x], lo)
				VADDPD(e, r[x], hi)
				i.roundPair(f, 11, 12, 15, 14, bits)
				if f.name != "Float32" {
					i.narrow(11)
				}
				flag := Mem{Base: flags, Disp: 4*y + x}
				if h == 0 {
					MOVB(bits.As8(), flag)
				} else {
					SHLL(Imm(uint64(h*i.lanes)), bits)
					ORB(bits.As8(), flag)
				}
				VMOVUPS(i.half[11], Mem{Base: line, Disp: 32*x + h*v/2})
			}
			if y < 3 {
				ADDQ(mustParam("line"), line)
			}
		}
	}
	VZEROUPPER()
	RET()
}

// outputLine sets r to A^T of d:
//
//	r0 = d0 + (d1+d2) + (d3+d4)              r1 = a (d1-d2) + b (d3-d4)
//	r2 = a^2 (d1+d2) + b^2 (d3+d4)           r3 = a^3 (d1-d2) + b^3 (d3-d4) + d5
//
// three roundings deep each.
func (i isa) outputLine(d, r []reg.VecPhysical) {
	s, t := i.wide[14], i.wide[15]
	VADDPD(d[2], d[1], s) // d1+d2
	VSUBPD(d[2], d[1], d[1])
	VADDPD(d[4], d[3], t) // d3+d4
	VSUBPD(d[4], d[3], d[3])
	VADDPD(s, d[0], r[0])
	VADDPD(t, r[0], r[0])
	VMULPD(i.float(b), d[3], r[1])
	VFMADD231PD(i.float(a), d[1], r[1])
	VMULPD(i.float(b*b), t, r[2])
	VFMADD231PD(i.float(a*a), s, r[2])
	VMOVAPD(d[5], r[3])
	VFMADD231PD(i.float(b*b*b), d[3], r[3])
	VFMADD231PD(i.float(a*a*a), d[1], r[3])
}
