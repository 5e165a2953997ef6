package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestHeld: amplitude, t and gain of a signature whose share of the residual is
// known, and their widening where errors are not independent.
func TestHeld(t *testing.T) {
	const n, clusters = 1 << 14, 64
	rng := rand.New(rand.NewPCG(1, 2))
	unit := func() float64 { return math.Sqrt(12) * (rng.Float64() - 0.5) }
	q, cluster := make([]float64, n), make([]int32, n)
	common := make([]float64, clusters)
	for i := range common {
		common[i] = unit()
	}
	free, shared := make([]float64, n), make([]float64, n)
	for i := range q {
		q[i] = 0.5
		cluster[i] = int32(i * clusters / n)
		free[i] = 0.7*q[i] + unit()
		shared[i] = 0.7*q[i] + common[cluster[i]]
	}
	m := Hold(free, q, cluster, clusters)
	// <q,q> = n/4: sigma_c = 2/128.
	if math.Abs(m.C-0.7) > 0.07 || math.Abs(m.Sigma*64-1) > 0.4 || math.Abs(m.T*m.Sigma-m.C) > 1e-12 {
		t.Errorf("independent errors: c %v, sigma %v: want 0.7 and 1/64", m.C, m.Sigma)
	}
	if want := 0.7 * 0.7 / 4 / (1 + 0.7*0.7/4); math.Abs(m.Gain-want) > 0.02 {
		t.Errorf("gain %v, want %v", m.Gain, want)
	}
	if want := math.Sqrt(1 + 0.3*0.3/4); math.Abs(m.After-want) > 0.02 {
		t.Errorf("what is left: %v, want %v", m.After, want)
	}
	// Errors that 256 neighbours share: sigma_c = 2/8.
	if m := Hold(shared, q, cluster, clusters); math.Abs(m.Sigma*4-1) > 0.3 {
		t.Errorf("shared errors: sigma %v, want 1/4", m.Sigma)
	}
	m.Spread([][]float64{q, q}, q, 1)
	if m.Sigma != 1 {
		t.Errorf("correct devices with the signature itself: sigma %v, want 1", m.Sigma)
	}
	// Correct devices with a fifth of it, give or take a hundredth: what explains
	// most of a residual is held against twice that, and the hundredth.
	some := [][]float64{Scaled(q, 0.19), Scaled(q, 0.2), Scaled(q, 0.21)}
	for _, test := range []struct{ c, gain, t float64 }{
		{0.95, 0.6, 55}, {0.95, 0.4, 4.75}, {0.41, 0.6, 2.05}, {-0.95, 0.6, -55},
	} {
		m := Match{C: test.c, Gain: test.gain, Sigma: 1e-3, QQ: Dot(q, q), Shown: 1}
		if m.Spread(some, q, 1); math.Abs(m.T-test.t) > 0.01*math.Abs(test.t) {
			t.Errorf("amplitude %v of gain %v beside correct ones of 0.2: t %v, want %v", test.c, test.gain, m.T, test.t)
		}
	}
	// The same where q is the signature of a quarter: amplitudes of 0.05.
	m = Match{C: 0.4, Sigma: 1e-3, QQ: 16 * Dot(q, q), Shown: 1}
	if m.Spread([][]float64{Scaled(q, 0.2), Scaled(q, -0.2)}, q, 0.25); math.Abs(m.T-8) > 1e-9 {
		t.Errorf("amplitude 0.4 beside correct ones of 0.05: t %v, want 8", m.T)
	}
}

// TestTuned: t of an amplitude that was found by trial is that of what the residual
// has really less, and 0 if it has more.
func TestTuned(t *testing.T) {
	for _, c := range []struct{ rr, rest, qq, want float64 }{
		{100, 36, 64, 10}, // all of the signature is in the residual
		{100, 84, 64, 5},  // a quarter of its square
		{100, 100, 64, 0}, {100, 124, 64, 0},
		{100, 20, 64, 10}, // the residual has more of it
	} {
		m := Match{rr: c.rr}
		m.Tuned(0.3, Match{N: 50, rr: c.rest, Sigma: 0.03}, c.qq)
		if math.Abs(m.T-c.want) > 1e-12 || math.Abs(m.Gain-(1-c.rest/c.rr)) > 1e-12 {
			t.Errorf("%v left of %v by a signature of %v: t %v, gain %v: want %v", c.rest, c.rr, c.qq, m.T, m.Gain, c.want)
		}
	}
}
