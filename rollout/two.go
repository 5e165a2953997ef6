package rollout

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"

	"github.com/refrun/refrun/internal/asm"
)

// addTwo adds p to a and q to b, both SHA-256, as their Write does: side by side where the
// processor can, which takes a third more than one of them alone.
func addTwo(a, b hash.Hash, p, q []byte) {
	if k := asm.HashKernels(); k != nil {
		p, q = sideBySide(k, a, b, p, q)
	}
	a.Write(p)
	b.Write(q)
}

// sideBySide adds what a kernel can, and returns the rest.
func sideBySide(k *asm.Hash, a, b hash.Hash, p, q []byte) (restP, restQ []byte) {
	const (
		size   = 64        // of a block
		few    = 8         // blocks, that are not worth the way to the hashes' words and back
		most   = 1 << 10   // at once, in some 50 microseconds
		magic  = "sha\x03" // how crypto/sha256 marshals: this, the words, a block as far as it has come, the length
		words  = len(magic)
		length = words + sha256.Size + size
	)
	var texts [2][]byte
	var state [2][8]uint32
	for i, h := range [2]hash.Hash{a, b} {
		from := [2]*[]byte{&p, &q}[i]
		for range 2 {
			m, ok := h.(encoding.BinaryMarshaler)
			if !ok {
				return p, q
			}
			text, err := m.MarshalBinary()
			if err != nil || len(text) != length+8 || string(text[:words]) != magic {
				return p, q
			}
			texts[i] = text
			begun := binary.BigEndian.Uint64(text[length:]) % size
			if begun == 0 {
				break
			}
			head := min(size-int(begun), len(*from)) // to the end of a block
			h.Write((*from)[:head])
			*from = (*from)[head:]
		}
		for j := range state[i] {
			state[i][j] = binary.BigEndian.Uint32(texts[i][words+4*j:])
		}
	}
	n := min(len(p), len(q)) / size
	if n < few {
		return p, q
	}
	for left := n; left > 0; {
		now := min(left, most)
		k.Two(&state, &p[0], &q[0], now)
		p, q, left = p[now*size:], q[now*size:], left-now
	}
	for i, h := range [2]hash.Hash{a, b} {
		text := texts[i]
		for j, w := range state[i] {
			binary.BigEndian.PutUint32(text[words+4*j:], w)
		}
		binary.BigEndian.PutUint64(text[length:], binary.BigEndian.Uint64(text[length:])+uint64(n*size))
		if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(text); err != nil {
			panic("rollout: a SHA-256 that does not read what it wrote")
		}
	}
	return p, q
}
