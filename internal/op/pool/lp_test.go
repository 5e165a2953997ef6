package pool

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// surely reports whether two float64 say that a norm is v.
func surely(x []float64, p int, f fp16.Format, v float64) bool {
	if p > 2 {
		return false
	}
	sum := bigref.Ball{}
	for _, a := range x {
		b := bigref.Exactly(math.Abs(a))
		if p == 2 {
			b = b.Mul(b)
		}
		sum = sum.Add(b)
	}
	if p == 2 {
		sum = sum.Sqrt()
	}
	y, ok := sum.Round(f)
	return ok && sameBits(v, y)
}

// TestLp: a norm is the number v of the format for which the exact one lies between the
// middles of v and its neighbours, on the middle if v is the even one: of roots that is
// decided by squares, of random windows, and of those whose norm is such a middle.
func TestLp(t *testing.T) {
	r, o := rand.New(rand.NewPCG(9, 10)), hashed.New(t, *elements)
	middles := 0
	for trial, seen := 0, 0; seen < *elements; trial++ {
		kind := trial % (len(kinds) + 1)
		n := 1 + r.IntN(9)
		x := random(r, kind%len(kinds), fp16.Float32, []int{3, n})
		if kind == len(kinds) { // Pythagorean triples that are the middle of two numbers
			n = 2
			k := float64(int(1)<<r.IntN(3)) * (float64(r.IntN(1<<9))*2 + 1)
			x = tensor.Of(fp16.Float32, []float64{3 * k, 4 * k, -5 * k, 12 * k, 8 * k, -15 * k}, 3, 2)
		}
		orders := []int{1, 2}
		if trial%40 == 0 { // each takes fractions
			orders = append(orders, 3, 4, 7, MaxP)
		}
		for _, p := range orders {
			for _, f := range formats {
				y := tensor.New(f, 3, 1)
				Lp(y, x, p, Blocks(n, n))
				if p > 2 {
					o.Add("lp, higher", y.Data...)
				} else {
					o.Add("lp", y.Data...)
				}
				for i, v := range y.Data {
					if p <= 2 {
						seen++
					}
					if !o.Judge || kind < len(kinds) && surely(x.Data[i*n:(i+1)*n], p, f, v) {
						continue
					}
					power := func(a float64) *big.Rat {
						q, all := bigref.Rat(a), big.NewRat(1, 1)
						for range p {
							all.Mul(all, q)
						}
						return all
					}
					sum := new(big.Rat)
					for _, a := range x.Data[i*n : (i+1)*n] {
						sum.Add(sum, power(math.Abs(a)))
					}
					if sum.Sign() == 0 {
						if !sameBits(v, 0) {
							t.Fatalf("%v: norm %v: want 0", x.Data, v)
						}
						continue
					}
					if math.IsInf(v, 1) {
						continue // which Round of bigref holds for p 1, below
					}
					ulp := f.Ulp(v)
					hi := sum.Cmp(power(v + ulp/2))
					below := ulp
					if m, _ := math.Frexp(v); m == 0.5 && f.Round(v-ulp/2) == v-ulp/2 {
						below /= 2 // a power of two, above subnormal numbers
					}
					lo := -1
					if v > 0 {
						lo = power(v - below/2).Cmp(sum)
					}
					even := math.Mod(v/ulp, 2) == 0
					if hi > 0 || lo > 0 || !even && (hi == 0 || lo == 0) {
						t.Fatalf("trial %d: p %d of %v to %v: %v", trial, p, x.Data[i*n:(i+1)*n], f, v)
					}
					if hi == 0 || lo == 0 {
						middles++
					}
					if want := bigref.Round(sum, f); p == 1 && !sameBits(v, want) {
						t.Fatalf("trial %d: p 1 of %v to %v: %v: want %v", trial, x.Data[i*n:(i+1)*n], f, v, want)
					}
				}
			}
		}
	}
	if middles < 100 && o.Judge {
		t.Errorf("only %d middles", middles)
	}
	y := tensor.New(fp16.Float64, 1, 1)
	for _, k := range []struct{ x, want []float64 }{
		{[]float64{3, -4}, []float64{7, 5}}, {[]float64{math.Inf(-1), 1}, []float64{math.Inf(1), math.Inf(1)}},
		{[]float64{math.NaN(), math.Inf(1)}, []float64{fp16.NaN, fp16.NaN}},
		{[]float64{math.Copysign(0, -1), 0}, []float64{0, 0}},
	} {
		for p := 1; p <= 2; p++ {
			if Lp(y, tensor.Of(fp16.Float32, k.x, 1, 2), p, Blocks(2, 2)); !sameBits(y.Data[0], k.want[p-1]) {
				t.Errorf("p %d of %v: %v: want %v", p, k.x, y.Data[0], k.want[p-1])
			}
		}
	}
}
