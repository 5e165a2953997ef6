package asm

import (
	"math"
	"testing"
)

// TestNoisePhilox: the known answers published with the Random123 library, word
// by word: it is less than itself plus one, and not less than itself. So are the
// words of the next block, at a counter one less.
func TestNoisePhilox(t *testing.T) {
	const ones = 1<<32 - 1
	kernels := 0
	for _, b := range backends {
		if b.noise == nil {
			continue
		}
		kernels++
		for _, c := range []struct {
			in   [6]uint32 // key, counter
			want [4]uint32
		}{
			{[6]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
			{[6]uint32{ones, ones, ones, ones, ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
			{[6]uint32{0xa4093822, 0x299f31d0, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
				[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
		} {
			for block := range 2 * b.noise.Lanes {
				at := NewPhilox(c.in[0], c.in[1], c.in[2]-uint32(block), c.in[3], c.in[4], c.in[5])
				for word, want := range c.want {
					for more := range uint64(2) {
						dst := newGuarded[float64](2*4*b.noise.Lanes, 7)
						b.noise.Bernoulli(dst.at(0), 2, &at[0], uint64(want)+more)
						dst.check(t, "dst")
						if got := dst.data()[4*block+word]; got != float64(more) {
							t.Fatalf("%s: block %d, word %d, less than %#x: %v", b.name, block, word, uint64(want)+more, got)
						}
					}
				}
			}
		}
	}
	t.Logf("%d backends with kernels", kernels)
}

// TestGrid: half precision's numbers.
func TestGrid(t *testing.T) {
	want := NoiseGrid{0x1p-14, 0x1p16, 0x1p42, math.Ldexp(1, 1008), math.Ldexp(1, -1008)}
	if got := *NewNoiseGrid(11, 0x1p-14, 0x1p16); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := NewNoiseGrid(8, 0x1p-126, 0x1p128); got[3] != 0x1p896 || got[4] != 0x1p-896 || got[2] != 0x1p45 {
		t.Errorf("bfloat16: %v", got)
	}
}
