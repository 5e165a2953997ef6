package asm

import (
	"encoding/binary"
	"hash/adler32"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"
)

// float32Bits are all kinds of them: NaNs, infinities, subnormals, zeros, ties of half formats.
func float32Bits(r *rand.Rand) uint32 {
	switch r.IntN(4) {
	case 0: // half-way between numbers of 16 bits, or next to that
		return r.Uint32()&0x9fffe000 + []uint32{0x1000, 0xfff, 0x1001, 0x20000000}[r.IntN(4)] + 0x20000000
	case 1:
		return r.Uint32()&0xffff0000 | []uint32{0x8000, 0x7fff, 0x8001, 0}[r.IntN(4)]
	case 2:
		return []uint32{0, 1 << 31, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0x7f7fffff, 1,
			0x33000000, 0x33000001, 0x477fefff, 0x477ff000}[r.IntN(13)]
	}
	return r.Uint32()
}

// TestBytes holds the kernels to loops over the numbers.
func TestBytes(t *testing.T) {
	for _, b := range backends {
		k := b.bytes
		if k == nil {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(8, 1))
			for _, n := range []int{8, 16, 24, 800} {
				for trial := range 200 {
					x, to := newGuarded[float64](n, 7), newGuarded[byte](4*n, 0xa5)
					for i := range x.data() {
						x.data()[i] = float64(math.Float32frombits(float32Bits(r)))
						if trial%2 == 1 && r.IntN(3) == 0 { // no float32 number
							x.data()[i] += math.Ldexp(x.data()[i], -r.IntN(30)-20)
						}
					}
					k.Float32(&to.data()[0], &x.data()[0], n)
					for i, v := range x.data() {
						want := math.Float32bits(float32(v))
						if v != v {
							want = 0x7fc00000
						}
						if got := binary.LittleEndian.Uint32(to.data()[4*i:]); got != want {
							t.Fatalf("%v: float32 %08x, want %08x", v, got, want)
						}
					}
					x.check(t, "numbers")
					to.check(t, "bytes")
					half(t, k.Float16, x.data(), func(v float32) uint16 { return float16.Fromfloat32(v).Bits() })
					half(t, k.BFloat16, x.data(), func(v float32) uint16 {
						bits := math.Float32bits(v)
						low := bits & 0xffff
						up := uint16(bits >> 16)
						if low > 0x8000 || low == 0x8000 && up&1 == 1 {
							up++
						}
						return up
					})
				}
			}
		})
	}
}

func half(t *testing.T, kernel func(to *byte, x *float64, n int) int, x []float64, want func(float32) uint16) {
	t.Helper()
	to := newGuarded[byte](2*len(x), 0xa5)
	done := 0
	for done < len(x) && !func() (other bool) {
		for _, v := range x[done : done+8] {
			other = other || float64(float32(v)) != v
		}
		return other
	}() {
		done += 8
	}
	if got := kernel(&to.data()[0], &x[0], len(x)); got != done {
		t.Fatalf("%d numbers stored, want %d: %v", got, done, x)
	}
	for i, v := range x {
		got, w := binary.LittleEndian.Uint16(to.data()[2*i:]), uint16(0xa5a5)
		if i < done {
			w = want(float32(v))
		}
		if got != w {
			t.Fatalf("number %d, %v: %04x, want %04x", i, v, got, w)
		}
	}
	to.check(t, "bytes")
}

func TestBytesSort(t *testing.T) {
	for _, b := range backends {
		k := b.bytes
		if k == nil {
			continue
		}
		r := rand.New(rand.NewPCG(8, 2))
		for _, n := range []int{32, 64, 3200} {
			const over = 5
			from, to := newGuarded[byte](4*n, 0), newGuarded[byte](4*n+3*over, 0xa5)
			for i := range from.data() {
				from.data()[i] = byte(r.Uint32())
			}
			k.Sort(&to.data()[0], n+over, &from.data()[0], n)
			for i, v := range to.data() {
				plane, at := i/(n+over), i%(n+over)
				want := byte(0xa5)
				if at < n {
					want = from.data()[4*at+plane]
				}
				if v != want {
					t.Fatalf("%s: %d words: byte %d of plane %d is %02x, want %02x", b.name, n, at, plane, v, want)
				}
			}
			to.check(t, "bytes")
		}
	}
}

func TestBytesAdler(t *testing.T) {
	for _, b := range backends {
		k := b.bytes
		if k == nil {
			continue
		}
		r := rand.New(rand.NewPCG(8, 3))
		for _, n := range []int{32, 64, 320, 1 << 16} {
			for _, largest := range []bool{false, true} {
				p := make([]byte, 2*n)
				for i := range p {
					if p[i] = byte(r.Uint32()); largest {
						p[i] = 255
					}
				}
				sums := [2]uint64{1, 0}
				for _, part := range [][]byte{p[:n], p[n:]} {
					k.Adler(&sums, &part[0], n)
					sums = [2]uint64{sums[0] % 65521, sums[1] % 65521}
				}
				if got, want := uint32(sums[1]<<16|sums[0]), adler32.Checksum(p); got != want {
					t.Fatalf("%s: %d bytes: %08x, want %08x", b.name, n, got, want)
				}
			}
		}
	}
}
