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
	got := [4][4]float64{
		{1, 2, 3}, {first, first, first, first}, {first, first, first, first}, {first, first, first, first},
	}
	want := got
	by := [5]float64{0.5, -0.25, -7, 50, 11}
	var spread [5][4]float64
	for i, v := range by {
		spread[i] = [4]float64{v, v, v, v}
	}
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
	k.Count(&x[0], &y[0], n, &spread, &sum, &counts.is)
	got[0][3], sum[3] = want[0][3], wantSum[3] // nothing
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

// TestMeasureTwo holds the kernels for two rows to those for one.
func TestMeasureTwo(t *testing.T) {
	for _, b := range backends {
		k := b.measure
		if k == nil {
			continue
		}
		r := rand.New(rand.NewPCG(3, 4))
		for _, n := range []int{4, 8, 12, 1020} {
			for range 40 {
				var x, y [2][]float64
				var to, wantTo [2][4][4]float64
				var by [2][5][4]float64
				var sum, wantSum [2][4]float64
				var counts, wantCounts [2][8][64]int32
				for row := range 2 {
					x[row], y[row] = make([]float64, n), make([]float64, n)
					for i := range n {
						x[row][i], y[row][i] = r.NormFloat64(), r.NormFloat64()
					}
					for lane := range 4 {
						to[row][0][lane] = r.NormFloat64()
						for i, v := range []float64{1, float64(row), -2, 50, 13 + float64(row)} {
							by[row][i][lane] = v
						}
					}
					to[row][1], to[row][2], to[row][3] = to[row][0], to[row][0], to[row][0]
					sum[row] = to[row][0]
					wantTo[row], wantSum[row] = to[row], sum[row]
					k.Sums(&x[row][0], n, &wantTo[row])
					k.Count(&x[row][0], &y[row][0], n, &by[row], &wantSum[row], &wantCounts[row])
				}
				k.SumsTwo(&x[0][0], &x[1][0], n, &to)
				k.CountTwo(&x[0][0], &y[0][0], &x[1][0], &y[1][0], n, &by, &sum, &counts)
				if to != wantTo || sum != wantSum || counts != wantCounts {
					t.Fatalf("%s: %d numbers: sums %v, %v, counts %v; want %v, %v, %v",
						b.name, n, to, sum, counts, wantTo, wantSum, wantCounts)
				}
			}
		}
	}
}
