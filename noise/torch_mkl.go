package noise

// mcg31 is MKL's multiplicative congruential generator VSL_BRNG_MCG31,
// x -> 1132489760 x mod 2^31-1 (Intel MKL Vector Statistics Notes; the
// multiplier is from P. L'Ecuyer, Mathematics of Computation 68, 1999). PyTorch
// starts a new one for each Bernoulli fill, from one word of its own generator,
// and lets every thread skip to its part of the fill.
type mcg31 struct{ x uint64 }

const mcg31Modulus = 1<<31 - 1

// newMCG31 returns the generator that a seed starts.
func newMCG31(seed uint32) *mcg31 {
	x := uint64(seed) % mcg31Modulus
	if x == 0 {
		x = 1
	}
	return &mcg31{x}
}

// uniform returns the next number in (0, 1).
func (g *mcg31) uniform() float64 {
	u := float64(g.x) / mcg31Modulus
	g.x = g.x * 1132489760 % mcg31Modulus
	return u
}
