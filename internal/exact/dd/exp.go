package dd

import (
	"math"
	"math/big"
	"sync"
)

// expSteps is the number of steps of 2^(j/expSteps) from 1 to 2.
const expSteps = 64

// expTables holds what exp needs: 2^(j/64), 1/k!, and ln(2)/64 cut into two
// parts of at most 38 bits, so that their products with 15-bit integers are
// exact, and the rest.
type expTables struct {
	pow         [expSteps]Num
	inv         [7]Num     // 1/k! for k < 7
	tail        [5]float64 // 1/k! from k = 7
	perStep     float64    // 64/ln 2
	l1, l2, l3  float64
	root8Pi     Num // sqrt(8/pi)
	root8PiCube Num // 0.044715 sqrt(8/pi)
}

var expTable = sync.OnceValue(func() *expTables {
	t := new(expTables)
	step := new(big.Int).Quo(fixLn2(), big.NewInt(expSteps))
	for j := range t.pow {
		t.pow[j] = split(fixExp(new(big.Int).Mul(step, big.NewInt(int64(j)))))
	}
	for k, f := 0, fixInt(1); k < len(t.inv)+len(t.tail); k++ {
		if k > 0 {
			f = new(big.Int).Quo(f, big.NewInt(int64(k)))
		}
		if k < len(t.inv) {
			t.inv[k] = split(f)
		} else {
			t.tail[k-len(t.inv)] = toFloat(f)
		}
	}
	t.perStep = toFloat(fixQuo(fixInt(1), step))
	cut := func(v *big.Int) float64 {
		f := math.Float64frombits(math.Float64bits(toFloat(v)) &^ (1<<15 - 1))
		v.Sub(v, fixFloat(f))
		return f
	}
	rest := new(big.Int).Set(step)
	t.l1, t.l2 = cut(rest), cut(rest)
	t.l3 = toFloat(rest)
	root := fixSqrt(fixQuo(fixInt(8), fixPi()))
	t.root8Pi = split(root)
	t.root8PiCube = split(cube(root))
	return t
})

// cube returns 0.044715 v.
func cube(v *big.Int) *big.Int {
	w := new(big.Int).Mul(v, big.NewInt(44715))
	return w.Quo(w, big.NewInt(1_000_000))
}

// parts returns e^x as t (1 + p) for |x| <= 120, with t = 2^(n/64), n the
// integer nearest to 64 x/ln 2, and p = e^r - 1, r = x - n ln(2)/64, |r| <=
// ln(2)/128 < 2^-7.5.
//
// x.Hi - n l1 is exact, as both are multiples of a unit of which the difference
// has fewer than 2^53; so are n l1 and n l2. r takes one twoSum, and one add of
// what is left, 3.1 E, beside 2^-120 for l3. p = r (1 + r/2 + r^2/6 + ...): the
// terms from k = 7 on are below 2^-57 of it and good to a few 2^-53, the series
// ends with k = 11 and misses r^11/12! < 2^-110; every sum carries 3.2 E, of
// which the inner ones count at most r/2 times. p is good to 3.1 + 3.3 + 4 < 11 E,
// relative to p, and t to E/2.
func parts(x Num) (t, p Num) {
	tab := expTable()
	nd := math.RoundToEven(float64(x.Hi * tab.perStep))
	s, e := twoSum(x.Hi-float64(nd*tab.l1), -float64(nd*tab.l2))
	v, w := twoSum(x.Lo, -float64(nd*tab.l3))
	r := add(Num{s, e}, Num{v, w})

	d := tab.tail[4]
	for k := 3; k >= 0; k-- {
		d = tab.tail[k] + float64(r.Hi*d)
	}
	q := addSmall(tab.inv[6], Num{Hi: float64(r.Hi * d)})
	for k := 5; k >= 1; k-- {
		q = addSmall(tab.inv[k], mul(r, q))
	}
	p = mul(r, q)

	n := int(nd)
	t = tab.pow[n&(expSteps-1)]
	scale := math.Float64frombits(uint64(1023+n>>6) << 52)
	return Num{float64(t.Hi * scale), float64(t.Lo * scale)}, p
}

// exp returns e^x for |x| <= 120, to 4 E and the error of x: t (1 + p) adds
// 3.2 E to t's E/2, and p counts |p| < 0.0055 times.
func exp(x Num) Num {
	t, p := parts(x)
	return addSmall(t, mul(t, p))
}

// expm1 returns e^x - 1 for -120 <= x <= 0, to 70 E (the error of x apart).
//
// With n = 0, t is 1 and the result p, 11 E. Otherwise the result exceeds 0.0054 in size, and
// t - 1, below 2.1 times the result, is off by 2 E of itself and t's E/4 (t < 1,
// its low part below 2^-54), 47 E of the result; t p, at most as large as the
// result, by 15.5 E of itself; the last sum by 3.1 E.
func expm1(x Num) Num {
	t, p := parts(x)
	return add(addF(t, -1), mul(t, p))
}
