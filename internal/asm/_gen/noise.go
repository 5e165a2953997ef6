package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// noise writes all kernels of asm.Noise.
func noise() {
	for _, i := range []isa{avx512, avx2} {
		noiseConstants(i)
		draw(i, "Normal", "variance float64", 4, func(w *words) {
			x, y := w.boxMuller(w.x[0], w.x[1])
			z, t := w.boxMuller(w.x[2], w.x[3])
			w.store(x, y, z, t)
		})
		draw(i, "Exponential", "", 2, func(w *words) {
			x := w.exponential(w.x[0], w.x[1])
			w.store(x, w.exponential(w.x[2], w.x[3]))
		})
		draw(i, "Bernoulli", "below uint64", 4, func(w *words) {
			w.store(w.below(w.x[0]), w.below(w.x[1]), w.below(w.x[2]), w.below(w.x[3]))
		})
		draw(i, "Exact", "", 6, func(w *words) {
			w.exact(w.negLog(w.x[0], w.x[1]), 0)
			sin, cos := w.sinCos(w.x[1])
			w.exact(sin, 1)
			w.exact(cos, 2)
			w.exact(w.negLog(w.x[2], w.x[3]), 3)
			sin, cos = w.sinCos(w.x[3])
			w.exact(sin, 4)
			w.exact(cos, 5)
		})
		for _, r := range []rounding{roundNot, roundFloat32, roundGrid} {
			applyNoise(i, r)
		}
	}
	torchNormal(avx2)
	twist(avx2)
	temper(avx2)
}

// The polynomials of package noise, highest power first, each in the square of
// its argument.
var (
	logP = []float64{1. / 19, 1. / 17, 1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3}
	sinP = []float64{-1. / 1307674368000, 1. / 6227020800, -1. / 39916800, 1. / 362880, -1. / 5040, 1. / 120, -1. / 6}
	cosP = []float64{1. / 20922789888000, -1. / 87178291200, 1. / 479001600, -1. / 3628800, 1. / 40320, -1. / 720,
		1. / 24, -1. / 2, 1}
)

const (
	// The bits of 2^53 or'ed with j < 2^52 are 2^53 + 2j; less 2^53 - 1 that is
	// 2j + 1, exactly.
	oddBits  = 0x434 << 52
	oddFloat = 1<<53 - 1
	// In the same way 2^52 + 41 less 2^52 + e is 41 - e.
	countBits  = 0x433 << 52
	countFloat = 1<<52 + 41

	rootHalf  = 0x3fe6a09e667f3bcd // bits of sqrt(1/2), rounded to nearest
	angleStep = math.Pi * 0x1p-24
	one       = 0x3ff << 52
	sign      = 1 << 63
	infinity  = 0x7ff << 52
	quietNaN  = 0x7ff8 << 48
)

var philoxMultipliers = [2]uint64{0xd2511f53, 0xcd9e8d57}

// noiseConstants lays down the constants of all kernels: vectors with one
// number in every lane, and the orders of blocks.
func noiseConstants(i isa) {
	t := newTable(i, "noise"+i.name+"Constants")
	t.floats(logP...)
	t.floats(sinP...)
	t.floats(cosP...)
	t.floats(oddFloat, countFloat, math.Ln2, angleStep, -1, 0, 0x1p1023)
	t.words(philoxMultipliers[:]...)
	t.words(oddBits, countBits, rootHalf, uint64(i.lanes), 1<<52-1, 1<<32-1, 1<<21-1, 1<<21, 1<<22,
		sign, sign-1, infinity, quietNaN)
	if i.lanes == 4 {
		torchConstants(t)
		twisterConstants(t)
	}
	blockOrders[i.name] = map[int]int{}
	for _, numbers := range []int{4, 2, 6} {
		blockOrders[i.name][numbers] = t.next
		for _, b := range i.blockOrder(numbers) {
			DATA(t.next, U64(b))
			t.next += 8
		}
	}
}

// blockOrders is where the orders stand, by instruction set and numbers of a
// block.
var blockOrders = map[string]map[int]int{}

