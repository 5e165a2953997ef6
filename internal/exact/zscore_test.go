package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// scoreNear returns (x-mu)/(sigma+eps) in 400 bits, written from the textbook
// definition: two passes over the numbers.
func scoreNear(xs []float64, x, eps float64) *big.Float {
	f := func(v float64) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(v) }
	n := f(float64(len(xs)))
	mean := f(0)
	for _, v := range xs {
		mean.Add(mean, f(v))
	}
	mean.Quo(mean, n)
	sq := f(0)
	for _, v := range xs {
		d := f(0).Sub(f(v), mean)
		sq.Add(sq, d.Mul(d, d))
	}
	sigma := sq.Quo(sq, f(float64(len(xs)-1)))
	sigma.Sqrt(sigma)
	d := f(0).Sub(f(x), mean)
	return d.Quo(d, sigma.Add(sigma, f(eps)))
}

func TestZScore(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		n := 2 + r.IntN(9)
		xs := make([]float64, n)
		scale := math.Ldexp(1, r.IntN(40)-20)
		for j := range xs {
			xs[j] = float64(float32(scale * r.NormFloat64()))
			if i%3 == 0 {
				xs[j] += float64(float32(1000 * scale)) // a mean that is large
				xs[j] = float64(float32(xs[j]))
			}
		}
		var m Moments
		m.Add(xs)
		z := m.ZScore(1e-8)
		x := xs[r.IntN(n)]
		got := z.Settle(x)
		want := scoreNear(xs, x, 1e-8)
		if w, _ := want.Float32(); float32(fp16.Float32.Round(got)) != w {
			t.Fatalf("%v of %v: got %v, want %v", x, xs, got, want)
		}
		// Rounded to odd: truncated, last bit set unless exact.
		exactly := new(big.Float).SetPrec(2000).SetFloat64(got)
		if math.Float64bits(got)&1 == 0 && exactly.Cmp(want) != 0 {
			if w, _ := new(big.Float).Sub(exactly, want).Float64(); math.Abs(w) > 1e-300 {
				t.Fatalf("%v of %v: %v is not odd and not exact", x, xs, got)
			}
		}
	}
}

// TestZScoreTies settles scores that are float64 numbers or lie halfway between
// float32 numbers.
func TestZScoreTies(t *testing.T) {
	// {-3,-1,1,3}*s: the unbiased variance is 20/3 s^2; {-1,0,1}: 1.
	for _, c := range []struct {
		xs        []float64
		x, eps, y float64
	}{
		{[]float64{-1, 0, 1}, 1, 0, 1},
		{[]float64{-1, 0, 1}, 1, 1, 0.5},
		{[]float64{-1, 0, 1}, -1, 3, -0.25},
		{[]float64{4, 5, 6}, 5, 0, 0},
		{[]float64{7, 7, 7}, 7, 1e-8, 0},
		{[]float64{7, 7, 7}, 7, 0, 0},
		// (1+2^-23) / 1 halved twice stays representable; over 1+1 it is the
		// float32 1+2^-23 over 2.
		{[]float64{-1, 0, 1}, 1 + 0x1p-23, 1, (1 + 0x1p-23) / 2},
	} {
		var m Moments
		m.Add(c.xs)
		if got := m.ZScore(c.eps).Settle(c.x); got != c.y {
			t.Errorf("%v in %v, eps %v: got %v, want exactly %v", c.x, c.xs, c.eps, got, c.y)
		}
	}
	for _, xs := range [][]float64{{1}, {1, math.NaN()}, {1, math.Inf(1)}} {
		var m Moments
		m.Add(xs)
		if got := m.ZScore(1e-8).Settle(1); got == got {
			t.Errorf("score among %v is %v, want NaN", xs, got)
		}
	}
}
