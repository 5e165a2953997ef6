package winograd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// tile is one result of a form, and the same as a sum, in float32 numbers that at rounds.
func (f *Form) tile(x, w [][]float64, at func(float64) float64) [][]float64 {
	n := f.Tile + 2
	sum := make([]float64, n*n)
	for c := range x {
		d := both(f.Data, x[c], n, at)
		g := both(f.Weights, w[c], 3, at)
		for i := range sum {
			sum[i] = at(sum[i] + at(d[i]*g[i]))
		}
	}
	y := both(f.Out, sum, n, at)
	out := make([][]float64, f.Tile)
	for i := range out {
		out[i] = y[i*f.Tile : (i+1)*f.Tile]
	}
	return out
}

// both is m x m^T of a square x with n numbers a side.
func both(m [][]float64, x []float64, n int, at func(float64) float64) []float64 {
	dot := func(row []float64, of func(k int) float64) (s float64) {
		for k, v := range row {
			if v != 0 {
				s = at(s + at(at(v)*of(k)))
			}
		}
		return s
	}
	half := make([]float64, len(m)*n)
	for i, row := range m {
		for j := range n {
			half[i*n+j] = dot(row, func(k int) float64 { return x[k*n+j] })
		}
	}
	out := make([]float64, len(m)*len(m))
	for i := range m {
		for j, row := range m {
			out[i*len(m)+j] = dot(row, func(k int) float64 { return half[i*n+k] })
		}
	}
	return out
}

// TestForms: in float64 the forms give the sums, for few channels and many.
func TestForms(t *testing.T) {
	single := func(v float64) float64 { return float64(float32(v)) }
	wide := func(v float64) float64 { return v }
	for _, f := range []*Form{F2, F4} {
		n := f.Tile + 2
		for _, channels := range []int{3, 16, 64} {
			r := rand.New(rand.NewPCG(uint64(channels), 1))
			for range 20 {
				x, w := make([][]float64, channels), make([][]float64, channels)
				for c := range x {
					x[c], w[c] = make([]float64, n*n), make([]float64, 9)
					for i := range x[c] {
						x[c][i] = single(r.NormFloat64())
					}
					for i := range w[c] {
						w[c][i] = single(r.NormFloat64())
					}
				}
				for i, row := range f.tile(x, w, wide) {
					for j, y := range row {
						var sum, q float64
						for c := range x {
							for k := range 9 {
								p := x[c][(i+k/3)*n+j+k%3] * w[c][k]
								sum += p
								q += p * p
							}
						}
						if math.Abs(sum-y) > 1e-11*math.Sqrt(q) {
							t.Fatalf("F%d, %d channels: %v: want %v", f.Tile, channels, y, sum)
						}
					}
				}
			}
		}
	}
	if Of(4) != F4 || Of(2) != F2 || Of(3) != nil {
		t.Error("forms by their tile")
	}
}
