package noise

import "math/bits"

// philox returns block c of the sequence with key k of Philox4x32-10 (J.
// Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1,
// 2, 3", SC 2011): four words of 32 bits that are a function of key and counter
// alone.
//
// Each of its ten rounds multiplies words 0 and 2 by a constant each, to 64
// bits, and mixes the upper halves with the other words and the key; between
// rounds the key takes a step of a Weyl sequence.
func philox(k0, k1, c0, c1, c2, c3 uint32) (x0, x1, x2, x3 uint32) {
	for range 10 {
		hi0, lo0 := bits.Mul32(0xd2511f53, c0)
		hi1, lo1 := bits.Mul32(0xcd9e8d57, c2)
		c0, c1, c2, c3 = hi1^c1^k0, lo1, hi0^c3^k1, lo0
		k0 += 0x9e3779b9 // golden ratio
		k1 += 0xbb67ae85 // sqrt(3) - 1
	}
	return c0, c1, c2, c3
}
