package exact_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/judges/bigref"
)

var formats = []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}

func same(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func rn32(x float64) float64 { return float64(float32(x)) }

// groups returns sets of float32 numbers that are hard in one way or another.
func groups(r *rand.Rand) [][]float64 {
	fill := func(n int, f func() float64) []float64 {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = rn32(f())
		}
		return xs
	}
	return [][]float64{
		fill(100, r.NormFloat64),
		fill(1, r.NormFloat64),
		fill(2, r.NormFloat64),
		fill(7, func() float64 { return 0.1 }),
		fill(64, func() float64 { return 1e4 + 1e-3*r.NormFloat64() }),
		fill(31, func() float64 { return 1 + math.Ldexp(float64(r.IntN(3)), -23) }),
		fill(50, func() float64 { return math.Ldexp(r.NormFloat64(), r.IntN(250)-130) }),
		fill(20, func() float64 { return math.Ldexp(float64(r.IntN(16)-8), -149) }),
		fill(16, func() float64 { return float64(2*r.IntN(2) - 1) }),
		fill(3, func() float64 { return math.Copysign(math.MaxFloat32, r.NormFloat64()) }),
		{1, -1, 0x1p-60},         // a mean far below every ulp of the numbers
		{0, 0x1.fffffep-1, 1, 1}, //
		{0x1p-149, -0x1p-149, 0}, //
		{0x1p127, -0x1p127, 0x1p-149},
		{0x1.8p127, 0x1.8p127, 0x1.8p127},
	}
}

func moments(xs []float64) *exact.Moments {
	m := new(exact.Moments)
	m.Add(xs)
	return m
}

// nearest returns the float64 nearest to x, by the judge.
func nearest(x *big.Rat) float64 { return bigref.Round(x, fp16.Float64) }

func TestStandard(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for i, xs := range groups(r) {
		for _, eps := range []float64{1e-5, 0, 1, 0x1p-700} {
			s := moments(xs).Standard(eps)
			want := bigref.GroupNorm(xs, eps)
			hi := nearest(want.Mean())
			lo := nearest(new(big.Rat).Sub(want.Mean(), bigref.Rat(hi)))
			if s.MuHi != hi || s.MuLo != lo || s.V != nearest(want.V()) {
				t.Errorf("group %d, eps %g: %x + %x, V %x; want %x + %x, V %x",
					i, eps, s.MuHi, s.MuLo, s.V, hi, lo, nearest(want.V()))
			}
			// In parts, whatever their order.
			all := new(exact.Moments)
			for k := len(xs); k > 0; k-- {
				part := moments(xs[k-1 : k])
				all.Merge(part)
			}
			if p := all.Standard(eps); p.MuHi != hi || p.MuLo != lo || p.V != s.V {
				t.Errorf("group %d: parts merge to %x + %x, V %x", i, p.MuHi, p.MuLo, p.V)
			}
		}
	}
}

// settled compares Settle with the judge in every format.
func settled(t *testing.T, s *exact.Standard, judge bigref.Norm, x, gamma, beta float64) {
	t.Helper()
	odd := s.Settle(x, gamma, beta)
	for _, f := range formats {
		if got, want := f.Round(odd), judge.Round(x, gamma, beta, f); !same(got, want) {
			t.Fatalf("%v: x %x gamma %x beta %x mean %x V %x: %x rounds to %x, want %x",
				f, x, gamma, beta, s.MuHi, s.V, odd, got, want)
		}
	}
}

func TestSettleGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, xs := range groups(r) {
		for _, eps := range []float64{1e-5, 1, 0x1p-700} {
			s, judge := moments(xs).Standard(eps), bigref.GroupNorm(xs, eps)
			for range 6 {
				x := xs[r.IntN(len(xs))]
				settled(t, s, judge, x, 1, 0)
				settled(t, s, judge, x, rn32(r.NormFloat64()), rn32(r.NormFloat64()))
				settled(t, s, judge, x, rn32(math.Ldexp(r.NormFloat64(), r.IntN(240)-120)),
					rn32(math.Ldexp(r.NormFloat64(), r.IntN(240)-120)))
			}
			settled(t, s, judge, xs[0], 0, -1.5)
			settled(t, s, judge, xs[0], 0, 0)
			settled(t, s, judge, xs[0], -1, math.Copysign(0, -1))
		}
	}
}

// TestSettleTies makes V the square of an integer, so that results are
// numbers of few bits: ties of the narrow formats, points of the float64 grid,
// and zeros by cancelling, all exact.
func TestSettleTies(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var ties, zeros, points int
	for range 3000 {
		k := float64(1 + r.IntN(9))
		mean := float64(r.IntN(9) - 4)
		s, judge := exact.Running(mean, k*k-0.25, 0.25), bigref.RunningNorm(mean, k*k-0.25, 0.25)
		x := float64(r.IntN(33) - 16)
		gamma := k * float64(r.IntN(9)-4)
		beta := math.Ldexp(float64(r.IntN(1<<14)-1<<13), -r.IntN(14))
		if r.IntN(4) == 0 {
			beta = -gamma * (x - mean) / k
		}
		y := gamma*(x-mean)/k + beta // exact: small dyadic numbers
		odd := s.Settle(x, gamma, beta)
		if odd != y || y == 0 && math.Signbit(odd) {
			t.Fatalf("x %g gamma %g beta %g mean %g V %g: %x, is exactly %x", x, gamma, beta, mean, k*k, odd, y)
		}
		points++
		if y == 0 {
			zeros++
		}
		if h := 2 * y; !fp16.Float16.Holds(y) && fp16.Float16.Ulp(y) == math.Abs(y-fp16.Float16.Round(y))*2 && h != 0 {
			ties++
		}
		settled(t, s, judge, x, gamma, beta)
	}
	if ties < 50 || zeros < 300 {
		t.Errorf("only %d ties and %d zeros among %d", ties, zeros, points)
	}
}

