package dd

import (
	"math/big"
	"sync"
)

const (
	tailSteps = 16   // expansions per unit
	tailEnd   = 14.5 // where they end
	tailWide  = 9    // coefficients in two words
	tailTerms = 17
)

// tailPoint is Taylor's expansion of M at a multiple of 1/16.
type tailPoint struct {
	wide [tailWide]Num
	slim [tailTerms - tailWide]float64
}

// tailTable expands M(a) = e^(a^2/2) Q(a), Q the normal tail. From M' = a M -
// 1/sqrt(2 pi), the coefficients at c are M_1 = c M_0 - 1/sqrt(2 pi) and
// (k+1) M_(k+1) = c M_k + M_(k-1). M_0 is good to 2^-570 e^(c^2/2) < 2^-410, and
// an error of it becomes that times the coefficients of e^(c h + h^2/2), which
// are below e^(c + 1/2) < 2^22.
var tailTable = sync.OnceValue(func() *[tailEnd*tailSteps + 1]tailPoint {
	t := new([tailEnd*tailSteps + 1]tailPoint)
	slope := fixQuo(fixInt(1), fixRoot2Pi())
	for j := range t {
		c := float64(j) / tailSteps
		m := fixMul(fixTail(c), fixExp(fixFloat(c*c/2)))
		before := new(big.Int).Neg(slope) // stands for M_(-1): its equation has the same form
		for k := range tailTerms {
			if k < tailWide {
				t[j].wide[k] = split(m)
			} else {
				t[j].slim[k-tailWide] = toFloat(m)
			}
			// (k+1) M_(k+1) = c M_k + M_(k-1)
			next := fixMul(fixFloat(c), m)
			next.Add(next, before)
			before, m = m, next.Quo(next, big.NewInt(int64(k+1)))
		}
	}
	return t
})

// tail returns the normal tail Q(a) = erfc(a/sqrt 2)/2 for a float32 number a in
// [0, 14.5), to 17 E.
//
// Q = e^(-a^2/2) M(a), a^2/2 being exact, 4 E, and the product, 4 E. M is
// expanded at the multiple c of 1/16 nearest to a; h = a - c is exact, |h| <=
// 1/32. As M(a) is the integral of e^(-a t - t^2/2)/sqrt(2 pi) over t > 0, its
// coefficients are (-1)^k/k! times that of t^k e^(...), and |M_(k+1)/M_k| is 1/(k+1)
// times the mean of t under that weight, whose mean square is at most k+1 (by
// parts): the ratio is at most 1/sqrt(k+1). So |M_k h^k| <= 2^(-5k) M_0/sqrt(k!):
// what is missing from k = 17 on is below 2^-109 M_0, the terms from k = 9 on are
// below 2^-54 M_0 and good to four roundings, 2 E; and of the sums, 3.2 E each,
// all but the last count 1/31 times or less. With M_0's E/2 and the products
// with h that is less than 7 E of M_0, and M(a) > 31/32 M_0 makes it 8 E.
func tail(a float64) Num {
	j := int(float64(a*tailSteps) + 0.5)
	h := a - float64(float64(j)/tailSteps)
	point := &tailTable()[j]
	d := point.slim[len(point.slim)-1]
	for k := len(point.slim) - 2; k >= 0; k-- {
		d = point.slim[k] + float64(h*d)
	}
	m := addSmall(point.wide[tailWide-1], Num{Hi: float64(h * d)})
	for k := tailWide - 2; k >= 0; k-- {
		m = addSmall(point.wide[k], mulF(m, h))
	}
	return mul(exp(Num{Hi: float64(-0.5 * float64(a*a))}), m)
}
