package hdf5

import "math/bits"

// lookup3 is Bob Jenkins' hash of that name (hashlittle with initial value 0,
// http://burtleburtle.net/bob/c/lookup3.c), the checksum of the newer
// structures of the format. Twelve bytes at a time are added to three words and
// mixed; the last twelve or fewer, filled up with zeros, are mixed differently.
func lookup3(b []byte) uint32 {
	x := 0xdeadbeef + uint32(len(b))
	y, z := x, x
	if len(b) == 0 {
		return z
	}
	for ; len(b) > 12; b = b[12:] {
		x += le.Uint32(b)
		y += le.Uint32(b[4:])
		z += le.Uint32(b[8:])
		for _, r := range [2][3]int{{4, 6, 8}, {16, 19, 4}} {
			x, z = (x-z)^bits.RotateLeft32(z, r[0]), z+y
			y, x = (y-x)^bits.RotateLeft32(x, r[1]), x+z
			z, y = (z-y)^bits.RotateLeft32(y, r[2]), y+x
		}
	}
	var last [12]byte
	copy(last[:], b)
	x += le.Uint32(last[:])
	y += le.Uint32(last[4:])
	z += le.Uint32(last[8:])
	z = (z ^ y) - bits.RotateLeft32(y, 14)
	x = (x ^ z) - bits.RotateLeft32(z, 11)
	y = (y ^ x) - bits.RotateLeft32(x, 25)
	z = (z ^ y) - bits.RotateLeft32(y, 16)
	x = (x ^ z) - bits.RotateLeft32(z, 4)
	y = (y ^ x) - bits.RotateLeft32(x, 14)
	return (z ^ y) - bits.RotateLeft32(y, 24)
}
