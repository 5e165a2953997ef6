package main

import (
	mathbits "math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var float64Out = format{name: "Float64", p: 53}

// direct writes all kernels of asm.Direct.
func direct() {
	for _, i := range []isa{avx512, avx2} {
		newTable(i, "direct"+i.name+"Constants").roundings()
		for _, f := range []format{float32Out, float16Out, bfloat16Out, float64Out} {
			directOutputs(i, f)
		}
		directAdd(i)
		directAddLine(i, 1)
		directAddLine(i, 4)
		directWiden(i)
		for _, f := range []format{float32Out, float16Out, bfloat16Out} {
			directRound(i, f)
		}
	}
	addSquares()
	sumSquares()
}

// block of the direct kernel: outputs by vectors of pixels.
func (i isa) outputs() int { return map[int]int{8: 8, 4: 4}[i.lanes] }

const vectors = 3

// directOutputs computes outputs() channels of 3 vectors of pixels:
//
//	src     the first pixel's place at the first tap
//	taps    for each tap the bytes from there
//	n       number of taps
//	w       [n][outputs]
//	table   bias [outputs], slope [outputs], e [outputs]
//	window  [pixels]
//	out     [outputs][pixels]
//	flags   [outputs][3], a bit for each pixel left open
//
// Taps are added in order from zero, by fused multiply-adds; for float64 the
// products are rounded first. Then comes the bias. The guard's bound is
// slope*window + e; a float64 output is open if it is NaN.
func directOutputs(i isa, f format) {
	name := "direct" + f.name + i.name
	TEXT(name, NOSPLIT, "func(src *float64, taps *int, n int, w, table, window, out *float64, flags *uint8)")
	Pragma("noescape")
	Doc(name + " convolves directly: see asm/direct.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	taps := Load(Param("taps"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	w := Load(Param("w"), GP64()).(reg.GPVirtual)
	rows, v := i.outputs(), i.vector()
	sum := func(o, x int) reg.VecPhysical { return i.wide[o*vectors+x] }
	free := i.wide[rows*vectors:]
	for _, r := range i.wide[:rows*vectors] {
		VXORPD(r, r, r)
	}
	at := GP64()
	Label("taps" + name)
	MOVQ(Mem{Base: taps}, at)
	ADDQ(src, at)
	if f.name == "Float64" && i.lanes == 4 {
		// One vector of pixels after the other leaves room for the products.
		for x := range vectors {
			VMOVUPD(Mem{Base: at, Disp: x * v}, free[0])
			for o := range rows {
				VBROADCASTSD(Mem{Base: w, Disp: 8 * o}, free[1+o%3])
				VMULPD(free[0], free[1+o%3], free[1+o%3])
				VADDPD(free[1+o%3], sum(o, x), sum(o, x))
			}
		}
	} else {
		for x := range vectors {
			VMOVUPD(Mem{Base: at, Disp: x * v}, free[x])
		}
		for o := range rows {
			k := free[vectors+o%(len(free)-vectors)]
			if f.name == "Float64" {
				k = free[vectors+o%2]
			}
			VBROADCASTSD(Mem{Base: w, Disp: 8 * o}, k)
			for x := range vectors {
				if f.name == "Float64" {
					p := free[vectors+2+x]
					VMULPD(free[x], k, p)
					VADDPD(p, sum(o, x), sum(o, x))
				} else {
					VFMADD231PD(free[x], k, sum(o, x))
				}
			}
		}
	}
	ADDQ(Imm(8), taps)
	ADDQ(Imm(uint64(8*rows)), w)
	DECQ(n)
	JNZ(LabelRef("taps" + name))

	table := Load(Param("table"), GP64()).(reg.GPVirtual)
	window := Load(Param("window"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	flags := Load(Param("flags"), GP64()).(reg.GPVirtual)
	bits := GP32()
	lo, hi, s, t := len(i.wide)-4, len(i.wide)-3, len(i.wide)-2, len(i.wide)-1
	if i.lanes == 8 {
		lo, hi, s, t = 28, 29, 30, 31
	}
	for o := range rows {
		for x := range vectors {
			y := sum(o, x)
			VBROADCASTSD(Mem{Base: table, Disp: 8 * o}, i.wide[s])
			VADDPD(i.wide[s], y, y)
			if f.name == "Float64" {
				i.unordered(y, i.wide[lo], bits)
				VMOVUPD(y, Mem{Base: out, Disp: (o*vectors + x) * v})
			} else {
				VBROADCASTSD(Mem{Base: table, Disp: 8 * (rows + o)}, i.wide[s])
				VBROADCASTSD(Mem{Base: table, Disp: 8 * (2*rows + o)}, i.wide[hi])
				VFMADD231PD(Mem{Base: window, Disp: x * v}, i.wide[s], i.wide[hi])
				VSUBPD(i.wide[hi], y, i.wide[lo])
				VADDPD(i.wide[hi], y, i.wide[hi])
				i.roundPair(f, lo, hi, s, t, bits)
				if f.name == "Float32" {
					VCVTPS2PD(i.half[lo], i.wide[lo])
				}
				VMOVUPD(i.wide[lo], Mem{Base: out, Disp: (o*vectors + x) * v})
			}
			MOVB(bits.As8(), Mem{Base: flags, Disp: o*vectors + x})
		}
	}
	VZEROUPPER()
	RET()
}

// addLines is how much memory directAdd asks for: asm.AddAhead numbers.
const addLines = 12

// directAdd adds outputs() sums of products for 3 vectors of pixels:
//
//	src   [n][pixels]
//	w     [n][outputs]
//	n     1 or more
//	sums  [outputs][pixels]
//	next  memory to be asked for, addLines cache lines
//
// The products are added in order from zero, by fused multiply-adds, and what they
// come to is added to sums.
func directAdd(i isa) {
	name := "directAdd" + i.name
	TEXT(name, NOSPLIT, "func(src, w *float64, n int, sums *float64, next *float32)")
	Pragma("noescape")
	Doc(name + " adds sums of products: see asm/direct.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	w := Load(Param("w"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	sums := Load(Param("sums"), GP64()).(reg.GPVirtual)
	rows, v := i.outputs(), i.vector()
	next := Load(Param("next"), GP64()).(reg.GPVirtual)
	for line := range addLines {
		PREFETCHT1(Mem{Base: next, Disp: 64 * line})
	}
	all, free := i.wide[:rows*vectors], i.wide[rows*vectors:]
	for _, r := range all {
		VXORPD(r, r, r)
	}
	Label(name)
	for x := range vectors {
		VMOVUPD(Mem{Base: src, Disp: x * v}, free[x])
	}
	for o := range rows {
		k := free[vectors+o%(len(free)-vectors)]
		VBROADCASTSD(Mem{Base: w, Disp: 8 * o}, k)
		for x := range vectors {
			VFMADD231PD(free[x], k, all[o*vectors+x])
		}
	}
	ADDQ(U32(uint32(vectors*v)), src)
	ADDQ(Imm(uint64(8*rows)), w)
	DECQ(n)
	JNZ(LabelRef(name))
	for x, r := range all {
		VADDPD(Mem{Base: sums, Disp: x * v}, r, r)
		VMOVUPD(r, Mem{Base: sums, Disp: x * v})
	}
	VZEROUPPER()
	RET()
}

// directAddLine adds the sums of products of one output for so many times 3 vectors of pixels:
//
//	src   panels, step bytes apart, of [n][pixels] float32 numbers
//	w     [n][outputs], of which the first is read
//	n     1 or more
//	sums  panels of [pixels], each where directAdd has the first of its outputs
//
// The products are added in the order of directAdd.
func directAddLine(i isa, panels int) {
	name, rows, v := "directAddLine"+i.name, i.outputs(), i.vector()
	if panels > 1 {
		name = "directAddLines" + i.name
	}
	TEXT(name, NOSPLIT, "func(src *float32, step int, w *float64, n int, sums *float64)")
	Pragma("noescape")
	Doc(name + " adds sums of products of one output: see asm/direct.go.")
	src := []reg.Register{Load(Param("src"), GP64())}
	if panels > 1 {
		step := Load(Param("step"), GP64())
		for p := range panels - 1 {
			at := GP64()
			MOVQ(src[p], at)
			ADDQ(step, at)
			src = append(src, at)
		}
	}
	w, n, sums := Load(Param("w"), GP64()), Load(Param("n"), GP64()), Load(Param("sums"), GP64())
	all, k, t := i.wide[:panels*vectors], i.wide[panels*vectors], i.wide[panels*vectors+1:]
	for _, r := range all {
		VXORPD(r, r, r)
	}
	Label(name)
	VBROADCASTSD(Mem{Base: w}, k)
	for p, at := range src {
		for x := range vectors {
			u := t[(p*vectors+x)%3]
			VCVTPS2PD(Mem{Base: at, Disp: x * v / 2}, u)
			VFMADD231PD(u, k, all[p*vectors+x])
		}
	}
	for _, at := range src {
		ADDQ(U32(uint32(vectors*v/2)), at)
	}
	ADDQ(Imm(uint64(8*rows)), w)
	DECQ(n)
	JNZ(LabelRef(name))
	for x, r := range all {
		at := Mem{Base: sums, Disp: x/vectors*rows*vectors*v + x%vectors*v}
		VADDPD(at, r, r)
		VMOVUPD(r, at)
	}
	VZEROUPPER()
	RET()
}

// directRound finishes outputs() sums for 3 vectors of pixels:
//
//	sums    [outputs][pixels]
//	slope   [outputs]
//	window  [pixels]
//	dst     the first output's pixels; line the bytes from there to the next's
//	flags   [outputs][3], a bit for each pixel left open
//	any     the bits of flags, combined
//
// The guard's bound is slope*window.
func directRound(i isa, f format) {
	name := "directRound" + f.name + i.name
	TEXT(name, NOSPLIT, "func(sums, slope, window, dst *float64, line int, flags *uint8) (any uint64)")
	Pragma("noescape")
	Doc(name + " rounds sums: see asm/direct.go.")
	sums := Load(Param("sums"), GP64()).(reg.GPVirtual)
	slope := Load(Param("slope"), GP64()).(reg.GPVirtual)
	window := Load(Param("window"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	flags := Load(Param("flags"), GP64()).(reg.GPVirtual)
	bits, some := GP32(), GP64()
	XORQ(some, some)
	const lo, hi, s, t, k = 0, 1, 2, 3, 4
	v := i.vector()
	below := GP64() // the tile below is next
	MOVQ(line, below)
	SHLQ(Imm(uint64(mathbits.TrailingZeros(uint(i.outputs())))), below)
	ADDQ(dst, below)
	for o := range i.outputs() {
		for at := 0; at < vectors*v; at += 64 {
			PREFETCHT0(Mem{Base: below, Disp: at})
		}
		ADDQ(line, below)
		VBROADCASTSD(Mem{Base: slope, Disp: 8 * o}, i.wide[k])
		for x := range vectors {
			VMULPD(Mem{Base: window, Disp: x * v}, i.wide[k], i.wide[hi])
			VMOVUPD(Mem{Base: sums, Disp: (o*vectors + x) * v}, i.wide[lo])
			VADDPD(i.wide[hi], i.wide[lo], i.wide[s])
			VSUBPD(i.wide[hi], i.wide[lo], i.wide[lo])
			VMOVAPD(i.wide[s], i.wide[hi])
			i.roundPair(f, lo, hi, s, t, bits)
			if f.name == "Float32" {
				VCVTPS2PD(i.half[lo], i.wide[lo])
			}
			VMOVUPD(i.wide[lo], Mem{Base: dst, Disp: x * v})
			MOVB(bits.As8(), Mem{Base: flags, Disp: o*vectors + x})
			ORL(bits, some.As32())
		}
		ADDQ(line, dst)
	}
	VZEROUPPER()
	Store(some, ReturnIndex(0))
	RET()
}

// directWiden makes float64 numbers of n float32 numbers, a multiple of 3 vectors.
func directWiden(i isa) {
	name := "directWiden" + i.name
	TEXT(name, NOSPLIT, "func(dst *float64, src *float32, n int)")
	Pragma("noescape")
	Doc(name + " converts numbers: see asm/direct.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	v := i.vector()
	Label(name)
	for x := range vectors {
		VCVTPS2PD(Mem{Base: src, Disp: x * v / 2}, i.wide[x])
		VMOVUPD(i.wide[x], Mem{Base: dst, Disp: x * v})
	}
	ADDQ(U32(uint32(vectors*v/2)), src)
	ADDQ(U32(uint32(vectors*v)), dst)
	SUBQ(U32(uint32(vectors*i.lanes)), n)
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// unordered sets a bit for each lane that is NaN.
func (i isa) unordered(y, t reg.VecPhysical, bits reg.GPVirtual) {
	if i.lanes == 8 {
		VCMPPD(Imm(3), y, y, reg.K1)
		KMOVB(reg.K1, bits)
		return
	}
	VCMPPD(Imm(3), y, y, t)
	VMOVMSKPD(t, bits)
}
