package bigref

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/par"
)

// Matmul judges alpha a b + beta c for one matrix product, a [m,k], b [k,n] and c
// [m,n] (nil for none) row-major: element by element the exact value of the sum as a
// fraction, rounded once to f. Sums with infinities or NaNs are taken in the extended
// real numbers.
func Matmul(f fp16.Format, a, b, c []float64, m, n, k int, alpha, beta float64) []float64 {
	out := make([]float64, m*n)
	par.For(m*n, func(at int) {
		i, j := at/n, at%n
		var added float64
		if c != nil {
			added = c[at]
		}
		row, col := make([]float64, k), make([]float64, k)
		special, plus, minus, nan := false, false, false, false
		meet := func(v float64) {
			special = true
			plus, minus, nan = plus || v > 0, minus || v < 0, nan || v != v
		}
		for l := range k {
			row[l], col[l] = a[i*k+l], b[l*n+j]
			if x, y := row[l], col[l]; infinite(x) || infinite(y) {
				if v := times(x, y); v != 0 || v != v {
					meet(v)
				}
			}
		}
		if special {
			v := math.Inf(1)
			switch {
			case nan || plus && minus:
				v = math.NaN()
			case minus:
				v = math.Inf(-1)
			}
			special, plus, minus, nan = false, false, false, false
			meet(times(alpha, v))
		}
		if infinite(added) {
			meet(times(beta, added))
		}
		switch {
		case special && (nan || plus && minus):
			out[at] = fp16.NaN
			return
		case special && plus:
			out[at] = math.Inf(1)
			return
		case special:
			out[at] = math.Inf(-1)
			return
		}
		x, ex := integers(row)
		y, ey := integers(col)
		sum, p := new(big.Int), new(big.Int)
		for l := range k {
			sum.Add(sum, p.Mul(x[l], y[l]))
		}
		r := new(big.Rat).SetInt(sum)
		r.Mul(r, pow2(ex+ey))
		r.Mul(r, Rat(alpha))
		out[at] = Round(r.Add(r, new(big.Rat).Mul(Rat(beta), Rat(added))), f)
	})
	return out
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
