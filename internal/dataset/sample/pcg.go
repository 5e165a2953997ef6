package sample

import "math/bits"

// pcg is numpy's default generator: PCG64 with the output function XSL-RR (M. O'Neill,
// "PCG: A family of simple fast space-efficient statistically good algorithms", 2014).
// That of math/rand/v2 has another output function.
type pcg struct {
	hi, lo       uint64
	incHi, incLo uint64
	kept         uint64 // the upper half of an output, of which the lower one is used
	half         bool
}

// newPCG returns numpy.random.default_rng(seed), or, unless it is legacy, its first
// child, which scipy takes of an argument rng.
func newPCG(seed uint64, legacy bool) *pcg {
	entropy := []uint32{uint32(seed)}
	if seed>>32 != 0 {
		entropy = append(entropy, uint32(seed>>32))
	}
	if !legacy {
		for len(entropy) < poolSize {
			entropy = append(entropy, 0)
		}
		entropy = append(entropy, 0) // the child's number
	}
	w := seedSequence(entropy)
	p := &pcg{incHi: w[2]<<1 | w[3]>>63, incLo: w[3]<<1 | 1}
	p.step()
	var carry uint64
	p.lo, carry = bits.Add64(p.lo, w[1], 0)
	p.hi, _ = bits.Add64(p.hi, w[0], carry)
	p.step()
	return p
}

func (p *pcg) step() {
	const mulHi, mulLo = 0x2360ed051fc65da4, 0x4385df649fccf645
	hi, lo := bits.Mul64(p.lo, mulLo)
	hi += p.hi*mulLo + p.lo*mulHi
	var carry uint64
	p.lo, carry = bits.Add64(lo, p.incLo, 0)
	p.hi, _ = bits.Add64(hi, p.incHi, carry)
}

// bit returns integers(2): the top bit of the next 32, of which an output has two, the
// lower half first.
func (p *pcg) bit() uint64 {
	if p.half = !p.half; !p.half {
		return p.kept >> 63
	}
	p.step()
	p.kept = bits.RotateLeft64(p.hi^p.lo, -int(p.hi>>58))
	return p.kept >> 31 & 1
}

// poolSize is the number of words in which numpy's SeedSequence mixes its entropy.
const poolSize = 4

// seedSequence returns the first four outputs of 64 bits of numpy's SeedSequence, after
// M. O'Neill's seed_seq_fe.
func seedSequence(entropy []uint32) (out [4]uint64) {
	h := uint32(0x43b0d7e5)
	hash := func(v uint32) uint32 {
		v ^= h
		h *= 0x931e8875
		v *= h
		return v ^ v>>16
	}
	mix := func(x, y uint32) uint32 {
		r := 0xca01f9dd*x - 0x4973f715*y
		return r ^ r>>16
	}
	var pool [poolSize]uint32
	for i := range pool {
		v := uint32(0)
		if i < len(entropy) {
			v = entropy[i]
		}
		pool[i] = hash(v)
	}
	for from := range pool {
		for to := range pool {
			if from != to {
				pool[to] = mix(pool[to], hash(pool[from]))
			}
		}
	}
	for _, v := range entropy[min(poolSize, len(entropy)):] {
		for to := range pool {
			pool[to] = mix(pool[to], hash(v))
		}
	}
	h = 0x8b51f9dd
	for i := range 2 * len(out) {
		v := pool[i%poolSize] ^ h
		h *= 0x58f38ded
		v *= h
		v ^= v >> 16
		out[i/2] |= uint64(v) << (32 * (i % 2))
	}
	return out
}
