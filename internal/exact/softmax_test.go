package exact

import (
	"math"
	"testing"
)

// TestSoftmaxBeside: shares that are simple numbers, and shares beside them.
func TestSoftmaxBeside(t *testing.T) {
	inf := math.Inf(-1)
	third := math.Float64frombits(math.Float64bits(1./3) | 1)
	for _, c := range []struct {
		line []float64
		want float64 // of the first number, rounded to odd
	}{
		{[]float64{3}, 1}, {[]float64{3, inf}, 1}, {[]float64{2, 2}, 0.5}, {[]float64{0, 0, 0}, third},
		{[]float64{0, -70000}, math.Nextafter(1, 0)}, {[]float64{0, 0, -70000}, math.Nextafter(0.5, 0)},
		{[]float64{0, 0, 0, -70000}, third}, {[]float64{-70000, 0}, math.SmallestNonzeroFloat64},
		{[]float64{-800, 0}, math.SmallestNonzeroFloat64},
	} {
		if got := NewSoftmax(c.line).Settle(c.line[0]); got != c.want {
			t.Errorf("%v: %v, want %v", c.line, got, c.want)
		}
	}
}
