package resize

import (
	"math"
	"math/big"
)

// weights are, for every number of a result along one axis, its neighbours in the source
// and what they weigh: integers over one denominator.
type weights struct {
	each        int              // neighbours of one number
	at          []int            // those of number i from each*i on
	w           []float64        // numerators, rounded
	large       map[int]*big.Int // those that float64 does not hold
	denominator *big.Int
	bits        int // of the largest numerator, or of the denominator
}

// none are the weights of an axis that is not there.
func none() *weights {
	w := newWeights(1, big.NewInt(1))
	w.add(0, big.NewInt(1))
	return w
}

func newWeights(each int, denominator *big.Int) *weights {
	return &weights{each: each, large: map[int]*big.Int{}, denominator: denominator, bits: denominator.BitLen()}
}

// add adds a neighbour.
func (w *weights) add(at int, numerator *big.Int) {
	f, accuracy := new(big.Float).SetInt(numerator).Float64()
	if accuracy != big.Exact {
		w.large[len(w.w)] = numerator
	}
	w.at, w.w = append(w.at, at), append(w.w, f)
	w.bits = max(w.bits, numerator.BitLen())
}

// numerator returns that of neighbour i.
func (w *weights) numerator(i int) *big.Int {
	if n, ok := w.large[i]; ok {
		return n
	}
	n, _ := big.NewFloat(w.w[i]).Int(nil)
	return n
}

// linear returns the weights of the two neighbours: D-r and r over D, where r/D is above
// the floor of the position. Before the first number and from the last on it does not
// matter which weights they have: both are that number, or the other weighs 0.
func linear(a Axis, in, out int) *weights {
	all := a.positions(in, out)
	d := all.denominator
	w := newWeights(2, d)
	for i := range out {
		p := all.at(i)
		if p.Sign() < 0 {
			p.SetInt64(0)
		}
		k, r := floor(p, d, 0, in-1)
		w.add(k, new(big.Int).Sub(d, r))
		w.add(min(k+1, in-1), r)
	}
	return w
}

// cubic returns the weights of the four neighbours, by R. Keys, "Cubic convolution
// interpolation for digital image processing", IEEE Trans. ASSP 29, 1981: at distance x
//
//	(a+2) x^3 - (a+3) x^2 + 1       for x <= 1
//	a x^3 - 5a x^2 + 8a x - 4a      for x <= 2
//
// With a = b/2^30 and x = r/D they are integers over 2^30 D^3.
func cubic(a Axis, coefficient float64, in, out int) *weights {
	all := a.positions(in, out)
	d, one := all.denominator, big.NewInt(1<<30)
	b := big.NewInt(int64(math.Ldexp(coefficient, 30)))
	mul := func(v ...*big.Int) *big.Int {
		p := big.NewInt(1)
		for _, x := range v {
			p.Mul(p, x)
		}
		return p
	}
	times := func(k int64, v *big.Int) *big.Int { return new(big.Int).Mul(big.NewInt(k), v) }
	sum := func(v ...*big.Int) *big.Int {
		s := new(big.Int)
		for _, x := range v {
			s.Add(s, x)
		}
		return s
	}
	near := func(r *big.Int) *big.Int {
		return sum(mul(sum(b, times(2, one)), r, r, r), times(-1, mul(sum(b, times(3, one)), r, r, d)), mul(one, d, d, d))
	}
	far := func(r *big.Int) *big.Int {
		return mul(b, sum(mul(r, r, r), times(-5, mul(r, r, d)), times(8, mul(r, d, d)), times(-4, mul(d, d, d))))
	}
	w := newWeights(4, mul(one, d, d, d))
	for i := range out {
		k, r := floor(all.at(i), d, -2, in+1) // beyond that all four are the number at the end
		rest := new(big.Int).Sub(d, r)
		for j, n := range []*big.Int{far(sum(r, d)), near(r), near(rest), far(sum(rest, d))} {
			w.add(min(max(k-1+j, 0), in-1), n)
		}
	}
	return w
}
