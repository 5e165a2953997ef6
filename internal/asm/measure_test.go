package asm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMeasure holds the kernels to loops over the numbers, bit for bit but for which NaN.
func TestMeasure(t *testing.T) {
	for _, b := range backends {
		if k := b.measure; k != nil {
			t.Run(b.name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 2))
				for _, n := range []int{4, 8, 12, 40, 1020} {
					for trial := range 40 {
						x, y := newGuarded[float64](n, math.NaN()), newGuarded[float64](n, math.NaN())
						normData(r, x.data(), trial&1 == 1)
						normData(r, y.data(), trial&2 == 2)
						measureOne(t, k, x.data(), y.data())
					}
				}
			})
		}
	}
}

func measureOne(t *testing.T, k *Measure, x, y []float64) {
	t.Helper()
	n, first := len(x), x[1]
	got := [4][4]float64{{1, 2, 3}, {first, first, first, first}, {first, first, first, first}, {first, first, first, first}}
	want := got
	by := [5]float64{0.5, -0.25, -7, 50, 11}
	sum, wantSum := [4]float64{4, 5, 6}, [4]float64{4, 5, 6}
	var counts, wantCounts struct{ before, is, after [8][64]int32 }
	for i, v := range x {
		want[0][0] += float64(v * v)
		want[0][1] += math.Abs(v)
		want[0][2] += v - first
		if v < want[1][i%4] {
			want[1][i%4] = v
		}
		if v > want[2][i%4] {
			want[2][i%4] = v
		}
		dx := v - by[0]
		wantSum[0] += dx
		wantSum[1] += float64(dx * dx)
		wantSum[2] += float64(dx * (y[i] - by[1]))
		bin := 0 // of what is no int32
		if q := float64((v-by[2])*by[3]) / by[4]; math.Abs(q) < 1<<31 {
			bin = int(q) & 63
		}
		wantCounts.is[i%8][bin]++
	}
	k.Sums(&x[0], n, &got)
	k.Count(&x[0], &y[0], n, &by, &sum, &counts.is)
	same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b }
	for i := range 4 {
		for j := range 4 {
			if !same(got[i][j], want[i][j]) {
				t.Fatalf("%d numbers: %v, want %v", n, got, want)
			}
		}
		if !same(sum[i], wantSum[i]) {
			t.Fatalf("%d numbers: %v, want %v", n, sum, wantSum)
		}
	}
	if counts != wantCounts {
		t.Fatalf("%d numbers: counts %v, want %v", n, counts, wantCounts)
	}
}
