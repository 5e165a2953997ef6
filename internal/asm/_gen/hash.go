package main

import (
	"math/big"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// hashes writes the kernel of Hash, for SHA-NI and AVX's forms of the other instructions. Two
// rounds of a hash wait four cycles for the two before; those of the other hash go in between.
func hashes() {
	k := GLOBL("hashRounds", RODATA|NOPTR)
	for i, w := range hashWords() {
		DATA(4*i, U32(w))
	}
	flip := GLOBL("hashFlip", RODATA|NOPTR) // a word's bytes in the other order
	for i := range 4 {
		DATA(4*i, U32(0x00010203+0x04040404*uint32(i)))
	}
	hash("hashTwoSHANI", k, flip)
}

// hashWords are the words of FIPS 180-4, 4.2.2: the first 32 bits of the fractions of the cube
// roots of the first 64 primes.
func hashWords() (all []uint32) {
	for p := uint64(2); len(all) < 64; p++ {
		prime := true
		for d := uint64(2); d*d <= p; d++ {
			prime = prime && p%d != 0
		}
		if !prime {
			continue
		}
		// The largest r with r^3 <= p 2^96, of at most 35 bits.
		most := new(big.Int).Lsh(new(big.Int).SetUint64(p), 96)
		var r uint64
		for bit := 34; bit >= 0; bit-- {
			try := new(big.Int).SetUint64(r | 1<<bit)
			if new(big.Int).Exp(try, big.NewInt(3), nil).Cmp(most) <= 0 {
				r |= 1 << bit
			}
		}
		all = append(all, uint32(r))
	}
	return all
}

// hash takes two hashes over n blocks of 64 bytes each.
func hash(name string, k, flip Mem) {
	TEXT(name, NOSPLIT, "func(state *[2][8]uint32, p, q *byte, n int)")
	Pragma("noescape")
	Doc(name + " is Hash.Two: see asm/hash.go.")
	state := Load(Param("state"), GP64()).(reg.GPVirtual)
	from := [2]reg.GPVirtual{Load(Param("p"), GP64()).(reg.GPVirtual), Load(Param("q"), GP64()).(reg.GPVirtual)}
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	x := xmm()
	wk, t := x[0], x[13]
	m := [2][]reg.VecPhysical{x[1:5], x[5:9]}
	s := [2][2]reg.VecPhysical{{x[9], x[10]}, {x[11], x[12]}} // a, b, e, f and c, d, g, h, from above
	half := func(lane, k int) Mem { return Mem{Base: state, Disp: 32*lane + 16*k} }
	for lane, r := range s {
		VPSHUFD(Imm(0xb1), half(lane, 0), t)
		VPSHUFD(Imm(0x1b), half(lane, 1), r[1])
		VPALIGNR(Imm(8), r[1], t, r[0])
		VPBLENDW(Imm(0xf0), t, r[1], r[1])
	}
	Label("block")
	for lane, r := range s {
		VMOVDQU(r[0], half(lane, 0)) // to be added in the end
		VMOVDQU(r[1], half(lane, 1))
	}
	for i := range 16 { // four rounds
		for lane, p := range from {
			w := func(k int) reg.VecPhysical { return m[lane][(i+k)%4] }
			if i < 4 {
				VMOVDQU(Mem{Base: p, Disp: 16 * i}, w(0))
				VPSHUFB(flip, w(0), w(0))
				continue
			}
			SHA256MSG1(w(1), w(0))
			VPALIGNR(Imm(4), w(2), w(3), t)
			VPADDD(t, w(0), w(0))
			SHA256MSG2(w(3), w(0))
		}
		for pair := range 2 {
			for lane, r := range s {
				VPADDD(k.Offset(16*i), m[lane][i%4], wk)
				if pair == 1 {
					VPSHUFD(Imm(0x0e), wk, wk)
				}
				SHA256RNDS2(reg.X0, r[pair], r[1-pair])
			}
		}
	}
	for lane, r := range s {
		VPADDD(half(lane, 0), r[0], r[0])
		VPADDD(half(lane, 1), r[1], r[1])
		ADDQ(Imm(64), from[lane])
	}
	DECQ(n)
	JNZ(LabelRef("block"))
	for lane, r := range s {
		VPSHUFD(Imm(0x1b), r[0], t)
		VPSHUFD(Imm(0xb1), r[1], r[1])
		VPBLENDW(Imm(0xf0), r[1], t, r[0])
		VPALIGNR(Imm(8), t, r[1], r[1])
		VMOVDQU(r[0], half(lane, 0))
		VMOVDQU(r[1], half(lane, 1))
	}
	RET()
}
