package resize

import (
	"math/big"

	"github.com/refrun/refrun/fp16"
)

// window are the neighbours of one number along one axis, exactly: numerators over a
// denominator, which is positive. Where there are none the result is alone.
type window struct {
	at          []int
	numerators  []*big.Int
	denominator *big.Int
	alone       float64
}

// A kernel gives the weight at the distance x/e, as a numerator over whole, for x up to
// support times e.
type kernel struct {
	support int64
	of      func(e *big.Int) (weight func(x *big.Int) *big.Int, whole *big.Int)
}

// triangle is 1-x.
var triangle = kernel{1, func(e *big.Int) (func(x *big.Int) *big.Int, *big.Int) {
	return func(x *big.Int) *big.Int { return new(big.Int).Sub(e, x) }, e
}}

// keys is that of R. Keys, "Cubic convolution interpolation for digital image processing",
// IEEE Trans. ASSP 29, 1981:
//
//	(a+2) x^3 - (a+3) x^2 + 1       for x <= 1
//	a x^3 - 5a x^2 + 8a x - 4a      for x <= 2
//
// With a = b/c the weights at x/e are integers over c e^3, by Horner's rule.
func keys(coefficient float64) kernel {
	a := new(big.Rat)
	a.SetFloat64(coefficient)
	b, c := new(big.Int).Set(a.Num()), new(big.Int).Set(a.Denom())
	if c.BitLen() <= 30 {
		up := uint(31 - c.BitLen()) // c is 2^30 for what has so few bits
		b.Lsh(b, up)
		c.Lsh(c, up)
	}
	times := func(k int64, v *big.Int) *big.Int { return new(big.Int).Mul(big.NewInt(k), v) }
	mul := func(v, w *big.Int) *big.Int { return new(big.Int).Mul(v, w) }
	return kernel{2, func(e *big.Int) (func(x *big.Int) *big.Int, *big.Int) {
		e2 := mul(e, e)
		whole := mul(c, mul(e2, e))
		third := new(big.Int).Add(b, times(2, c))
		second := mul(new(big.Int).Add(b, times(3, c)), e)
		eight, four := times(8, e2), times(4, mul(e2, e))
		return func(x *big.Int) *big.Int {
			y := new(big.Int)
			if x.Cmp(e) <= 0 {
				y.Mul(third, x).Sub(y, second)
				return y.Mul(y, x).Mul(y, x).Add(y, whole)
			}
			y.Sub(x, times(5, e))
			y.Mul(y, x).Add(y, eight)
			return y.Mul(y, x).Sub(y, four).Mul(y, b)
		}, whole
	}}
}

// windows makes those of one axis.
type windows struct {
	Axis
	in        int
	positions positions
	weight    func(x *big.Int) *big.Int
	whole     *big.Int
	// Number j is (j D - P) narrow/e from position P/D, in the kernel's measure.
	narrow, e *big.Int
	reach     *big.Int // support times e
	normed    bool     // the weights are divided by their sum
	clamped   bool     // positions before the first number are that number's
}

func newWindows(a Axis, k kernel, in, out int) *windows {
	w := &windows{Axis: a, in: in, positions: a.positions(in, out), narrow: big.NewInt(1)}
	w.e = w.positions.denominator
	w.normed = a.Antialias || a.Exclude
	// It does not matter for finite numbers: both neighbours are the first number, or the
	// other weighs 0.
	w.clamped = k.support == 1 && !w.normed
	if p, q := a.scale(in, out); a.Antialias && p.Cmp(q) < 0 {
		common := new(big.Int).GCD(nil, nil, p, w.e)
		w.narrow = p.Quo(p, common)
		w.e = q.Mul(q, new(big.Int).Quo(w.e, common))
	}
	w.weight, w.whole = k.of(w.e)
	w.reach = new(big.Int).Mul(w.e, big.NewInt(k.support))
	return w
}

// of returns the window of number i: all j for which j D narrow is above P narrow - reach and
// at most P narrow + reach.
func (w *windows) of(i int) window {
	at := w.positions.at(i)
	if w.outside(at, &w.positions, w.in) {
		return window{alone: w.Outside}
	}
	if w.clamped && at.Sign() < 0 {
		at.SetInt64(0)
	}
	at.Mul(at, w.narrow)
	step := new(big.Int).Mul(w.positions.denominator, w.narrow)
	first := floor(new(big.Int).Sub(at, w.reach), step)
	n := floor(new(big.Int).Add(at, w.reach), step)
	n.Sub(n, first)
	first.Add(first, big.NewInt(1))
	x := new(big.Int).Mul(first, step)
	x.Sub(x, at)
	const far = 1 << 60
	j, sum := clamp(first, -far, far), new(big.Int)
	all := window{denominator: w.whole}
	for range n.Int64() {
		if !w.Exclude || j >= 0 && j < w.in {
			v := w.weight(new(big.Int).Abs(x))
			all.at, all.numerators = append(all.at, min(max(j, 0), w.in-1)), append(all.numerators, v)
			sum.Add(sum, v)
		}
		x.Add(x, step)
		j++
	}
	if w.normed {
		return all.over(sum)
	}
	return all
}

// over returns a window with the sum of its numerators as the denominator.
func (w window) over(sum *big.Int) window {
	w.denominator = sum
	switch sum.Sign() {
	case 0:
		return window{alone: fp16.NaN}
	case -1:
		sum.Neg(sum)
		for _, v := range w.numerators {
			v.Neg(v)
		}
	}
	return w
}