// TestSettleNearTies puts beta where gamma (x-mu)/sqrt(V) almost cancels it or
// completes it to a tie: V is irrational's square but for a hair.
func TestSettleNearTies(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 500 {
		// sqrt(V) = k (1 +- 2^-e), nearly; V = k^2 +- k^2 2^-e.
		k := float64(1 + r.IntN(9))
		eps := math.Ldexp(k*k, -r.IntN(1000)-3)
		variance := k * k
		if r.IntN(2) == 0 {
			variance = math.Nextafter(variance, 0)
		}
		s, judge := exact.Running(0, variance, eps), bigref.RunningNorm(0, variance, eps)
		x := float64(1 + r.IntN(64))
		tie := math.Ldexp(float64(2*r.IntN(4096)+1), -r.IntN(13)-1)
		settled(t, s, judge, x, k, tie-x)
		settled(t, s, judge, x, k, -x)
		settled(t, s, judge, -x, k, x)
	}
}

// TestSettleOdd checks the rounding to odd itself: the result is y, or it has
// an odd last bit and y lies strictly between its neighbours.
func TestSettleOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 2000 {
		mean, variance := r.NormFloat64(), r.ExpFloat64()
		s, judge := exact.Running(mean, variance, 1e-5), bigref.RunningNorm(mean, variance, 1e-5)
		x, gamma, beta := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		if r.IntN(2) == 0 { // cancel nearly all
			beta = -gamma * (x - mean) / math.Sqrt(variance+1e-5)
		}
		y := s.Settle(x, gamma, beta)
		side := func(v float64) int { return judge.Compare(x, gamma, beta, bigref.Rat(v)) }
		switch {
		case side(y) == 0:
		case math.Float64bits(y)&1 == 0:
			t.Fatalf("%x is even", y)
		case side(math.Nextafter(y, math.Inf(-1))) <= 0 || side(math.Nextafter(y, math.Inf(1))) >= 0:
			t.Fatalf("%x is not next to the exact value", y)
		}
	}
}

// TestSettleExtremes uses parameters at the limits of float64, where the
// result leaves its range.
func TestSettleExtremes(t *testing.T) {
	big, tiny := 0x1p1000, math.SmallestNonzeroFloat64
	for _, c := range []struct{ x, mean, variance, eps, gamma, beta float64 }{
		{1, 0, 1, 0, big, 0},
		{-big, big, tiny, tiny, math.MaxFloat64, 0},
		{-big, big, tiny, tiny, -math.MaxFloat64, -math.MaxFloat64},
		{1, 1 - 0x1p-53, big, 0, tiny, 0},
		{1, 1 - 0x1p-53, big, 0, -tiny, 0},
		{1, 1 - 0x1p-53, big, tiny, tiny, 1.5},
		{tiny, -tiny, tiny, 0, tiny, -tiny},
		{1, 0, 1, tiny, 1, -1}, // 1/sqrt(1+2^-1074) - 1: below zero by 2^-1075
		{1, 0, 1, tiny, 0x1p100, -0x1p100},
		{1, 0, 1, tiny, 1, 0},
		{2049, 0, 1, tiny, 1, 0}, // a hair below a tie
		{-2051, 0, 1, tiny, 1, 0},
		{2049, 0, 1, tiny, -1, 0},
		{65520, 0, 1, tiny, 1, 0}, // a hair below overflow
	} {
		settled(t, exact.Running(c.mean, c.variance, c.eps), bigref.RunningNorm(c.mean, c.variance, c.eps), c.x,
			c.gamma, c.beta)
	}
}

func TestSettleSpecials(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct{ mean, variance, eps, x, gamma, beta, want float64 }{
		{0, 0, 0, 1, 1, 1, nan},
		{0, -1, 0.5, 1, 1, 1, nan},
		{0, -1, 1, 0, 0, 1, nan},
		{0, 1, 0, inf, 2, 1, inf},
		{0, 1, 0, -inf, 2, 1, -inf},
		{0, 1, 0, inf, -2, 1, -inf},
		{0, 1, 0, inf, 0, 1, nan},
		{0, 1, 0, nan, 0, 1, nan},
		{inf, 1, 0, 3, 1, 0, -inf},
		{inf, 1, 0, inf, 1, 0, nan},
		{0, inf, 0, 3, 1, 7, 7},
		{0, inf, 0, inf, 1, 7, nan},
		{0, nan, 0, 3, 1, 7, nan},
		{0, 1, 0, 3, inf, 7, inf},
		{3, 1, 0, 3, inf, 7, nan},
		{0, 1, 0, 3, 1, -inf, -inf},
		{0, 1, 0, inf, 1, -inf, nan},
	} {
		got := exact.Running(c.mean, c.variance, c.eps).Settle(c.x, c.gamma, c.beta)
		if got != c.want && (got == got || c.want == c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, bad := range []float64{inf, -inf, nan} {
		s := moments([]float64{1, bad, 2}).Standard(1e-5)
		if got := s.Settle(1, 0, 1); got == got || s.V == s.V || s.MuHi == s.MuHi {
			t.Errorf("a group with %g: %v", bad, got)
		}
	}
	if got := moments([]float64{5, 5}).Standard(0).Settle(5, 1, 0); got == got {
		t.Errorf("0/0 is %v", got)
	}
}