// blockOrder says which block of its group a lane forms, such that store finds
// the numbers of two halves of a register in order.
func (i isa) blockOrder(numbers int) []uint64 {
	switch {
	case i.lanes == 4:
		return []uint64{0, 1, 2, 3}
	case numbers == 4:
		return []uint64{0, 2, 4, 6, 1, 3, 5, 7}
	case numbers == 2:
		return []uint64{0, 1, 4, 5, 2, 3, 6, 7}
	}
	return []uint64{0, 1, 2, 3, 4, 5, 6, 7}
}

// draw writes a kernel that makes numbers of the words of consecutive blocks:
//
//	dst     the numbers, float64
//	groups  groups of blocks, one to a lane, 1 or more
//	place   asm.Philox: ten pairs of keys, then the counter of the first block
func draw(i isa, name, parameter string, perBlock int, numbers func(*words)) {
	name = "noise" + name + i.name
	TEXT(name, NOSPLIT, "func(dst *float64, groups int, place *uint32, "+parameter+")")
	Pragma("noescape")
	Doc(name + " draws: see asm/noise.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	groups := Load(Param("groups"), GP64()).(reg.GPVirtual)
	place := Load(Param("place"), GP64()).(reg.GPVirtual)
	if i.lanes == 8 {
		mask := GP32()
		MOVL(U32(0x5555), mask)
		KMOVW(mask, reg.K1) // the low halves
	}
	c := i.wide[15]
	VPBROADCASTD(counterWord(place, 0), c)
	VPADDQ(tables[i.name].mem.Offset(blockOrders[i.name][perBlock]), c, c)
	Label("loop" + name)
	w := &words{isa: i, free: append([]reg.VecPhysical{}, i.wide[:15]...), dst: dst}
	w.philox(c, place)
	VPADDQ(i.bits(uint64(i.lanes)), c, c)
	numbers(w)
	ADDQ(U32(uint32(8*perBlock*i.lanes)), dst)
	DECQ(groups)
	JNZ(LabelRef("loop" + name))
	VZEROUPPER()
	RET()
}

func counterWord(place reg.GPVirtual, k int) Mem { return Mem{Base: place, Disp: 80 + 4*k} }

// words are the words x0 to x3 of a group of Philox blocks, a block to each
// lane, in the low halves of 64 bits; the high halves are anything.
type words struct {
	isa
	x    [4]reg.VecPhysical
	free []reg.VecPhysical // registers that may be written
	dst  reg.GPVirtual
}

func (w *words) take() reg.VecPhysical {
	r := w.free[0]
	w.free = w.free[1:]
	return r
}

func (w *words) give(r ...reg.VecPhysical) { w.free = append(w.free, r...) }

// philox sets x to the words of the blocks c, c1, c2, c3 (package noise,
// philox). Products need the low halves only, and everything else is bitwise,
// so what gathers in the high halves does no harm.
func (w *words) philox(c reg.VecPhysical, place reg.GPVirtual) {
	x := [4]reg.VecPhysical{w.take(), w.take(), w.take(), w.take()}
	p, q := w.take(), w.take()
	w.move(c, x[0])
	for k := 1; k < 4; k++ {
		VPBROADCASTD(counterWord(place, k), x[k])
	}
	for round := range 10 {
		VPMULUDQ(w.bits(philoxMultipliers[0]), x[0], p)
		VPMULUDQ(w.bits(philoxMultipliers[1]), x[2], q)
		VPSRLQ(Imm(32), q, x[0])
		w.mix(x[1], Mem{Base: place, Disp: 8 * round}, x[0])
		VPSRLQ(Imm(32), p, x[2])
		w.mix(x[3], Mem{Base: place, Disp: 8*round + 4}, x[2])
		x[1], x[3], p, q = q, p, x[3], x[1]
	}
	w.give(p, q)
	w.x = x
}

// mix sets x to x ^ y ^ key.
func (w *words) mix(y reg.VecPhysical, key Mem, x reg.VecPhysical) {
	if w.lanes == 8 {
		VPTERNLOGD_BCST(Imm(0x96), key, y, x)
		return
	}
	k := w.take()
	VPBROADCASTD(key, k)
	VPXOR(y, x, x)
	VPXOR(k, x, x)
	w.give(k)
}

// boxMuller returns two registers of normals, with the words a and b: package
// noise, boxMuller. It gives a and b back.
func (w *words) boxMuller(a, b reg.VecPhysical) (x, y reg.VecPhysical) {
	r := w.negLog(a, b)
	v := w.take()
	VBROADCASTSD(mustParam("variance"), v)
	VMULPD(v, r, r)
	VSQRTPD(r, r)
	w.give(v)
	sin, cos := w.sinCos(b)
	VMULPD(r, cos, cos)
	VMULPD(r, sin, sin)
	w.give(r)
	return cos, sin
}

// exponential returns E of the words a and b, and gives them back.
func (w *words) exponential(a, b reg.VecPhysical) reg.VecPhysical {
	e := w.negLog(a, b)
	w.give(b)
	return e
}

// negLog returns E of the words a and b: package noise, negLog. It gives a back
// and keeps b. The exponent e is not negative, as n is at least 1, so a logical
// shift will do.
func (w *words) negLog(a, b reg.VecPhysical) reg.VecPhysical {
	n := a
	VPSLLQ(Imm(32), a, n)
	if w.lanes == 8 {
		VMOVDQA32(b, reg.K1, n)
	} else {
		VPBLENDD(Imm(0x55), b, n, n)
	}
	VPSRLQ(Imm(24), n, n) // m
	w.or(w.bits(oddBits), n, n)
	VSUBPD(w.float(oddFloat), n, n) // 2m+1

	e, s, t := w.take(), w.take(), w.take()
	VPSUBQ(w.bits(rootHalf), n, n)
	VPSRLQ(Imm(52), n, e)
	w.and(w.bits(1<<52-1), n, n)
	VPADDQ(w.bits(rootHalf), n, n) // f
	VADDPD(w.float(-1), n, s)
	VADDPD(w.float(1), n, n)
	VDIVPD(n, s, s)
	w.or(w.bits(countBits), e, e)
	w.move(w.float(countFloat), t)
	VSUBPD(e, t, e) // 41-e
	z, y := n, t
	VMULPD(s, s, z)
	w.horner(logP, z, y)
	VADDPD(s, s, s) // t
	VMULPD(y, z, y)
	VMULPD(y, s, y)
	VADDPD(y, s, y) // log
	VMULPD(w.float(math.Ln2), e, e)
	VSUBPD(y, e, e)
	w.give(n, s, t)
	return e
}

// horner sets y to the polynomial p in z, highest power first.
func (w *words) horner(p []float64, z, y reg.VecPhysical) {
	VMULPD(w.float(p[0]), z, y)
	for k, c := range p[1:] {
		if k > 0 {
			VMULPD(z, y, y)
		}
		VADDPD(w.float(c), y, y)
	}
}

// sinCos returns sine and cosine of the angle of word b: package noise, sinCos.
// It gives b back. Bit 21 of b says that the octant is odd, bit 22 of b + 2^21
// that the two are swapped, bit 23 of b that the sine is negative and bit 23 of
// b + 2^22 that the cosine is.
func (w *words) sinCos(b reg.VecPhysical) (sin, cos reg.VecPhysical) {
	x, z, s, c := w.take(), w.take(), w.take(), w.take()
	VPSLLD(Imm(10), b, x)
	VPSRAD(Imm(31), x, x)
	w.xor(b, x, x)
	w.and(w.bits(1<<21-1), x, x) // j
	w.or(w.bits(oddBits), x, x)
	VSUBPD(w.float(oddFloat), x, x)
	VMULPD(w.float(angleStep), x, x)
	VMULPD(x, x, z)
	w.horner(sinP, z, s)
	VMULPD(s, z, s)
	VMULPD(s, x, s)
	VADDPD(s, x, s)
	w.horner(cosP, z, c)

	sin, cos = x, z
	t := w.take()
	VPADDQ(w.bits(1<<21), b, t)
	if w.lanes == 8 {
		VPTESTMQ(w.bits(1<<22), t, reg.K2)
		VBLENDMPD(c, s, reg.K2, sin)
		VBLENDMPD(s, c, reg.K2, cos)
	} else {
		VPSLLQ(Imm(41), t, t)
		VBLENDVPD(t, c, s, sin)
		VBLENDVPD(t, s, c, cos)
	}
	VPSLLQ(Imm(40), b, t)
	w.flip(t, sin)
	VPADDQ(w.bits(1<<22), b, t)
	VPSLLQ(Imm(40), t, t)
	w.flip(t, cos)
	w.give(b, s, c, t)
	return sin, cos
}

// flip negates x where t has its highest bit set; it spoils t.
func (w *words) flip(t, x reg.VecPhysical) {
	if w.lanes == 8 {
		VPTERNLOGQ(Imm(0x78), w.bits(sign), t, x) // x ^ (t & sign)
		return
	}
	VPAND(w.bits(sign), t, t)
	VPXOR(t, x, x)
}

// below sets word x to 1 where it is less than the parameter, else to 0, as
// float64: the difference is negative or it is not.
func (w *words) below(x reg.VecPhysical) reg.VecPhysical {
	t := w.take()
	w.and(w.bits(1<<32-1), x, x)
	VPBROADCASTQ(mustParam("below"), t)
	VPSUBQ(t, x, x)
	VPSRLQ(Imm(63), x, x)
	w.xor(t, t, t)
	VPSUBQ(x, t, x)
	w.and(w.bits(one), x, x)
	w.give(t)
	return x
}

// exact stores a register as vector k, and gives it back.
func (w *words) exact(x reg.VecPhysical, k int) {
	VMOVUPD(x, Mem{Base: w.dst, Disp: k * w.vector()})
	w.give(x)
}

// store rounds two or four registers to float32 and stores the numbers as
// float64, those of a lane together. A register of floats holds two halves of
// lanes, and those are what a widened register gets, hence blockOrder.
func (w *words) store(x ...reg.VecPhysical) {
	half := func(r reg.VecPhysical) reg.VecPhysical { return w.half[w.index(r)] }
	for _, r := range x {
		w.toFloat32(r, half(r))
	}
	// Pairs of numbers: of the lower two lanes of each half, of the upper two.
	rows := func(a, b reg.VecPhysical) (lo, hi reg.VecPhysical) {
		t := w.take()
		w.give(b)
		VUNPCKLPS(half(b), half(a), half(t))
		VUNPCKHPS(half(b), half(a), half(a))
		return t, a
	}
	lo, hi := rows(x[0], x[1])
	out := []reg.VecPhysical{lo, hi}
	if len(x) == 4 {
		lo2, hi2 := rows(x[2], x[3])
		out = nil
		for _, p := range [][2]reg.VecPhysical{{lo, lo2}, {hi, hi2}} {
			t := w.take()
			VUNPCKLPD(half(p[1]), half(p[0]), half(t))
			VUNPCKHPD(half(p[1]), half(p[0]), half(p[0]))
			out = append(out, t, p[0])
		}
	}
	for k, r := range out {
		VCVTPS2PD(half(r), r)
		VMOVUPD(r, Mem{Base: w.dst, Disp: k * w.vector()})
	}
}

// index returns the number of a register.
func (i isa) index(r reg.VecPhysical) int {
	for n, x := range i.wide {
		if x == r {
			return n
		}
	}
	panic("not a register of " + i.name)
}

// toFloat32 rounds float64 numbers to float32.
func (i isa) toFloat32(x, half reg.VecPhysical) {
	if i.lanes == 8 {
		VCVTPD2PS(x, half)
	} else {
		VCVTPD2PSY(x, half)
	}
}

// move copies a register or a constant to a register.
func (i isa) move(x Op, dst reg.VecPhysical) { VMOVUPD(x, dst) }

// and, or and xor set dst to a bitwise function of x and y.
func (i isa) and(x Op, y, dst reg.VecPhysical) {
	if i.lanes == 8 {
		VPANDQ(x, y, dst)
	} else {
		VPAND(x, y, dst)
	}
}

func (i isa) or(x Op, y, dst reg.VecPhysical) {
	if i.lanes == 8 {
		VPORQ(x, y, dst)
	} else {
		VPOR(x, y, dst)
	}
}

func (i isa) xor(x Op, y, dst reg.VecPhysical) {
	if i.lanes == 8 {
		VPXORQ(x, y, dst)
	} else {
		VPXOR(x, y, dst)
	}
}
