package study

import (
	"math"
	"testing"
)

// curve returns f(1) to f(n).
func curve(n int, f func(t float64) float64) []float64 {
	y := make([]float64, n)
	for i := range y {
		y[i] = f(float64(i + 1))
	}
	return y
}

// TestFitGrowth: a known growth is found between rounding and saturation, and
// nothing is found where nothing grows exponentially.
func TestFitGrowth(t *testing.T) {
	for _, k := range []struct {
		name     string
		distance []float64
		rounding float64
		want     float64 // 0 for none
		from, to int
	}{
		{"a pure exponential", curve(60, func(t float64) float64 { return 1e-6 * math.Pow(1.4, t) }), 1e-7, 1.4, 1, 34},
		{"out of rounding noise", curve(60, func(t float64) float64 { return 1e-9 * math.Pow(1.5, t) }), 1e-8, 1.5, 12, 45},
		{"saturating", curve(60, func(t float64) float64 { return math.Min(0.9, 1e-6*math.Pow(1.4, t)) }), 1e-7, 1.4, 1, 34},
		{"a burst of noise first", append([]float64{3, 2},
			curve(58, func(t float64) float64 { return 1e-5 * math.Pow(1.3, t) })...), 1e-7, 1.3, 3, 37},
		{"a dip into rounding noise first", append([]float64{2e-6, 5e-7},
			curve(58, func(t float64) float64 { return 1e-6 * math.Pow(1.3, t) })...), 1e-7, 1.3, 3, 45},
		{"ends before it is large", curve(20, func(t float64) float64 { return 1e-6 * math.Pow(1.2, t) }), 1e-8, 1.2, 1, 20},
		{"constant", curve(60, func(float64) float64 { return 1e-5 }), 1e-8, 0, 0, 0},
		{"shrinking", curve(60, func(t float64) float64 { return math.Pow(0.8, t) / 10 }), 1e-9, 0, 0, 0},
		{"slow", curve(60, func(t float64) float64 { return 1e-6 * math.Pow(1.03, t) }), 1e-8, 0, 0, 0},
		{"a sum of steps", curve(500, func(t float64) float64 { return 1e-6 * t }), 1e-8, 0, 0, 0},
		{"a random walk", curve(500, func(t float64) float64 { return 1e-6 * math.Sqrt(t) }), 1e-8, 0, 0, 0},
		{"a square of the time", curve(200, func(t float64) float64 { return 1e-6 * t * t }), 1e-8, 0, 0, 0},
		{"inside rounding noise", curve(60, func(t float64) float64 { return 1e-9 * math.Pow(1.1, t) }), 1e-7, 0, 0, 0},
		{"too few steps", curve(4, func(t float64) float64 { return 1e-6 * math.Pow(10, t) }), 1e-8, 0, 0, 0},
		{"nothing moves", make([]float64, 60), 0, 0, 0, 0},
		{"infinite", curve(60, func(float64) float64 { return math.Inf(1) }), 1e-8, 0, 0, 0},
	} {
		rounding := curve(len(k.distance), func(float64) float64 { return k.rounding })
		g, ok := fitGrowth(k.distance, rounding)
		switch {
		case ok != (k.want > 0):
			t.Errorf("%s: %+v, %v", k.name, g, ok)
		case ok && (math.Abs(float64(g.PerStep)/k.want-1) > 1e-9 || g.From != k.from || g.To != k.to):
			t.Errorf("%s: %+v, want %v from %d to %d", k.name, g, k.want, k.from, k.to)
		}
	}
	// Of a disturbed exponential the fit finds the mean slope: a zigzag of
	// period 2, symmetric about the middle, does not tilt it.
	zigzag := curve(30, func(t float64) float64 { return 1e-6 * math.Pow(1.4, t) * (1 + 0.1*float64(int(t)%2)) })
	if g, ok := fitGrowth(zigzag, make([]float64, 30)); !ok || math.Abs(float64(g.PerStep)-1.4) > 2e-3 {
		t.Errorf("a zigzag: %+v, %v", g, ok)
	}
}

