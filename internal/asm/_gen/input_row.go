package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// inputRow is one row of points of the windows of tiles side by side, of one channel
// block: the operations of input, and nothing in memory between columns and rows.
// Windows overlap: of each only the 4 columns that the one before does not have are
// transformed, where there are registers to keep the others.
//
//	src     first pixel of the first nxn window, float32, 8 channels a pixel
//	next    the same of the call after it, to be asked for in advance
//	line    bytes from a line of pixels to the next
//	dst     the first tile's place in [n][blocks][tiles][8]
//	point   bytes from a point to the next
//	tiles   1 or more
//	row     of points
func inputRow(i isa, f form) {
	name := "winograd" + f.name + "InputRow" + i.name
	TEXT(name, NOSPLIT, "func(src, next *float32, line int, dst *float64, point, tiles, row int)")
	Pragma("noescape")
	Doc(name + " transforms one row of the windows of some tiles: see asm/winograd.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	next := Load(Param("next"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	point := Load(Param("point"), GP64()).(reg.GPVirtual)
	row := Load(Param("row"), GP64()).(reg.GPVirtual)
	from, to, at, left := GP64(), GP64(), GP64(), GP64()
	n, v := f.side(), i.vector()
	shared, last := n-4, len(i.wide) // columns of two windows
	if n+shared+4 > last {
		shared = 0
	}
	kept := i.wide[last-shared:]
	free := i.wide[n:min(16, last-shared)]
	i.hold(16, last-shared, f.inputConstants()...)
	defer release()
	for r := range n {
		CMPQ(row, U32(uint32(r)))
		JE(LabelRef(fmt.Sprint(name, "row", r)))
	}
	for r := range n {
		loop := fmt.Sprint(name, "row", r)
		Label(loop)
		for h := range i.halves() {
			MOVQ(src, from)
			MOVQ(dst, to)
			MOVQ(mustParam("tiles"), left)
			in := newRows(n, from, line)
			var ahead rows
			if h == 0 {
				ahead = newRows(n, next, line)
			}
			column := func(x int, z reg.VecPhysical) {
				i.inputRowOf(f, r, z, free, func(y int) Op { return in.at(y, 32*x+h*v/2) })
			}
			for x, z := range kept {
				column(x, z)
			}
			tile := fmt.Sprint(loop, "tile", h)
			Label(tile)
			for x := shared; x < n; x++ {
				column(x, i.wide[x])
			}
			if h == 0 {
				for _, y := range f.inputLines(r) {
					PREFETCHT0(ahead.at(y, 0))
					PREFETCHT0(ahead.at(y, 64))
				}
			}
			for x, z := range kept {
				VMOVAPD(z, i.wide[x])
			}
			for x, z := range kept {
				VMOVAPD(i.wide[4+x], z)
			}
			LEAQ(Mem{Base: to, Disp: h * v}, at)
			i.inputLine(f, free, func(_ int, z reg.VecPhysical) { // one after another
				VMOVUPD(z, Mem{Base: at})
				PREFETCHT0(Mem{Base: at, Disp: 4 * 64}) // four tiles on
				ADDQ(point, at)
			})
			for _, p := range append(in.base, ahead.base...) {
				ADDQ(U32(128), p)
			}
			ADDQ(Imm(64), to)
			DECQ(left)
			JNZ(LabelRef(tile))
		}
		VZEROUPPER()
		RET()
	}
}

// inputLines are the numbers that number r of inputLine is made of.
func (f form) inputLines(r int) (all []int) {
	n := f.side()
	for y := range n {
		switch {
		case r == 0 && y%2 == 0, r == n-1 && y%2 == 1, 0 < r && r < n-1 && 0 < y && y < n-1:
			all = append(all, y)
		}
	}
	return all
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
