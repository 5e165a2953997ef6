package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// channels writes the kernels of asm.Channels.
func channels() {
	for _, i := range []isa{avx512, avx2} {
		newTable(i, "channels"+i.name+"Constants").words(math.MaxInt64)
		channelsConvolve(i)
	}
}

// channelsConvolve convolves pixels of 8 channels, each channel by itself:
//
//	src    where the first pixel reads its first tap
//	step   bytes from what a pixel reads to what the next one does
//	taps   of each of n taps, 1 or more, the bytes from the first
//	w      [n][2][8]: weights, and their magnitudes
//	table  [3][8]: biases, their magnitudes, and the error of a sum in parts of the magnitudes' sum
//	dst    pixels of 8 float32 numbers, 1 or more
//	open   a byte for each pixel, a bit for each lane that the guard leaves open
//	any    the bits of open, combined
//
// Four pixels are computed side by side, and the last ones singly.
func channelsConvolve(i isa) {
	name := "channelsConvolve" + i.name
	TEXT(name, NOSPLIT, "func(src *float32, step int, taps *int, n int, w, table *float64, "+
		"dst *float32, pixels int, open *uint8) (any uint64)")
	Pragma("noescape")
	Doc(name + " convolves channel by channel: see asm/channels.go.")
	load := func(p string) reg.GPVirtual { return Load(Param(p), GP64()).(reg.GPVirtual) }
	src, step, table := load("src"), load("step"), load("table")
	dst, left, open := load("dst"), load("pixels"), load("open")
	some, w, tap, n, at, third, bits, nans := GP64(), GP64(), GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	abs := i.wide[15]
	VMOVUPD(i.bits(math.MaxInt64), abs)
	XORQ(some, some)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, third)
	for _, size := range []int{4, 1} {
		group, next := fmt.Sprint("group", size, name), "end"+name
		if size > 1 {
			next = "group1" + name
		}
		Label(group)
		CMPQ(left, Imm(uint64(size)))
		JL(LabelRef(next))
		for h := range i.halves() {
			sums, sizes, x := i.wide[:size], i.wide[4:4+size], i.wide[8:8+size]
			for p := range size {
				VXORPD(sums[p], sums[p], sums[p])
				VXORPD(sizes[p], sizes[p], sizes[p])
			}
			MOVQ(mustParam("w"), w)
			MOVQ(mustParam("taps"), tap)
			MOVQ(mustParam("n"), n)
			loop := fmt.Sprintf("tap%d_%d%s", size, h, name)
			Label(loop)
			MOVQ(Mem{Base: tap}, at)
			ADDQ(src, at)
			for p := range size {
				half := h * i.vector() / 2
				VCVTPS2PD([]Mem{{Base: at, Disp: half}, {Base: at, Index: step, Scale: 1, Disp: half},
					{Base: at, Index: step, Scale: 2, Disp: half}, {Base: at, Index: third, Scale: 1, Disp: half}}[p], x[p])
				VFMADD231PD(Mem{Base: w, Disp: h * i.vector()}, x[p], sums[p])
				VANDPD(abs, x[p], x[p])
				VFMADD231PD(Mem{Base: w, Disp: 64 + h*i.vector()}, x[p], sizes[p])
			}
			ADDQ(Imm(8), tap)
			ADDQ(U32(128), w)
			DECQ(n)
			JNZ(LabelRef(loop))
			of := func(k int) Mem { return Mem{Base: table, Disp: 64*k + h*i.vector()} }
			for p := range size {
				y, e, hi := sums[p], sizes[p], x[p]
				VADDPD(of(0), y, y)
				VADDPD(of(1), e, e)
				VMULPD(of(2), e, e)
				i.nans(y, hi, nans)
				VADDPD(e, y, hi)
				VSUBPD(e, y, y)
				i.decideRow(float32Out, y, hi, abs, bits.As32())
				VMOVUPS(i.lower(y), Mem{Base: dst, Disp: 32*p + h*i.vector()/2})
				ORQ(nans, bits)
				flag := Mem{Base: open, Disp: p}
				if h == 0 {
					MOVB(bits.As8(), flag)
				} else {
					SHLL(Imm(uint64(h*i.lanes)), bits.As32())
					ORB(bits.As8(), flag)
				}
				ORQ(bits, some)
			}
		}
		if size > 1 {
			LEAQ(Mem{Base: src, Index: step, Scale: 4}, src)
		} else {
			ADDQ(step, src)
		}
		ADDQ(U32(uint32(32*size)), dst)
		ADDQ(Imm(uint64(size)), open)
		SUBQ(Imm(uint64(size)), left)
		JMP(LabelRef(group))
	}
	Label("end" + name)
	VZEROUPPER()
	Store(some, ReturnIndex(0))
	RET()
}
