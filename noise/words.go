package noise

// Words returns the four words of 32 bits from which the stream makes the numbers of a
// block, for what wants other numbers than those of [Counter.At], such as uniform ones.
// word2 is 256*step + site, of which those of step 0 belong to nobody's noise.
func (c Counter) Words(block, realization, word2 uint32) (x [4]uint32) {
	x[0], x[1], x[2], x[3] = philox(uint32(c.Seed), uint32(c.Seed>>32), block, realization, word2, c.Operator)
	return x
}
