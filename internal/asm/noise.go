package asm

// Noise is a set of kernels that make the random numbers of package noise's
// stream counter (and normals of torch-cpu) and apply them. They do the operations of its plain Go, in that
// order and each rounded as there, on vectors; so every number has the same
// bits.
type Noise struct {
	// Lanes is the number of float64 numbers of a vector, 8 or 4. A group is
	// that many Philox blocks, one after the other: their counters differ in
	// word 0, which overflows to 0.
	Lanes int

	// Normal draws groups*4*Lanes normals of half the variance: as
	// noise.Counter does, with sqrt(variance E) as the radius. groups is 1 or
	// more, here and below.
	Normal func(dst *float64, groups int, place *uint32, variance float64)
	// Exponential draws groups*2*Lanes numbers.
	Exponential func(dst *float64, groups int, place *uint32)
	// Bernoulli draws groups*4*Lanes numbers, 1 where the word is less than
	// below, which is at most 2^32, and 0 elsewhere.
	Bernoulli func(dst *float64, groups int, place *uint32, below uint64)

	// TorchNormal makes normals of blocks of 16 uniforms in dst, multiples of 2^-24
	// in [0,1), as noise.TorchCPU does: in float32, with the standard deviation std.
	// blocks is 1 or more.
	TorchNormal func(dst *float64, blocks int, std float32)

	// Twist steps 8*vectors words s of the Mersenne Twister of 32 bits, of which it
	// reads one more: word k becomes far[k] with that joined from s[k] and s[k+1]
	// added. Where far lies below s its words may be those that it has made.
	Twist func(s, far *uint32, vectors int)
	// Temper makes 8*vectors multiples of 2^-24 in [0,1) of words of the Mersenne
	// Twister: the lower 24 bits of each, tempered.
	Temper func(dst *float64, words *uint32, vectors int)

	// Exact is for tests, since numbers that are rounded to float32 hide the last
	// bits of what they are made of. For each group it stores six vectors, a lane
	// to a block: E, sine and cosine of the words x0, x1, and those of x2, x3.
	Exact func(dst *float64, groups int, place *uint32)

	// Apply are the kernels that apply numbers, for each rounding.
	Apply [Roundings]NoiseApply
}

// NoiseApply is a set of kernels that apply noise n to x, for one rounding rn. n is
// rounded first, and every NaN becomes the one NaN.
type NoiseApply struct {
	Add      NoiseFunc // dst = rn(x + rn(rn(n)*s))
	Modulate NoiseFunc // dst = rn(x * rn(1 + rn(rn(n)*s)))
	Scale    NoiseFunc // dst = rn(x*s); n is not used

	// Sign sets dst to rn(n) * sign(rn(x)), where sign is -1, 0 or 1, that of
	// -0 is 0 and that of NaN is NaN. s is not used.
	Sign NoiseFunc
}

// NoiseFunc computes vectors*Lanes numbers, vectors being 1 or more. dst may be x
// or n. grid points to a NoiseGrid, which only the kernels of RoundGrid read.
type NoiseFunc func(dst, x, n *float64, vectors int, s float64, grid *float64)

// How Apply rounds, as its index: not at all (to float64), to float32, or to a NoiseGrid.
const (
	RoundNot = iota
	RoundFloat32
	RoundGrid
	Roundings
)

// Philox is a place in a sequence of Philox4x32-10: the ten pairs of keys of its
// rounds, and the counter of the next block.
type Philox [24]uint32

// NewPhilox returns the place with that key and counter.
func NewPhilox(k0, k1, c0, c1, c2, c3 uint32) *Philox {
	p := new(Philox)
	p.Set(k0, k1, c0, c1, c2, c3)
	return p
}

// Set makes p the place with that key and counter.
func (p *Philox) Set(k0, k1, c0, c1, c2, c3 uint32) {
	p[20], p[21], p[22], p[23] = c0, c1, c2, c3
	for round := range 10 {
		p[2*round], p[2*round+1] = k0, k1
		k0 += 0x9e3779b9 // golden ratio
		k1 += 0xbb67ae85 // sqrt(3) - 1
	}
}

// NoiseGrid describes the numbers of a format other than float64.
type NoiseGrid [5]float64

// NewNoiseGrid returns the grid of a format of p bits: least is its least normal
// number, 2^emin, and beyond 2^(emax+1), the power of two next to its largest one.
func NewNoiseGrid(p int, least, beyond float64) *NoiseGrid {
	up := 0x1p1023 / (beyond / 2)
	return &NoiseGrid{least, beyond, float64(uint64(1) << (53 - p)), up, 1 / up}
}

// NoiseKernels returns the kernels of the backend that runs, nil if it has
// none.
func NoiseKernels() *Noise { return current().noise }
