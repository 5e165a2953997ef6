package resize

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

func ratio(a, b int) *big.Rat { return big.NewRat(int64(a), int64(b)) }

func add(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }
func sub(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func mul(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func quo(a, b *big.Rat) *big.Rat { return new(big.Rat).Quo(a, b) }

// scaleOf is how many times as large the result is.
func scaleOf(a Axis, in, out int) *big.Rat {
	switch {
	case a.Scale != 0:
		return bigref.Rat(a.Scale)
	case a.Ratio != [2]int{}:
		return ratio(a.Ratio[0], a.Ratio[1])
	}
	return ratio(out, in)
}

// position is that of number i, by ONNX's formulas.
func position(a Axis, i, in, out int) *big.Rat {
	s := scaleOf(a, in, out)
	resized := mul(s, ratio(in, 1))
	many := resized.Cmp(ratio(1, 1)) > 0
	halfPixel := sub(quo(add(ratio(i, 1), ratio(1, 2)), s), ratio(1, 2))
	end := ratio(in-1, 1)
	switch a.Coordinates {
	case PyTorchHalfPixel:
		if out == 1 {
			return new(big.Rat)
		}
	case HalfPixelSymmetric:
		return add(mul(ratio(in, 2), sub(ratio(1, 1), quo(ratio(out, 1), resized))), halfPixel)
	case AlignCorners:
		if !many {
			return new(big.Rat)
		}
		return quo(mul(ratio(i, 1), end), sub(resized, ratio(1, 1)))
	case Asymmetric:
		return quo(ratio(i, 1), s)
	case CropAndResize:
		first, last := bigref.Rat(a.First), bigref.Rat(a.Last)
		if !many {
			return mul(ratio(1, 2), mul(add(first, last), end))
		}
		return add(mul(first, end), quo(mul(mul(ratio(i, 1), sub(last, first)), end), sub(resized, ratio(1, 1))))
	}
	return halfPixel
}

// beyond reports whether a position is beyond the part that is extrapolated.
func beyond(a Axis, at *big.Rat, in int) bool {
	return a.Coordinates == CropAndResize && (at.Sign() < 0 || at.Cmp(ratio(in-1, 1)) > 0)
}

// floorOf returns the greatest integer that is at most x, by counting if x is near.
func floorOf(x *big.Rat) int {
	f, _ := x.Float64()
	n := int(math.Floor(f)) + 1
	for ratio(n, 1).Cmp(x) > 0 {
		n--
	}
	return n
}

// curve is a weight by the distance from the position.
type curve func(distance *big.Rat) *big.Rat

func tent(d *big.Rat) *big.Rat {
	if d.Cmp(ratio(1, 1)) >= 0 {
		return new(big.Rat)
	}
	return sub(ratio(1, 1), d)
}

func cubicCurve(coefficient float64) curve {
	a := bigref.Rat(coefficient)
	n := func(v int) *big.Rat { return ratio(v, 1) }
	return func(d *big.Rat) *big.Rat { // by Horner's scheme
		switch {
		case d.Cmp(n(1)) <= 0:
			return add(mul(mul(sub(mul(add(a, n(2)), d), add(a, n(3))), d), d), n(1))
		case d.Cmp(n(2)) < 0:
			return mul(a, sub(mul(add(mul(sub(d, n(5)), d), n(8)), d), n(4)))
		}
		return new(big.Rat)
	}
}

// A share is what a number of an axis counts for.
type share struct {
	row    int
	weight *big.Rat
	ball   bigref.Ball
}

// sharesAt returns the shares of the numbers around a position of an axis of n.
func sharesAt(at *big.Rat, n int, k curve) []share { return sharesOf(Axis{}, at, n, n, k) }

// sharesOf returns those of an axis. Nil are none, or such as have no sum to divide by.
func sharesOf(a Axis, at *big.Rat, in, out int, k curve) (all []share) {
	s := scaleOf(a, in, out)
	if !a.Antialias || s.Cmp(ratio(1, 1)) > 0 {
		s = ratio(1, 1)
	}
	width, _ := quo(ratio(2, 1), s).Float64()
	base, total := floorOf(at), new(big.Rat)
	for j := base - int(width) - 2; j <= base+int(width)+3; j++ {
		w := k(mul(s, new(big.Rat).Abs(sub(at, ratio(j, 1)))))
		if w.Sign() == 0 || a.Exclude && (j < 0 || j >= in) {
			continue
		}
		total.Add(total, w)
		all = append(all, share{row: min(max(j, 0), in-1), weight: w})
	}
	if a.Exclude || a.Antialias {
		if total.Sign() == 0 {
			return nil
		}
		for i := range all {
			all[i].weight = quo(all[i].weight, total)
		}
	}
	for i := range all {
		all[i].ball = bigref.Of(all[i].weight)
	}
	return all
}

// weighted returns the exact weighted sum of a plane and that of magnitudes, with the shares of
// one position of each axis.
func weighted(plane []float64, in []int, at [][]share) (sum, size *big.Rat) {
	if len(in) == 0 {
		v := bigref.Rat(plane[0])
		return v, new(big.Rat).Abs(v)
	}
	step := tensor.Size(in[1:])
	sum, size = new(big.Rat), new(big.Rat)
	for _, of := range at[0] {
		s, m := weighted(plane[of.row*step:(of.row+1)*step], in[1:], at[1:])
		sum.Add(sum, mul(of.weight, s))
		size.Add(size, mul(new(big.Rat).Abs(of.weight), m))
	}
	return sum, size
}

// ballOf is the sum as two float64 know it.
func ballOf(plane []float64, in []int, at [][]share) (sum bigref.Ball) {
	if len(in) == 0 {
		return bigref.Exactly(plane[0])
	}
	step := tensor.Size(in[1:])
	for _, of := range at[0] {
		sum = sum.Add(of.ball.Mul(ballOf(plane[of.row*step:(of.row+1)*step], in[1:], at[1:])))
	}
	return sum
}

// next returns the number next to a position.
func next(x *big.Rat, r Rounding) int {
	n := floorOf(x)
	above := sub(x, ratio(n, 1))
	switch half := above.Cmp(ratio(1, 2)); {
	case r == Floor || above.Sign() == 0:
	case r == Ceil, half > 0, half == 0 && r == PreferCeil:
		n++
	}
	return n
}
