package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// outputRow is the first half of the output transform for one row of points, m A,
// of some tiles and a group of outputs:
//
//	m       [n][tiles][2*lanes]
//	point   bytes from a point to the next
//	y       [4][tiles][2*lanes]
//	column  bytes from one of the 4 to the next
//	tiles   1 or more
func outputRow(i isa, f form) {
	name := "winograd" + f.name + "OutputRow" + i.name
	TEXT(name, NOSPLIT, "func(m *float64, point int, y *float64, column, tiles int)")
	Pragma("noescape")
	Doc(name + " transforms one row of the products of some tiles: see asm/winograd.go.")
	load := func(p string) reg.GPVirtual { return Load(Param(p), GP64()).(reg.GPVirtual) }
	m, point, y, column, tiles := load("m"), load("point"), load("y"), load("column"), load("tiles")
	n, v := f.side(), i.vector()
	from, to := newRows(n, m, point), newRows(4, y, column)
	i.hold(16, len(i.wide), f.outputConstants()...)
	defer release()
	Label(name)
	for h := range 2 {
		for x := range n {
			VMOVUPD(from.at(x, h*v), i.wide[1+x])
		}
		for x, r := range i.outputLine(f) {
			VMOVUPD(r, to.at(x, h*v))
			PREFETCHT1(to.at(x, 12*v+h*v)) // six tiles on
		}
	}
	for _, p := range append(from.base, to.base...) {
		ADDQ(U32(uint32(2*v)), p)
	}
	DECQ(tiles)
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// outputColumns is the second half for one tile and 8 output channels, A^T y, with
// bias and guard:
//
//	y       the tile's and outputs' place in [n][4][tiles][2*lanes], rows of outputRow
//	row     bytes from a row of points to the next
//	column  bytes from a column of pixels to the next
//	k, table, dst, line, flags  as output's
func outputColumns(i isa, o form, f format) {
	name := "winograd" + o.name + "OutputColumns" + f.name + i.name
	TEXT(name, NOSPLIT,
		"func(y *float64, row, column int, k float64, table *float64, dst *float32, line int, flags *uint8)")
	Pragma("noescape")
	Doc(name + " transforms one tile's outputs and rounds them: see asm/winograd.go.")
	load := func(p string) reg.GPVirtual { return Load(Param(p), GP64()).(reg.GPVirtual) }
	y, row, column, table, dst, line, flags := load("y"), load("row"), load("column"), load("table"), load("dst"),
		load("line"), load("flags")
	v, n, w := i.vector(), o.side(), i.wide
	// Registers 0 to 10 are outputLine's.
	const k, lo, hi, t, e = 11, 12, 13, 14, 15
	bits, at := GP32(), GP64()
	VBROADCASTSD(mustParam("k"), w[k])
	bias := func(h int) Op { return Mem{Base: table, Disp: 16*64 + h*v} }
	least := func(h int) Op { return Mem{Base: table, Disp: 17*64 + h*v} }
	first := 16
	if i.lanes == 8 {
		VMOVUPD(bias(0), w[16])
		VMOVUPD(least(0), w[17])
		bias, least = func(int) Op { return w[16] }, func(int) Op { return w[17] }
		first = 18
	}
	i.hold(first, len(i.wide), o.outputConstants()...)
	defer release()
	to := newRows(4, dst, line)
	for x := range 4 {
		MOVQ(y, at)
		from := newRows(n, at, row)
		for h := range i.halves() {
			for r := range n {
				VMOVUPD(from.at(r, h*v), w[1+r])
				if h == 0 {
					PREFETCHT1(from.at(r, 6*v)) // the third tile's after it
				}
			}
			for r, z := range i.outputLine(o) {
				VMOVUPD(least(h), w[e])
				VFMADD231PD(Mem{Base: table, Disp: 64*(4*r+x) + h*v}, w[k], w[e])
				VADDPD(bias(h), z, z)
				VSUBPD(w[e], z, w[lo])
				VADDPD(w[e], z, w[hi])
				i.roundPair(f, lo, hi, e, t, bits)
				if f.name != "Float32" {
					i.narrow(lo)
				}
				flag := Mem{Base: flags, Disp: 4*r + x}
				if h == 0 {
					MOVB(bits.As8(), flag)
				} else {
					SHLL(Imm(uint64(h*i.lanes)), bits)
					ORB(bits.As8(), flag)
				}
				VMOVUPS(i.half[lo], to.at(r, 32*x+h*v/2))
			}
		}
		ADDQ(column, y)
	}
	for r := range 4 { // the outputs of the tile after the next
		PREFETCHT1(to.at(r, 512))
		PREFETCHT1(to.at(r, 512+64))
	}
	VZEROUPPER()
	RET()
}
