package exact

import (
	"math"
	"math/big"
	"testing"
)

// TestWeighted: means that are rational, and what is far below them on either side.
func TestWeighted(t *testing.T) {
	for _, far := range []float64{-800, -1000, -1030, -16000, -16400, -30000, -60000, -70000, -1e6} {
		weightedFrom(t, far)
	}
	// 1/(1+e^-1), rounded to odd: the sign of what is left of the nearest float64.
	z := []*big.Float{big.NewFloat(1), big.NewFloat(0)}
	y := Weighted(z, []float64{1, 0})
	if want := 1 / (1 + math.Exp(-1)); math.Abs(y-want) > 0x1p-52 || math.Float64bits(y)&1 == 0 {
		t.Errorf("%v, want about %v and odd", y, want)
	}
}

func weightedFrom(t *testing.T, far float64) {
	const step = 0x1p-23
	up, down := math.Nextafter(1+step/2, 2), math.Nextafter(1+step/2, 1)
	for _, c := range []struct {
		z, v []float64
		want float64 // rounded to odd
	}{
		{[]float64{3}, []float64{5}, 5},
		{[]float64{3, 3}, []float64{1, 1 + step}, 1 + step/2},
		{[]float64{3, 1, 3, 1}, []float64{1, 1 + step, 1 + step, 1}, 1 + step/2},
		{[]float64{0, 0, far}, []float64{1, 1 + step, 2}, up},
		{[]float64{far, 0, 0}, []float64{1, 1, 1 + step}, down},
		{[]float64{0, 0, far, 2 * far}, []float64{1, 1 + step, 1 + step/2, 2}, up},
		{[]float64{0, 0, far, far + 1}, []float64{-1, -1 - step, 0, -2}, -up},
		{[]float64{0, 0, far}, []float64{-1, -1 - step, 0}, -down},
		{[]float64{0, 0, far}, []float64{1, -1, -1}, -math.SmallestNonzeroFloat64},
		{[]float64{0, 0}, []float64{1, -1}, 0},
	} {
		z := make([]*big.Float, len(c.z))
		for i, v := range c.z {
			z[i] = big.NewFloat(v)
		}
		if got := Weighted(z, c.v); math.Float64bits(got) != math.Float64bits(c.want) {
			t.Errorf("%v of %v: %v, want %v", c.z, c.v, got, c.want)
		}
	}
}
