package pointwise

import (
	"math"
	"math/big"
	"math/rand/v2"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

// exactOf are the arithmetic operations on finite numbers, as fractions; the zero is
// what a result of 0 is returned as. ok is false where there is no fraction.
var exactOf = map[Op]func(a, b float64) (r *big.Rat, zero float64, ok bool){
	Add: func(a, b float64) (*big.Rat, float64, bool) {
		return new(big.Rat).Add(bigref.Rat(a), bigref.Rat(b)), zeroSum(a, b), true
	},
	Sub: func(a, b float64) (*big.Rat, float64, bool) {
		return new(big.Rat).Sub(bigref.Rat(a), bigref.Rat(b)), zeroSum(a, -b), true
	},
	Mul: func(a, b float64) (*big.Rat, float64, bool) {
		return new(big.Rat).Mul(bigref.Rat(a), bigref.Rat(b)), signed(a, b), true
	},
	Div: func(a, b float64) (*big.Rat, float64, bool) {
		if b == 0 {
			return nil, 0, false
		}
		return new(big.Rat).Quo(bigref.Rat(a), bigref.Rat(b)), signed(a, b), true
	},
	PReLU: func(a, b float64) (*big.Rat, float64, bool) {
		if a > 0 {
			b = 1
		}
		return new(big.Rat).Mul(bigref.Rat(a), bigref.Rat(b)), signed(a, b), true
	},
	FMod: func(a, b float64) (*big.Rat, float64, bool) {
		return left(a, b, towardsZero), math.Copysign(0, a), b != 0
	},
	Remainder: func(a, b float64) (*big.Rat, float64, bool) {
		return left(a, b, down), math.Copysign(0, a), b != 0
	},
	FloorDivide: func(a, b float64) (*big.Rat, float64, bool) {
		return quotient(a, b, down), signed(a, b), b != 0
	},
	TruncDivide: func(a, b float64) (*big.Rat, float64, bool) {
		return quotient(a, b, towardsZero), signed(a, b), b != 0
	},
	Minimum: func(a, b float64) (*big.Rat, float64, bool) {
		if bigref.Rat(a).Cmp(bigref.Rat(b)) > 0 || a == b && math.Signbit(b) {
			a = b
		}
		return bigref.Rat(a), a, true
	},
	Maximum: func(a, b float64) (*big.Rat, float64, bool) {
		if bigref.Rat(a).Cmp(bigref.Rat(b)) < 0 || a == b && math.Signbit(a) {
			a = b
		}
		return bigref.Rat(a), a, true
	},
}

// ballsOf are those that are sums, products and quotients as two float64 know them.
var ballsOf = map[Op]func(a, b bigref.Ball) bigref.Ball{
	Add: bigref.Ball.Add, Sub: bigref.Ball.Sub, Mul: bigref.Ball.Mul, Div: bigref.Ball.Quo,
	PReLU: func(a, b bigref.Ball) bigref.Ball {
		if a.Hi > 0 {
			return a
		}
		return a.Mul(b)
	},
}

// towardsZero and down make a fraction a whole number.
func towardsZero(q *big.Rat) *big.Int { return new(big.Int).Quo(q.Num(), q.Denom()) }

func down(q *big.Rat) *big.Int { return new(big.Int).Div(q.Num(), q.Denom()) } // Euclid's, as denominators are positive

// quotient is a/b made a whole number, 0 for b = 0, and left what it leaves of a.
func quotient(a, b float64, whole func(q *big.Rat) *big.Int) *big.Rat {
	if b == 0 {
		return new(big.Rat)
	}
	return new(big.Rat).SetInt(whole(new(big.Rat).Quo(bigref.Rat(a), bigref.Rat(b))))
}

func left(a, b float64, whole func(q *big.Rat) *big.Int) *big.Rat {
	n := quotient(a, b, whole)
	return n.Sub(bigref.Rat(a), n.Mul(n, bigref.Rat(b)))
}

// zeroSum is -0 only for a sum of two of them.
func zeroSum(a, b float64) float64 {
	if a == 0 && b == 0 && math.Signbit(a) && math.Signbit(b) {
		return negZero
	}
	return 0
}

func signed(a, b float64) float64 { return math.Copysign(0, math.Copysign(1, a)*math.Copysign(1, b)) }

// pairs returns n pairs of numbers of a format: of like and of unlike size, cancelling,
// whose sum or quotient lies at a tie of a shorter format or beside one, and subnormal.
func pairs(r *rand.Rand, n int, f fp16.Format) (a, b []float64) {
	any := func() float64 {
		for {
			if v := f.Round(float64(math.Float32frombits(r.Uint32()))); v-v == 0 {
				return v
			}
		}
	}
	scaled := func(e int) float64 { return f.Round(math.Ldexp(r.NormFloat64(), r.IntN(2*e+1)-e)) }
	for i := range n {
		x, y := scaled(2), scaled(2)
		switch i % 8 {
		case 0:
			x, y = any(), any()
		case 1:
			x, y = scaled(30), scaled(30)
		case 2:
			y = f.Round(-x * (1 + 0x1p-12*r.NormFloat64()))
		case 3: // a tie of a format with 8 or 11 bits, and a little
			x = f.Round(math.Ldexp(1+2*float64(r.IntN(1<<8)), r.IntN(60)-40))
			y = f.Round(x * math.Ldexp(r.NormFloat64(), -20-r.IntN(100)))
			if r.IntN(2) == 0 { // so that the remainder is
				x, y = y, x
			}
		case 4:
			x = math.Ldexp(float64(r.IntN(1<<12)-1<<11), r.IntN(24)-30)
			y = math.Ldexp(float64(r.IntN(1<<12)-1<<11), r.IntN(24)-30)
			x, y = f.Round(x), f.Round(y)
		case 5: // quotients and products near ties
			y = f.Round(float64(1 + r.IntN(1<<12)))
			x = f.Round(y * math.Ldexp(1+2*float64(r.IntN(1<<11)), -r.IntN(30)))
		case 7: // small remainders of either sign, and whole multiples
			y = scaled(20)
			x = f.Round(float64(y*float64(r.IntN(1<<12)-1<<11)) * (1 + 0x1p-22*float64(r.IntN(3)-1)))
		case 6:
			x, y = f.Round(math.Ldexp(r.NormFloat64(), -120-r.IntN(28))), scaled(10)
		}
		if x-x != 0 || y-y != 0 {
			x, y = 1, f.Smallest()
		}
		a, b = append(a, x), append(b, y)
	}
	zeros := []float64{0, negZero, 1, -1, f.Smallest(), -f.Smallest(), f.Largest(), -f.Largest()}
	for _, x := range zeros {
		for _, y := range zeros {
			a, b = append(a, x), append(b, y)
		}
	}
	return a, b
}

func pairwise(a, b []float64, op Op, src, dst fp16.Format) []float64 {
	out := tensor.New(dst, len(a))
	Binary(out, tensor.Of(src, a, len(a)), tensor.Of(src, b, len(b)), op)
	return out.Data
}
