package noise

import (
	"math/big"
	"testing"
)

// The known answers published with the Random123 library.
func TestPhiloxKnown(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		key     [2]uint32
		counter [4]uint32
		want    [4]uint32
	}{
		{[2]uint32{}, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[2]uint32{ones, ones}, [4]uint32{ones, ones, ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		var got [4]uint32
		got[0], got[1], got[2], got[3] = philox(c.key[0], c.key[1], c.counter[0], c.counter[1], c.counter[2], c.counter[3])
		if got != c.want {
			t.Errorf("key %x, counter %x: %x, want %x", c.key, c.counter, got, c.want)
		}
	}
}

// Counters and keys with one bit set against the definition in big integers:
// every word and both key words must arrive where they belong.
func TestPhiloxDefinition(t *testing.T) {
	word := func(v uint32) *big.Int { return big.NewInt(int64(v)) }
	low := func(v *big.Int) uint32 { return uint32(new(big.Int).And(v, big.NewInt(1<<32-1)).Uint64()) }
	for bit := range 192 {
		var in [6]uint32
		in[bit/32] = 1 << (bit % 32)
		c, k := [4]uint32(in[:4]), [2]uint32(in[4:])
		for round := range 10 {
			p, q := new(big.Int).Mul(word(0xd2511f53), word(c[0])), new(big.Int).Mul(word(0xcd9e8d57), word(c[2]))
			var key [2]uint32
			for i, step := range []uint32{0x9e3779b9, 0xbb67ae85} {
				s := new(big.Int).Mul(word(step), word(uint32(round)))
				key[i] = low(s.Add(s, word(k[i])))
			}
			c = [4]uint32{low(new(big.Int).Rsh(q, 32)) ^ c[1] ^ key[0], low(q),
				low(new(big.Int).Rsh(p, 32)) ^ c[3] ^ key[1], low(p)}
		}
		var got [4]uint32
		got[0], got[1], got[2], got[3] = philox(in[4], in[5], in[0], in[1], in[2], in[3])
		if got != c {
			t.Fatalf("bit %d: %x, want %x", bit, got, c)
		}
	}
}
