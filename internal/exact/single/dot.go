package single

// Dot is the sum of the products of so many numbers in order, from zero, by fused
// multiply-adds; then of the next ones, and those sums are added in order: a sum in
// chains, of which the last may have less.
func Dot(u, v []float32, chain int) (total float32) {
	for from := 0; from < len(u); from += chain {
		var sum float32
		for c := from; c < min(from+chain, len(u)); c++ {
			sum = FMA(v[c], u[c], sum)
		}
		if from == 0 {
			total = sum
		} else {
			total += sum
		}
	}
	return total
}
