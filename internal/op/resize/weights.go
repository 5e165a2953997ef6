package resize

import (
	"math"
	"math/big"
)

// weights are the windows of all numbers of a result along one axis, in float64.
type weights struct {
	*windows
	first  []int     // where the neighbours of a number begin, and one more
	at     []int     // places of neighbours
	w      []float64 // numerators, rounded
	d      []float64 // the denominator of each number, rounded
	alone  []float64 // what numbers without neighbours are, if any
	bits   int       // of the largest numerator or denominator
	scaled bool      // some lost low bits' exponents: they may underflow
}

// newWeights returns the weights of an axis of whose numbers none is to have more than so
// many bits.
func newWeights(of *windows, out, most int) *weights {
	w := &weights{windows: of, first: make([]int, 1, out+1), d: make([]float64, 0, out)}
	for i := range out {
		w.add(i, of.of(i), most)
	}
	return w
}

// add adds a window, times a power of two where its numbers are too large.
func (w *weights) add(i int, v window, most int) {
	if len(v.at) == 0 {
		if w.alone == nil {
			w.alone = make([]float64, cap(w.d))
		}
		w.alone[i] = v.alone
		w.first, w.d = append(w.first, len(w.w)), append(w.d, 1)
		return
	}
	bits := v.denominator.BitLen()
	for _, n := range v.numerators {
		bits = max(bits, n.BitLen())
	}
	w.bits = max(w.bits, bits)
	down := max(0, bits-most)
	w.scaled = w.scaled || down > 0
	for _, n := range v.numerators {
		w.w = append(w.w, rounded(n, down))
	}
	w.at = append(w.at, v.at...)
	w.first, w.d = append(w.first, len(w.w)), append(w.d, rounded(v.denominator, down))
}

// rounded returns n/2^down.
func rounded(n *big.Int, down int) float64 {
	if n.IsInt64() && n.BitLen() <= 53 {
		return math.Ldexp(float64(n.Int64()), -down)
	}
	f, _ := new(big.Float).SetInt(n).Float64()
	if down > 0 {
		f, _ = new(big.Float).SetMantExp(new(big.Float).SetInt(n), -down).Float64()
	}
	return f
}
