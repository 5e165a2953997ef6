package rollout

import (
	"encoding/binary"
	"hash/crc32"
)

// crcSize is how many bytes a crc is.
const crcSize = 8

// crc says whether the bytes of a record are still what they were, in a tenth of the time of a
// SHA-256: the CRC-32C of them and then the CRC-32 of zlib, each little-endian. They are the
// remainders by two polynomials of degree 32 without a common factor, for one of them cannot be
// factored, and so as good as the remainder by their product, of degree 64: it sees whatever
// differs within 64 bits, and of other differences misses one in 2^64. It keeps nobody off who
// means to deceive. Of all states of a file the SHA-256 is its digest.
type crc struct{ c, z uint32 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write implements [hash.Hash].
func (s *crc) Write(b []byte) (int, error) {
	s.c, s.z = crc32.Update(s.c, castagnoli, b), crc32.Update(s.z, crc32.IEEETable, b)
	return len(b), nil
}

// Sum implements [hash.Hash].
func (s *crc) Sum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, s.c), s.z)
}

// Reset implements [hash.Hash].
func (s *crc) Reset() { *s = crc{} }

// Size implements [hash.Hash].
func (s *crc) Size() int { return crcSize }

// BlockSize implements [hash.Hash].
func (s *crc) BlockSize() int { return 1 }

// crcOf returns the crc of a record that the parts are; what of a sum is behind it is 0.
func crcOf(parts ...[]byte) (s sum) {
	var of crc
	for _, b := range parts {
		of.Write(b)
	}
	of.Sum(s[:0])
	return s
}
