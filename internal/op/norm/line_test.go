package norm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/judges/bigref"
)

// TestBound holds eval to its bound: |y - exact| <= bound, by exact comparison
// with both ends of the interval. The largest ratio, of which the derivation
// expects a good part of 1, is checked to be one: a bound far too wide would
// send elements to the settle step for nothing.
func TestBound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	worst := 0.0
	check := func(std *exact.Standard, judge bigref.Norm, x, gamma, beta float64) {
		t.Helper()
		y, bound := newLine(std, gamma, beta).eval(x)
		if y != y || !(bound <= math.MaxFloat64) {
			return // says nothing, so the guard flags
		}
		at, width := bigref.Rat(y), bigref.Rat(bound)
		lo, hi := new(big.Rat).Sub(at, width), new(big.Rat).Add(at, width)
		if judge.Compare(x, gamma, beta, lo) < 0 || judge.Compare(x, gamma, beta, hi) > 0 {
			t.Fatalf("x %x mean %x + %x V %x gamma %x beta %x: y %x is not within %x of the exact value",
				x, std.MuHi, std.MuLo, std.V, gamma, beta, y, bound)
		}
		if bound > 0 {
			worst = max(worst, distance(judge, x, gamma, beta, y)/bound)
		}
	}
	rn32 := func(x float64) float64 { return float64(float32(x)) }
	wide := func(e int) float64 { return rn32(math.Ldexp(r.NormFloat64(), r.IntN(2*e)-e)) }
	for _, x := range []func() float64{
		r.NormFloat64,
		func() float64 { return 1e4 + 1e-3*r.NormFloat64() },
		func() float64 { return 1 + 0x1p-23*float64(r.IntN(4)) },
		func() float64 { return wide(100) },
		func() float64 { return 0x1p-149 * float64(r.IntN(16)-8) },
		func() float64 { return float64(r.IntN(9) - 4) },
		func() float64 { return []float64{1, -1, 0, 0x1p-60}[r.IntN(4)] },
		func() float64 { return 7 },
	} {
		for range 120 {
			xs := make([]float64, 1+r.IntN(20))
			for i := range xs {
				xs[i] = rn32(x())
			}
			var m exact.Moments
			m.Add(xs)
			eps := []float64{1e-5, 1, 0x1p-300}[r.IntN(3)]
			std, judge := m.Standard(eps), bigref.GroupNorm(xs, eps)
			mean, variance := rn32(x()), rn32(min(math.Abs(x()*x()), math.MaxFloat32))
			running, runningJudge := exact.Running(mean, variance, eps), bigref.RunningNorm(mean, variance, eps)
			for _, x := range xs[:min(3, len(xs))] {
				check(std, judge, x, 1, 0)
				check(std, judge, x, wide(60), wide(60))
				check(std, judge, x, rn32(r.NormFloat64()), rn32(r.NormFloat64()))
				check(std, judge, x, 0, wide(60))
				check(running, runningJudge, x, rn32(r.NormFloat64()), rn32(r.NormFloat64()))
				// A beta that cancels the product leaves its errors alone.
				gamma := 0.5 + r.Float64()
				y, _ := newLine(std, gamma, 0).eval(x)
				check(std, judge, x, gamma, -y)
			}
		}
	}
	t.Logf("largest error: %.3f of the bound", worst)
	if worst < 0.3 {
		t.Errorf("largest error is only %.3f of the bound", worst)
	}
}

// distance returns |y - gamma (x-mean)/sqrt(V) - beta| from 1500 bits.
func distance(judge bigref.Norm, x, gamma, beta, y float64) float64 {
	float := func(r *big.Rat) *big.Float { return new(big.Float).SetPrec(1500).SetRat(r) }
	z := float(new(big.Rat).Sub(bigref.Rat(x), judge.Mean()))
	z.Mul(z, float(bigref.Rat(gamma)))
	z.Quo(z, new(big.Float).Sqrt(float(judge.V())))
	z.Add(z, float(bigref.Rat(beta)))
	d, _ := z.Sub(z, float(bigref.Rat(y))).Float64()
	return math.Abs(d)
}

// TestExactLine: where the bound is 0 the value is beta.
func TestExactLine(t *testing.T) {
	constant := new(exact.Moments)
	constant.Add([]float64{5, 5, 5})
	varied := new(exact.Moments)
	varied.Add([]float64{5, 6, 7})
	for _, c := range []struct {
		of          *exact.Moments
		x, gamma    float64
		wantNothing bool
	}{{constant, 5, 3, true}, {varied, 6, 3, true}, {varied, 5, 0, true}, {varied, 5, 3, false}} {
		y, bound := newLine(c.of.Standard(1e-5), c.gamma, 1.5).eval(c.x)
		if (bound == 0 && y == 1.5) != c.wantNothing {
			t.Errorf("x %g gamma %g: %x, bound %x", c.x, c.gamma, y, bound)
		}
	}
	// A product that underflows is no exact zero.
	if _, bound := newLine(exact.Running(0x1p-600, 1, 0), 0x1p-490, 1).eval(0); bound == 0 {
		t.Error("an underflow passes for an exact value")
	}
	if y, bound := newLine(exact.Running(0x1p-600, 1, 0), 0x1p-490, 0).eval(0); !(y-bound < -0x1p-1074) {
		t.Errorf("-2^-1090 is given as %x, bound %x", y, bound)
	}
}
