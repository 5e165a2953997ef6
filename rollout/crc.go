package rollout

import (
	"encoding/binary"
	"hash/crc32"
)

// crcSize is how many bytes a crc is.
const crcSize = crc32.Size

// crc says whether the bytes of a record are still what they were, in a twentieth of the time of a
// SHA-256: zlib's CRC-32 of them, little-endian. It sees whatever differs within 32 bits, and two
// bits wherever they are; of other differences it misses one in 2^32. It keeps nobody off who means
// to deceive: all states of a file have a SHA-256, which is its digest.
type crc uint32

// Write implements [hash.Hash].
func (s *crc) Write(b []byte) (int, error) {
	*s = crc(crc32.Update(uint32(*s), crc32.IEEETable, b))
	return len(b), nil
}

// Sum implements [hash.Hash].
func (s *crc) Sum(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, uint32(*s)) }

// Reset implements [hash.Hash].
func (s *crc) Reset() { *s = 0 }

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
