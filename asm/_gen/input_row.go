package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// inputRow is one row of points of input: the same operations for those, and
// nothing in memory between columns and rows.
//
//	src     first pixel of the nxn window of channel block 0, float32, 8 channels a pixel
//	line    bytes from a line of pixels to the next
//	image   bytes from a channel block to the next
//	dst     the tile's place in [n][blocks][tiles][8]
//	point   bytes from a point to the next
//	blocks  channel blocks, 1 or more
//	row     of points
func inputRow(i isa, f form) {
	name := "winograd" + f.name + "InputRow" + i.name
	TEXT(name, NOSPLIT, "func(src *float32, line, image int, dst *float64, point, blocks, row int)")
	Pragma("noescape")
	Doc(name + " transforms one row of the window of one tile: see asm/winograd.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	image := Load(Param("image"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	point := Load(Param("point"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	row := Load(Param("row"), GP64()).(reg.GPVirtual)
	to := GP64()
	n, v := f.side(), i.vector()
	i.hold(16, f.inputConstants()...)
	defer release()
	for r := range n {
		CMPQ(row, U32(uint32(r)))
		JE(LabelRef(fmt.Sprint(name, "row", r)))
	}
	for r := range n {
		loop := fmt.Sprint(name, "row", r)
		Label(loop)
		in := newRows(n, src, line)
		for h := range i.halves() {
			for x := range n {
				i.inputRowOf(f, r, i.wide[x], i.wide[n:16], func(y int) Op { return in.at(y, 32*x+h*v/2) })
			}
			MOVQ(dst, to)
			i.inputLine(f, func(_ int, z reg.VecPhysical) { // one after another
				VMOVUPD(z, Mem{Base: to, Disp: h * v})
				ADDQ(point, to)
			})
		}
		ADDQ(image, src)
		ADDQ(U32(uint32(i.plane())), dst)
		DECQ(blocks)
		JNZ(LabelRef(loop))
		VZEROUPPER()
		RET()
	}
}

// inputRowOf leaves number r of inputLine in z, of float32 numbers in memory.
func (i isa) inputRowOf(f form, r int, z reg.VecPhysical, free []reg.VecPhysical, d func(y int) Op) {
	next := 0
	sum := func(c []float64, from int, v reg.VecPhysical) {
		j := len(c) - 1
		VCVTPS2PD(d(from+2*j), v)
		for j--; j >= 0; j-- {
			x := free[2+next%(len(free)-2)]
			next++
			VCVTPS2PD(d(from+2*j), x)
			if c[j] < 0 {
				VFNMADD231PD(i.float(-c[j]), x, v)
			} else {
				VFMADD231PD(i.float(c[j]), x, v)
			}
		}
	}
	switch all := f.others(-1); r {
	case 0:
		sum(all, 0, z)
	case f.side() - 1:
		sum(all, 1, z)
	default:
		l := (r - 1) / 2
		odd := free[0]
		sum(f.others(l), 1, odd)
		sum(f.others(l), 2, z)
		if r%2 == 1 {
			VFMADD231PD(i.float(f.points[l]), odd, z)
		} else {
			VFNMADD231PD(i.float(f.points[l]), odd, z)
		}
	}
}
