package asm

// Hash is a kernel that takes two SHA-256 (FIPS 180-4) at once, in a third more than the time of
// one.
type Hash struct {
	// Two adds n blocks of 64 bytes at p to the first hash and n at q to the second one. state
	// holds the eight words of each, and n is positive. p and q may be one.
	Two func(state *[2][8]uint32, p, q *byte, n int)
}

// HashKernels returns the kernel of the backend that runs, nil if it has none.
func HashKernels() *Hash { return current().hash }
