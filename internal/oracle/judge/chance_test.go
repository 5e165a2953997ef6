package judge

import (
	"math"
	"testing"
)

// TestRatioTail: against mpmath's incomplete beta function of 60 digits.
func TestRatioTail(t *testing.T) {
	t.Parallel()
	for _, c := range [][4]float64{
		{1.0, 10.0, 4.0, -2.6119943706725079},
		{1.0, 10.0, 250.0, -17.676225639161512},
		{1.0, 40.0, 50.0, -18.019446805247957},
		{1.0, 4.0, 1000000.0, -25.839268313354382},
		{0.01, 40.0, 300.0, -7.4605432932280077},
		{0.5, 40.0, 20.0, -6.9131933931602347},
		{2.0, 3.0, 0.5, -0.43152310867767139},
		{3.0, 7.0, 1.0, -0.80501859403411774},
		{30.0, 1000.0, 3.0, -15.627035945521105},
		{1000.0, 32000.0, 1.3, -20.966150410569444},
		{1000.0, 32000.0, 0.98, -0.40630131401380494},
		{66667.0, 2000000.0, 1.04, -28.025649489955418},
		{7.0, 10000000.0, 9.0, -23.995997599101015},
		{1.0, 1000000000.0, 60.0, -32.288986102925276},
		{200.0, 200.0, 40.0, -238.71688870198177},
		{0.001, 8.0, 100000.0, -19.335818853067025},
		{5.0, 2.0, 0.001, -3.1055543621054499e-7},
	} {
		n, m, x, want := c[0], c[1], c[2], c[3]
		got := ratioTail(n, m, x)
		if !(math.Abs(got-want) <= 1e-6*math.Abs(want)) {
			t.Errorf("F of %v and %v beyond %v: %v, want %v", n, m, x, got, want)
		}
		tail := func(x float64) float64 { return ratioTail(n, m, x) }
		if back := beyond(tail, got); !(math.Abs(tail(back)-got) <= 1e-6*math.Abs(got)) {
			t.Errorf("F of %v and %v has its chance %v at %v, of %v", n, m, got, back, x)
		}
	}
	for _, edge := range [][2]float64{{0, 0}, {-1, 0}, {math.Inf(1), math.Inf(-1)}} {
		if got := ratioTail(3, 5, edge[0]); got != edge[1] {
			t.Errorf("beyond %v: %v, want %v", edge[0], got, edge[1])
		}
	}
}
