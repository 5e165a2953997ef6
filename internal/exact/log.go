package exact

import "math/big"

// bigLog returns ln x for x > 0, as e ln 2 + ln m with x = 2^e m and m in [0.7, 1.4].
// Where e != 0 the two cancel less than 1 bit; where e = 0 it is ln m alone, and
// m - 1 is as good as x is.
func bigLog(x *big.Float, w uint) *big.Float {
	m := newBig(max(w, x.Prec()))
	e := x.MantExp(m)
	if m.Cmp(bigRoot) < 0 {
		m.Add(m, m)
		e--
	}
	v := artanhSeries(m.Sub(m, bigInt(w, 1)), w)
	if e == 0 {
		return v
	}
	return v.Add(v, newBig(w).Mul(bigLn2(w), bigInt(w, int64(e))))
}

var bigRoot = big.NewFloat(0.7)

// bigLog1p returns ln(1+x) for x > -1 that w bits hold, or for 0 < x < 1 good to 2^-w.
func bigLog1p(x *big.Float, w uint) *big.Float {
	if f, _ := x.Float64(); f > -0.3 && f <= 1 {
		return artanhSeries(x, w)
	}
	return bigLog(newBig(w+160).Add(x, bigInt(w, 1)), w) // exact for x of the float32 grid
}

// artanhSeries returns ln(1+d) = 2 artanh z, z = d/(2+d), for d in [-0.3, 1], by the
// series of z^n/n with odd n, all of one sign.
func artanhSeries(d *big.Float, w uint) *big.Float {
	z := newBig(w).Add(d, bigInt(w, 2))
	z.Quo(newBig(w).Set(d), z)
	z2 := newBig(w).Mul(z, z)
	sum, power := newBig(w).Set(z), z
	for n := int64(3); ; n += 2 {
		power.Mul(power, z2)
		term := newBig(w).Quo(power, bigInt(w, n))
		if below(term, sum, w) {
			return sum.Add(sum, sum)
		}
		sum.Add(sum, term)
	}
}

// bigExpm1 returns e^t - 1: by Taylor's series for |t| < 1/2, whose terms add up to
// less than twice the sum, and as written beyond, where 2 bits cancel at most.
func bigExpm1(t *big.Float, w uint) *big.Float {
	if t.MantExp(nil) > -1 {
		v := bigExp(t, w)
		return v.Sub(v, bigInt(w, 1))
	}
	sum, term := newBig(w).Set(t), newBig(w).Set(t)
	for n := int64(2); !below(term, sum, w); n++ {
		term.Mul(term, t)
		term.Quo(term, bigInt(w, n))
		sum.Add(sum, term)
	}
	return sum
}
