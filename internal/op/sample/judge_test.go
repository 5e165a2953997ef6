package sample

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

func ratio(a, b int) *big.Rat    { return big.NewRat(int64(a), int64(b)) }
func add(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }
func sub(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func mul(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }

// floorOf returns the greatest whole number that is at most x.
func floorOf(x *big.Rat) *big.Int {
	q, m := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int))
	_ = m // Euclid's is not negative, nor is a denominator
	return q
}

// where is PyTorch's formula of a position.
func where(g float64, n int, p Params) *big.Rat {
	one := add(bigref.Rat(g), ratio(1, 1))
	if p.Corners {
		return mul(mul(one, ratio(1, 2)), ratio(n-1, 1))
	}
	return mul(sub(mul(one, ratio(n, 1)), ratio(1, 1)), ratio(1, 2))
}

// inside is a position with PyTorch's padding.
func inside(x *big.Rat, n int, p Params) *big.Rat {
	if p.Padding == Reflection {
		low, span := ratio(-1, 2), ratio(n, 1)
		if p.Corners {
			low, span = new(big.Rat), ratio(n-1, 1)
		}
		if span.Sign() == 0 {
			x = new(big.Rat)
		} else {
			x = new(big.Rat).Abs(sub(x, low))
			flips := floorOf(new(big.Rat).Quo(x, span))
			extra := sub(x, mul(new(big.Rat).SetInt(flips), span))
			if flips.Bit(0) == 0 {
				x = add(extra, low)
			} else {
				x = add(sub(span, extra), low)
			}
		}
	}
	if p.Padding != Zeros {
		if x.Sign() < 0 {
			x = new(big.Rat)
		} else if last := ratio(n-1, 1); x.Cmp(last) > 0 {
			x = last
		}
	}
	return x
}

// share is what a number of an axis counts for.
type share struct {
	at     int
	weight *big.Rat
}

// shares are those of an axis at a position; of Cubic the neighbours are padded, of the others the position.
func shares(g float64, n int, p Params) (all []share) {
	x := where(g, n, p)
	early := p.Mode == Nearest && p.Early
	if p.Mode != Cubic && !early {
		x = inside(x, n, p)
	}
	give := func(at *big.Int, w *big.Rat) {
		y := new(big.Rat).SetInt(at)
		if p.Mode == Cubic || early {
			y = inside(y, n, p)
		}
		if y.Sign() >= 0 && y.Cmp(ratio(n-1, 1)) <= 0 {
			all = append(all, share{int(floorOf(y).Int64()), w})
		}
	}
	at := floorOf(x)
	t := sub(x, new(big.Rat).SetInt(at))
	next := func(k int64) *big.Int { return new(big.Int).Add(at, big.NewInt(k)) }
	switch p.Mode {
	case Nearest:
		half := t.Cmp(ratio(1, 2))
		if half > 0 || half == 0 && at.Bit(0) == 1 {
			at = next(1)
		}
		give(at, ratio(1, 1))
	case Linear:
		give(at, sub(ratio(1, 1), t))
		give(next(1), t)
	case Cubic:
		for k := int64(-1); k <= 2; k++ {
			give(next(k), keys(new(big.Rat).Abs(sub(t, ratio(int(k), 1)))))
		}
	}
	return all
}

// keys are PyTorch's two polynomials, by Horner's scheme.
func keys(x *big.Rat) *big.Rat {
	a := ratio(-3, 4)
	n := func(v int) *big.Rat { return ratio(v, 1) }
	if x.Cmp(n(1)) <= 0 {
		return add(mul(mul(sub(mul(add(a, n(2)), x), add(a, n(3))), x), x), n(1))
	}
	return sub(mul(add(mul(sub(mul(a, x), mul(n(5), a)), x), mul(n(8), a)), x), mul(n(4), a))
}

// want is the exact result number at a position, and the sum of magnitudes.
func want(plane []float64, sizes []int, g []float64, p Params) (sum, size *big.Rat) {
	if len(sizes) == 0 {
		v := bigref.Rat(plane[0])
		return v, new(big.Rat).Abs(v)
	}
	step := tensor.Size(sizes[1:])
	sum, size = new(big.Rat), new(big.Rat)
	for _, of := range shares(g[len(g)-1], sizes[0], p) {
		if of.weight.Sign() == 0 {
			continue
		}
		s, m := want(plane[of.at*step:(of.at+1)*step], sizes[1:], g[:len(g)-1], p)
		sum.Add(sum, mul(of.weight, s))
		size.Add(size, mul(new(big.Rat).Abs(of.weight), m))
	}
	return sum, size
}

// judged returns a number rounded once. Nearest keeps the sign of zero.
func judged(plane []float64, sizes []int, g []float64, p Params, f fp16.Format) float64 {
	if p.Mode == Nearest {
		at := 0
		for a, n := range sizes {
			of := shares(g[len(g)-1-a], n, p)
			if len(of) == 0 {
				return 0
			}
			at = at*n + of[0].at
		}
		return f.Round(plane[at])
	}
	sum, _ := want(plane, sizes, g, p)
	return bigref.Round(sum, f)
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
