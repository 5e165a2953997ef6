package resize

import (
	"math"
	"math/big"
)

// weights are, for every number of a result along one axis, its neighbours in the source
// and what they weigh: integers over one denominator, as float64 and, where float64 does
// not hold them, exactly.
type weights struct {
	each        int       // neighbours of one number
	at          []int     // those of number i from each*i on
	w           []float64 // numerators
	exact       []*big.Int
	denominator *big.Int
	bits        int // of the largest numerator
}

// none are the weights of an axis that is not there.
func none() *weights {
	return newWeights(1, []int{0}, []*big.Int{big.NewInt(1)}, big.NewInt(1))
}

func newWeights(each int, at []int, exact []*big.Int, denominator *big.Int) *weights {
	w := &weights{each: each, at: at, exact: exact, denominator: denominator}
	for _, n := range exact {
		f, _ := new(big.Float).SetInt(n).Float64()
		w.w = append(w.w, f)
		w.bits = max(w.bits, n.BitLen())
	}
	return w
}

// linear returns the weights of the two neighbours: D-r and r over D, where r/D is above
// the floor of the position. Before the first number and from the last on it does not
// matter which weights they have: both are that number, or the other weighs 0.
func linear(a Axis, in, out int) *weights {
	positions, d := a.positions(in, out)
	var at []int
	var n []*big.Int
	for _, p := range positions {
		if p.Sign() < 0 {
			p.SetInt64(0)
		}
		i, r := floor(p, d, 0, in-1)
		at = append(at, i, min(i+1, in-1))
		n = append(n, new(big.Int).Sub(d, r), r)
	}
	return newWeights(2, at, n, d)
}

// cubic returns the weights of the four neighbours, by R. Keys, "Cubic convolution
// interpolation for digital image processing", IEEE Trans. ASSP 29, 1981: at distance x
//
//	(a+2) x^3 - (a+3) x^2 + 1       for x <= 1
//	a x^3 - 5a x^2 + 8a x - 4a      for x <= 2
//
// With a = b/2^30 and x = r/D they are integers over 2^30 D^3.
func cubic(a Axis, coefficient float64, in, out int) *weights {
	positions, d := a.positions(in, out)
	one := big.NewInt(1 << 30)
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
	var at []int
	var n []*big.Int
	for _, p := range positions {
		i, r := floor(p, d, -2, in+1) // beyond that all four are the number at the end
		for k := -1; k <= 2; k++ {
			at = append(at, min(max(i+k, 0), in-1))
		}
		rest := new(big.Int).Sub(d, r)
		n = append(n, far(sum(r, d)), near(r), near(rest), far(sum(rest, d)))
	}
	return newWeights(4, at, n, mul(one, d, d, d))
}
