package sample

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/internal/exact"
)

// settle returns the weighted sum of finite float32 numbers rounded to odd. Where weights have few bits nothing is lost
// in float64: such sums are often the middle of two numbers.
func (w *sampler) settle(in []float64) float64 {
	if y, ok := w.short(in); ok {
		return y
	}
	weights, unit := make([][4]*big.Int, len(w.spots)), 0
	for a := range w.spots {
		var bits int
		weights[a], bits = w.spots[a].exactly(w.Mode)
		unit += bits
	}
	sum := new(big.Int)
	for _, t := range w.taps {
		p := whole(in[t.at], unitOfNumbers)
		for a := range weights {
			p.Mul(p, weights[a][t.which[a]])
		}
		sum.Add(sum, p)
	}
	return exact.Quotient(sum, -unit-unitOfNumbers, big.NewInt(1))
}

// short returns the sum of linear weights if float64 numbers lose nothing of it.
func (w *sampler) short(in []float64) (sum float64, ok bool) {
	for a := range w.spots {
		if s := &w.spots[a]; w.Mode == Cubic || s.t.lo != 0 || s.s.lo != 0 {
			return 0, false
		}
	}
	for _, t := range w.taps {
		p, lost := 1.0, 0.0
		times := func(v float64) {
			q := float64(p * v)
			lost += math.Abs(math.FMA(p, v, -q))
			p = q
		}
		for a := range w.spots {
			times(w.spots[a].weight[t.which[a]])
		}
		times(in[t.at])
		var rest float64
		if sum, rest = exact.TwoSum(sum, p); lost != 0 || rest != 0 {
			return 0, false
		}
	}
	return sum, true
}

// Every float32 number is a multiple of 2^-149, and half of one times a whole number is one of 2^-150: so are t and
// 1-t.
const (
	unitOfNumbers   = 149
	unitOfPositions = 150
)

// whole returns x 2^unit, which is a whole number.
func whole(x float64, unit int) *big.Int {
	fraction, e := math.Frexp(x)
	v := big.NewInt(int64(math.Ldexp(fraction, 53)))
	if e += unit - 53; e >= 0 {
		return v.Lsh(v, uint(e))
	}
	return v.Rsh(v, uint(-e))
}

func (p pair) whole() *big.Int {
	v := whole(p.hi, unitOfPositions)
	return v.Add(v, whole(p.lo, unitOfPositions))
}

// exactly returns the weights in units of 2^-bits.
func (s *spot) exactly(m Mode) (weights [4]*big.Int, bits int) {
	t, r := s.t.whole(), s.s.whole()
	if m == Linear { // of one alone the other weighs 0
		return [4]*big.Int{r, t}, unitOfPositions
	}
	times := func(a *big.Int, by ...*big.Int) *big.Int {
		v := new(big.Int).Set(a)
		for _, b := range by {
			v.Mul(v, b)
		}
		return v
	}
	one := new(big.Int).Lsh(big.NewInt(1), unitOfPositions)
	outer := func(t, s *big.Int) *big.Int { return times(big.NewInt(-3), t, s, s) }
	inner := func(t, s *big.Int) *big.Int { // s (4 + 4t - 5t^2)
		v := new(big.Int).Add(one, t)
		v.Mul(v, one).Lsh(v, 2)
		v.Sub(v, times(big.NewInt(5), t, t))
		return v.Mul(v, s)
	}
	return [4]*big.Int{outer(t, r), inner(t, r), inner(r, t), outer(r, t)}, 3*unitOfPositions + 2
}
