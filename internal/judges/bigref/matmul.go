package bigref

import (
	"math"
	"math/big"
	"slices"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
)

// Matmul judges alpha a b + beta c for one matrix product, a [m,k], b [k,n] and c
// [m,n] (nil for none) row-major: element by element the exact value of the sum as a
// fraction, rounded once to f. Sums with infinities or NaNs are taken in the extended
// real numbers.
func Matmul(f fp16.Format, a, b, c []float64, m, n, k int, alpha, beta float64) []float64 {
	out := make([]float64, m*n)
	whole := sync.OnceValues(func() (x, y []*big.Int) {
		x, _ = integers(finite(a))
		y, _ = integers(finite(b))
		return x, y
	})
	factor := sync.OnceValue(func() *big.Rat {
		_, ex := integers(finite(a))
		_, ey := integers(finite(b))
		return new(big.Rat).Mul(pow2(ex+ey), Rat(alpha))
	})
	par.For(m*n, func(at int) {
		i, j := at/n, at%n
		var added float64
		if c != nil {
			added = c[at]
		}
		ball := Ball{}
		var inner, all extended
		for l := range k {
			if v, w := a[i*k+l], b[l*n+j]; infinite(v) || infinite(w) {
				inner.meet(times(v, w))
			} else {
				ball = ball.Add(Exactly(v).Mul(Exactly(w)))
			}
		}
		if inner.any {
			all.meet(times(alpha, inner.value()))
		}
		if infinite(added) {
			all.meet(times(beta, added))
		}
		if all.any {
			out[at] = all.value()
			return
		}
		out[at] = ball.Mul(Exactly(alpha)).Add(Exactly(beta).Mul(Exactly(added))).Or(f, func() float64 {
			x, y := whole()
			sum, p := new(big.Int), new(big.Int)
			for l := range k {
				sum.Add(sum, p.Mul(x[i*k+l], y[l*n+j]))
			}
			r := new(big.Rat).SetInt(sum)
			r.Mul(r, factor())
			return Round(r.Add(r, new(big.Rat).Mul(Rat(beta), Rat(added))), f)
		})
	})
	return out
}

// finite returns v with zeros for what is not finite.
func finite(v []float64) []float64 {
	v = slices.Clone(v)
	for i, x := range v {
		if infinite(x) {
			v[i] = 0
		}
	}
	return v
}

// extended is a sum of what is not finite.
type extended struct{ any, plus, minus, nan bool }

func (e *extended) meet(v float64) {
	e.any = true
	e.plus, e.minus, e.nan = e.plus || v > 0, e.minus || v < 0, e.nan || v != v
}

func (e *extended) value() float64 {
	switch {
	case e.nan || e.plus && e.minus:
		return fp16.NaN
	case e.plus:
		return math.Inf(1)
	}
	return math.Inf(-1)
}

// infinite reports whether v is an infinity or NaN.
func infinite(v float64) bool { return v-v != 0 }

// times is x y where one is not finite.
func times(x, y float64) float64 {
	if x != x || y != y || x == 0 || y == 0 {
		return math.NaN()
	}
	return math.Inf(map[bool]int{true: 1, false: -1}[(x > 0) == (y > 0)])
}
