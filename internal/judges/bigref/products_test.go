package bigref

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestProducts: sums of products are those of big integers, in two words as in more, up to where two words end.
func TestProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	words := 0
	for trial := range 2000 {
		n := 1 + r.IntN(40)
		x, y := make([]*big.Int, n), make([]*big.Int, n)
		width := 1 + r.IntN(66)
		for i := range n {
			for _, v := range [][]*big.Int{x, y} {
				v[i] = new(big.Int).Rsh(new(big.Int).SetUint64(r.Uint64()), uint(max(0, 64-width)))
				v[i].Lsh(v[i], uint(max(0, width-64)))
				if r.IntN(8) == 0 { // as large as it can be
					v[i].Sub(v[i].Lsh(big.NewInt(1), uint(width)), big.NewInt(1))
				}
				if r.IntN(2) == 0 || trial%8 == 0 {
					v[i].Neg(v[i])
				}
			}
		}
		p, sum, want, product := newProducts(x, y, n), total{}, new(big.Int), new(big.Int)
		for i := range n {
			p.add(&sum, i, n-1-i, product)
			want.Add(want, new(big.Int).Mul(x[i], y[n-1-i]))
		}
		if sum.value().Cmp(want) != 0 {
			t.Fatalf("trial %d: %d products of %d bits: %v, want %v", trial, n, width, sum.value(), want)
		}
		if p.smallX != nil {
			words++
		}
	}
	if words < 1000 || words == 2000 {
		t.Errorf("%d of 2000 sums were in two words", words)
	}
}
