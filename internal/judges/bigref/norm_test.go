package bigref_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
)

// TestNormByDigits holds the judge to 2000 bits of the formula, on inputs
// whose results are not ties.
func TestNormByDigits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	float := func(x *big.Rat) *big.Float { return new(big.Float).SetPrec(2000).SetRat(x) }
	for range 400 {
		xs := make([]float64, 1+r.IntN(6))
		for i := range xs {
			xs[i] = math.Ldexp(r.NormFloat64(), r.IntN(40)-20)
		}
		n := bigref.GroupNorm(xs, 1e-5)
		gamma, beta := math.Ldexp(r.NormFloat64(), r.IntN(40)-20), r.NormFloat64()
		if r.IntN(3) == 0 { // a result far below beta
			v, _ := n.V().Float64()
			mean, _ := n.Mean().Float64()
			beta = -gamma * (xs[0] - mean) / math.Sqrt(v)
		}
		y := float(new(big.Rat).Sub(bigref.Rat(xs[0]), n.Mean()))
		y.Mul(y, big.NewFloat(gamma))
		y.Quo(y, new(big.Float).Sqrt(float(n.V())))
		y.Add(y, big.NewFloat(beta))
		exact, _ := y.Rat(nil)
		for f := fp16.Float64; f <= fp16.BFloat16; f++ {
			if got, want := n.Round(xs[0], gamma, beta, f), bigref.Round(exact, f); got != want {
				t.Fatalf("%v: xs %x gamma %x beta %x: %x, want %x", f, xs, gamma, beta, got, want)
			}
			if got, want := n.Search(xs[0], gamma, beta, f), bigref.Round(exact, f); got != want {
				t.Fatalf("%v: xs %x gamma %x beta %x: found %x, want %x", f, xs, gamma, beta, got, want)
			}
		}
	}
}

func TestNormByHand(t *testing.T) {
	n := bigref.GroupNorm([]float64{1, 2, 3, 6}, 0.5) // squares 4+1+0+9 = 14
	if n.Mean().Cmp(big.NewRat(3, 1)) != 0 || n.V().Cmp(big.NewRat(4, 1)) != 0 {
		t.Fatalf("mean %v, V %v", n.Mean(), n.V())
	}
	if n := bigref.RunningNorm(0.25, 2, 0.5); n.Mean().Cmp(big.NewRat(1, 4)) != 0 || n.V().Cmp(big.NewRat(5, 2)) != 0 {
		t.Fatalf("running mean %v, V %v", n.Mean(), n.V())
	}
	negZero := math.Copysign(0, -1)
	for _, c := range []struct {
		f                    fp16.Format
		x, gamma, beta, want float64
	}{
		{fp16.Float32, 6, 1, 0, 1.5},
		{fp16.Float32, 1, 1, 0, -1},
		{fp16.Float32, 3, 1, 0, 0},
		{fp16.Float32, 3, -1, negZero, 0},
		{fp16.Float32, 1, 1, 1, 0},
		{fp16.Float16, 1, 2, 2051, 2048}, // 2049, a tie
		{fp16.Float16, 6, 2, 2048, 2052}, // 2051, a tie
		{fp16.Float16, 1, 2, -2047, -2048},
		{fp16.Float16, 6, 0x1p-25, 0, 0x1p-24}, // 1.5 of 2^-25
		{fp16.Float16, 5, 0x1p-25, 0, 0},       // half the least subnormal
		{fp16.Float16, 1, 0x1p-25, 0, negZero}, // minus that
		{fp16.Float16, 1, -65520, 0, math.Inf(1)},
		{fp16.Float16, 1, 65520, 0, math.Inf(-1)},
		{fp16.Float16, 1, -65519, 0, 65504},
		{fp16.BFloat16, 1, math.MaxFloat64, 0, math.Inf(-1)},
		{fp16.BFloat16, 7, 0, 1.00390625, 1}, // beta alone, a tie
	} {
		if got := n.Round(c.x, c.gamma, c.beta, c.f); math.Float64bits(got) != math.Float64bits(c.want) {
			t.Errorf("%v: x %g gamma %g beta %g: %g, want %g", c.f, c.x, c.gamma, c.beta, got, c.want)
		}
		if got := n.Search(c.x, c.gamma, c.beta, c.f); math.Float64bits(got) != math.Float64bits(c.want) {
			t.Errorf("%v: x %g gamma %g beta %g: found %g, want %g", c.f, c.x, c.gamma, c.beta, got, c.want)
		}
	}
}
