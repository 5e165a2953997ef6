package exact

import (
	"math/big"
	"sync"

	"github.com/refrun/refrun/internal/exact/double"
)

// quarters holds what quarter has made, for each n and w.
var quarters sync.Map

// quarter returns cos(2 pi m/n) 2^w for m from 0 to n/4, n a multiple of 4, rounded to
// whole numbers: each within one unit, and 0 and the powers of 2 among them exact. It is
// shared and must not be changed.
//
// The powers of the root z = cos(2 pi/n) + i sin(2 pi/n) are formed one after the other
// with g further bits. Each multiplication adds less than 3 units of 2^-(w+g) to the
// error, the root's one among them; m of them less than n units, so with 2^(g-8) > n
// less than 2^-8 of one in the end.
func quarter(n int, w uint) []*big.Int {
	type key struct {
		n int
		w uint
	}
	if q, ok := quarters.Load(key{n, w}); ok {
		return q.([]*big.Int)
	}
	g := uint(big.NewInt(int64(n)).BitLen()) + 8
	f := w + g
	fixed := func(x *big.Float) *big.Int {
		x.SetMantExp(x, int(f))
		v, _ := x.Int(nil)
		return v
	}
	q := make([]*big.Int, n/4+1)
	half := new(big.Int).Lsh(big.NewInt(1), g-1)
	var c, s *big.Int // of the root
	re, im := new(big.Int).Lsh(big.NewInt(1), f), new(big.Int)
	for m := range q {
		q[m] = new(big.Int).Rsh(new(big.Int).Add(re, half), g)
		if m == 0 {
			t := bigPi(f + 32)
			t.Quo(t.Mul(t, bigInt(f+32, 2)), bigInt(f+32, int64(n)))
			if n == 4 {
				c, s = new(big.Int), new(big.Int).Set(re)
			} else {
				sin := bigSin(t, f+32)
				cos := newBig(f+32).Mul(sin, sin)
				c, s = fixed(cos.Sqrt(cos.Sub(bigInt(f+32, 1), cos))), fixed(sin)
			}
		}
		a, b := new(big.Int).Mul(re, c), new(big.Int).Mul(im, s)
		d, e := new(big.Int).Mul(re, s), new(big.Int).Mul(im, c)
		re, im = a.Rsh(a.Sub(a, b), f), d.Rsh(d.Add(d, e), f)
	}
	shared, _ := quarters.LoadOrStore(key{n, w}, q)
	return shared.([]*big.Int)
}

// Circle returns cos(2 pi m/n) for m from 0 to n-1, n a multiple of 4, each within
// 2^-106 and its first word within 2^-54 (1 + 2^-40).
func Circle(n int) []double.Num {
	const w = 192
	q := quarter(n, w)
	c := make([]double.Num, n)
	for m := range q {
		v := new(big.Float).SetInt(q[m])
		v.SetMantExp(v, -w)
		hi, _ := v.Float64()
		lo, _ := v.Sub(v, new(big.Float).SetFloat64(hi)).Float64()
		x := double.Num{Hi: hi, Lo: lo}
		c[m], c[(n-m)%n] = x, x
		if m < n/4 { // cos(pi/2) is +0
			c[n/2-m], c[n/2+m] = x.Neg(), x.Neg()
		}
	}
	return c
}
