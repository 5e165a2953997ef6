package main

import (
	"fmt"

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
// with bias and guard, with n the form's side:
//
//	m       the tile's and outputs' place in [n*n][tiles][2*lanes]
//	point   bytes from a point to the next
//	k       the tile's norm
//	table   [16][8] N, then [8] bias, then [8] u|bias|
//	dst     first pixel of the 4x4 outputs, float32, 8 channels a pixel
//	line    bytes from a line of pixels to the next
//	flags   16 bytes, a bit for each channel that the guard leaves open
//	scratch 4*n vectors
func output(i isa, o form, f format) {
	name := "winograd" + o.name + "Output" + f.name + i.name
	TEXT(name, NOSPLIT, "func(m *float64, point int, k float64, table *float64, dst *float32, line int, "+
		"flags *uint8, scratch *float64)")
	Pragma("noescape")
	Doc(name + " transforms one tile's outputs and rounds them: see asm/winograd.go.")
	m := Load(Param("m"), GP64()).(reg.GPVirtual)
	point := Load(Param("point"), GP64()).(reg.GPVirtual)
	table := Load(Param("table"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	flags := Load(Param("flags"), GP64()).(reg.GPVirtual)
	scratch := Load(Param("scratch"), GP64()).(reg.GPVirtual)
	v, n := i.vector(), o.side()
	// Registers 0 to 10 are outputLine's.
	const k, lo, hi, t, e = 11, 12, 13, 14, 15
	w := i.wide
	bits, norms := GP32(), GP64()
	MOVQ(table, norms)
	VBROADCASTSD(mustParam("k"), w[k])
	from, to, left, step := GP64(), GP64(), GP64(), GP64()
	bias, least := Op(Mem{Base: table, Disp: 16 * 64}), Op(Mem{Base: table, Disp: 17 * 64})
	if i.lanes == 8 {
		bias, least = w[16], w[17]
		VMOVUPD(Mem{Base: table, Disp: 16 * 64}, bias)
		VMOVUPD(Mem{Base: table, Disp: 17 * 64}, least)
	}
	i.hold(18, len(i.wide), o.outputConstants()...)
	defer release()
	IMUL3Q(U32(uint32(n)), point, step)
	for h := range i.halves() {
		loop := fmt.Sprint(name, h)
		LEAQ(Mem{Base: m, Disp: h * v}, from)
		i.outputColumns(o, loop, h == 0, from, scratch, to, left, point, step)
		// Rows, from scratch.
		MOVQ(scratch, from)
		MOVQ(dst, to)
		MOVQ(U32(4), left)
		Label(loop + "rows")
		for x := range n {
			VMOVUPD(Mem{Base: from, Disp: x * v}, w[1+x])
		}
		for x, r := range i.outputLine(o) {
			if h > 0 {
				bias, least = Mem{Base: table, Disp: 16*64 + h*v}, Mem{Base: table, Disp: 17*64 + h*v}
			}
			VMOVUPD(least, w[e])
			VFMADD231PD(Mem{Base: norms, Disp: 64*x + h*v}, w[k], w[e])
			VADDPD(bias, r, r)
			VSUBPD(w[e], r, w[lo])
			VADDPD(w[e], r, w[hi])
			i.roundPair(f, lo, hi, e, t, bits)
			if f.name != "Float32" {
				i.narrow(lo)
			}
			flag := Mem{Base: flags, Disp: x}
			if h == 0 {
				MOVB(bits.As8(), flag)
			} else {
				SHLL(Imm(uint64(h*i.lanes)), bits)
				ORB(bits.As8(), flag)
			}
			VMOVUPS(i.half[lo], Mem{Base: to, Disp: 32*x + h*v/2})
		}
		if h == 0 { // the outputs of the tile after the next
			PREFETCHT0(Mem{Base: to, Disp: 256})
			PREFETCHT0(Mem{Base: to, Disp: 256 + 64})
		}
		ADDQ(U32(uint32(n*v)), from)
		ADDQ(mustParam("line"), to)
		ADDQ(U32(256), norms)
		ADDQ(Imm(4), flags)
		DECQ(left)
		JNZ(LabelRef(loop + "rows"))
		if h+1 < i.halves() {
			SUBQ(Imm(16), flags)
			MOVQ(table, norms)
		}
	}
	VZEROUPPER()
	RET()
}

// wideOutput is output without a guard: what the transform and the bias give, in
// float64.
//
//	m       the tile's and outputs' place in [n*n][tiles][2*lanes]
//	point   bytes from a point to the next
//	bias    [8]
//	dst     first pixel of the 4x4 outputs, float64, 8 channels a pixel
//	line    bytes from a line of pixels to the next
//	scratch 4*n vectors
func wideOutput(i isa, o form) {
	name := "winograd" + o.name + "WideOutput" + i.name
	TEXT(name, NOSPLIT, "func(m *float64, point int, bias, dst *float64, line int, scratch *float64)")
	Pragma("noescape")
	Doc(name + " transforms one tile's outputs: see asm/winograd.go.")
	m := Load(Param("m"), GP64()).(reg.GPVirtual)
	point := Load(Param("point"), GP64()).(reg.GPVirtual)
	bias := Load(Param("bias"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	scratch := Load(Param("scratch"), GP64()).(reg.GPVirtual)
	v, n, w := i.vector(), o.side(), i.wide
	from, to, left, step := GP64(), GP64(), GP64(), GP64()
	i.hold(18, len(i.wide), o.outputConstants()...)
	defer release()
	IMUL3Q(U32(uint32(n)), point, step)
	for h := range i.halves() {
		loop := fmt.Sprint(name, h)
		LEAQ(Mem{Base: m, Disp: h * v}, from)
		i.outputColumns(o, loop, false, from, scratch, to, left, point, step)
		MOVQ(scratch, from)
		MOVQ(dst, to)
		MOVQ(U32(4), left)
		Label(loop + "rows")
		for x := range n {
			VMOVUPD(Mem{Base: from, Disp: x * v}, w[1+x])
		}
		for x, r := range i.outputLine(o) {
			VADDPD(Mem{Base: bias, Disp: h * v}, r, r)
			VMOVUPD(r, Mem{Base: to, Disp: 64*x + h*v})
		}
		ADDQ(U32(uint32(n*v)), from)
		ADDQ(line, to)
		DECQ(left)
		JNZ(LabelRef(loop + "rows"))
	}
	VZEROUPPER()
	RET()
}

// outputColumns transforms the columns of products at from, step bytes from one
// row of points to the next, to scratch; ahead asks for the next tile's.
func (i isa) outputColumns(o form, loop string, ahead bool, from, scratch, to, left, point, step reg.GPVirtual) {
	v, n := i.vector(), o.side()
	MOVQ(scratch, to)
	MOVQ(U32(uint32(n)), left)
	in := newRows(n, from, step)
	Label(loop + "columns")
	for y := range n {
		i.load(in.at(y, 0), i.wide[1+y])
		if ahead {
			PREFETCHT0(in.at(y, 2*v))
		}
	}
	for y, r := range i.outputLine(o) {
		i.load(r, Mem{Base: to, Disp: n * y * v})
	}
	for _, p := range in.base {
		ADDQ(point, p)
	}
	ADDQ(Imm(uint64(v)), to)
	DECQ(left)
	JNZ(LabelRef(loop + "columns"))
}

// outputLine returns A^T of the registers from 1 on; 0 is scratch. With d_+-l
// the numbers at the points +-p_l, s_l = d_+l + d_-l and t_l = d_+l - d_-l,
//
//	r0 = d_0 + sum of s_l          r1 = sum of p_l t_l
//	r2 = sum of p_l^2 s_l          r3 = d_infinity + sum of p_l^3 t_l,
//
// from the last to the first, r0 from the first to the last: k+1 roundings deep
// each. Of three rows r2 is the last one, with d_infinity; without the point 0 there is no
// d_0.
func (i isa) outputLine(f form) []reg.VecPhysical {
	d, free := i.wide[1:], i.wide[0]
	first, last := f.first(), len(f.points)-1
	s, t := make([]reg.VecPhysical, last+1), make([]reg.VecPhysical, last+1)
	for l := range f.points {
		plus, minus := d[first+2*l], d[first+2*l+1]
		i.add(minus, plus, free)
		i.sub(minus, plus, minus)
		s[l], t[l], free = free, minus, plus
	}
	zero, infinity := d[0], d[f.side()-1]
	if first == 0 {
		zero = d[f.side()]
		i.copy(s[0], zero)
	}
	for l := 1 - first; l <= last; l++ {
		i.add(s[l], zero, zero)
	}
	rows := []reg.VecPhysical{zero, free, s[last], infinity}[:f.tile]
	rows[f.tile-1] = infinity
	term := func(l, row int) (Op, reg.VecPhysical) {
		p := f.points[l]
		return i.float([]float64{1, p, p * p, p * p * p}[row]), [][]reg.VecPhysical{s, t}[row%2][l]
	}
	for row := 1; row < f.tile-1; row++ {
		c, d := term(last, row)
		i.mul(c, d, rows[row])
	}
	for l := last; l >= 0; l-- {
		c, d := term(l, f.tile-1)
		i.fma(c, d, infinity)
		for row := 1; row < f.tile-1 && l < last; row++ {
			c, d := term(l, row)
			i.fma(c, d, rows[row])
		}
	}
	return rows
}