func TestSaturated(t *testing.T) {
	step := func(at int, low, high float64) []float64 {
		return curve(40, func(t float64) float64 {
			if int(t) < at {
				return low
			}
			return high
		})
	}
	for _, k := range []struct {
		name  string
		other []float64
		want  float64 // negative where it is not known
	}{
		{"settled early", step(10, 0, 0.9), 0.9},
		{"settled before the last half", step(20, 0, 0.75), 0.75},
		{"settled in the last quarter", step(31, 0.1, 0.75), -1},
		{"a little apart, for ever", step(1, 0, 0.02), 0.02},
		{"never apart", step(1, 0, 0), 0},
		{"moving apart", curve(40, func(t float64) float64 { return t / 40 }), -1},
		{"nearly settled", curve(40, func(t float64) float64 { return 1 - 0.5*math.Exp(-t/10) }), 0.985},
		{"infinite", step(1, 0, math.Inf(1)), -1},
		{"nan", step(1, 0, math.NaN()), -1},
		{"too few steps", []float64{1, 1, 1, 1, 1, 1, 1}, -1},
		{"just enough", []float64{1, 1, 1, 1, 1, 1, 1, 1}, 1},
		{"none", nil, -1},
	} {
		level, ok := Saturated(k.other)
		if ok != (k.want >= 0) || ok && math.Abs(level-k.want) > 1e-2 {
			t.Errorf("%s: %v, %v, want %v", k.name, level, ok, k.want)
		}
	}
}

// TestLost: a horizon, none, and not known are three things.
func TestLost(t *testing.T) {
	for _, k := range []struct {
		name     string
		distance []float64
		level    float64
		known    bool
		want     int
		measured bool
	}{
		{"lost", []float64{0.1, 0.3, 0.5, 0.2}, 0.8, true, 3, true},
		{"not within the steps", []float64{0.1, 0.3, 0.39}, 0.8, true, 0, true},
		{"paths that stay near each other", []float64{0.1, 0.2, 0.2}, 0.2, true, 0, true},
		{"far away, the level not known", []float64{0.1, 0.3, 0.5}, 0, false, 0, false},
		{"near, the level not known", []float64{0.01, 0.1, 0.12}, 0, false, 0, true},
		{"nan", []float64{0.01, math.NaN()}, 0, false, 0, false},
	} {
		if step, measured := Lost(k.distance, k.level, k.known); step != k.want || measured != k.measured {
			t.Errorf("%s: %d, %v", k.name, step, measured)
		}
	}
}

func TestHorizon(t *testing.T) {
	for _, k := range []struct {
		distance []float64
		want     int
	}{
		{[]float64{0.1, 0.4, 0.5, 0.3, 1}, 3},
		{[]float64{0.1, 0.4, 0.49, 0.3}, 0},
		{[]float64{0.7}, 1},
		{[]float64{0.1, math.Inf(1)}, 2},
		{[]float64{0.1, 0, math.NaN()}, 3},
		{nil, 0},
	} {
		if got := horizon(k.distance, 1); got != k.want {
			t.Errorf("%v: %d, want %d", k.distance, got, k.want)
		}
	}
}

// TestDistanceNonfinite: whatever is not finite is infinitely far.
func TestDistanceNonfinite(t *testing.T) {
	inf := math.Inf(1)
	for _, k := range [][2]float64{{math.NaN(), 1}, {inf, 1}, {-inf, 1}, {inf, inf}, {math.NaN(), math.NaN()}} {
		var d distance
		d.add([]float64{1, k[0]}, []float64{1, k[1]})
		if got := d.over(1); !math.IsInf(float64(got.MeanAbs), 1) || !math.IsInf(float64(got.MaxAbs), 1) ||
			!math.IsInf(float64(got.RMSOverStd), 1) {
			t.Errorf("%v: %+v", k, got)
		}
	}
}
