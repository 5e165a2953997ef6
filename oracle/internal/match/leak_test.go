package match

import (
	"math"
	"testing"
)

// TestLeak: states times a number near 1 show it. Another rounding of the one output that most pixels have is no
// such factor, though it is one of each state.
func TestLeak(t *testing.T) {
	const n, last = 4000, 0x1p-20
	for _, c := range []struct {
		name   string
		spread float64 // of the states, about 73
		change func(y float64) float64
		want   bool
	}{
		{"a leak", 20, func(y float64) float64 { return .9995 * y }, true},
		{"a leak of states that vary little", 1, func(y float64) float64 { return .9995 * y }, true},
		{"one output rounded otherwise", .001, func(y float64) float64 { return y + .195 }, false},
		{"the same of states that vary", 20, func(y float64) float64 { return y + .195 }, false},
	} {
		got, want := make([]float64, n), make([]float64, n)
		for i := range want {
			want[i] = 73 + c.spread*math.Sin(float64(i*i))
			if got[i] = want[i]; i%10 > 0 {
				got[i] = c.change(want[i])
			}
		}
		if f, with, without := factorOf(got, want, last); (with > 0) != c.want || c.want && math.Abs(f+.0005) > 1e-9 {
			t.Errorf("%s: factor 1%+.6g of %d numbers, %d as they should be: want one: %v", c.name, f, with, without, c.want)
		}
	}
}
