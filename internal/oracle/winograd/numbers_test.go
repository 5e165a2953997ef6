package winograd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSquares: of smooth images and of noise, float32 tiles have the errors at each place that the mean squares of
// their windows say, or those of the sum itself, which smooth images have.
func TestSquares(t *testing.T) {
	const u, size, channels = 0x1p-24, 32, 24
	single := func(v float64) float64 { return float64(float32(v)) }
	for _, f := range []*Form{F2, F4} {
		for _, smooth := range []bool{false, true} {
			r := rand.New(rand.NewPCG(1, 2))
			n := f.Tile + 2
			images, windows, kernels, weights := make([][]float64, channels), make([]Windows, channels),
				make([][][]float64, channels), make([][]float64, channels)
			for c := range images {
				images[c], weights[c] = make([]float64, size*size), make([]float64, 9)
				a, b := r.NormFloat64(), r.NormFloat64()
				for k := range images[c] {
					if images[c][k] = single(r.NormFloat64()); smooth {
						images[c][k] = single(math.Sin(float64(k/size)/5+a) + math.Sin(float64(k%size)/7+b))
					}
				}
				for k := range weights[c] {
					weights[c][k] = single(r.NormFloat64())
				}
			}
			at := func(c int) func(y, x int) float64 {
				return func(y, x int) float64 { return images[c][(y+size)%size*size+(x+size)%size] }
			}
			for c := range windows {
				windows[c], kernels[c] = f.WindowsOf(at(c), size, size), f.Kernel(weights[c])
			}
			want, got := f.Squares(windows, kernels), room(f.Tile)
			tiles, sums := 0.0, 0.0
			for ty := 0; ty < size; ty += f.Tile {
				for tx := 0; tx < size; tx += f.Tile {
					x := make([][]float64, channels)
					for c := range x {
						for i := range n {
							for j := range n {
								x[c] = append(x[c], at(c)(ty+i-1, tx+j-1))
							}
						}
					}
					exact, rounded := f.tile(x, weights, func(v float64) float64 { return v }), f.tile(x, weights, single)
					for i := range got {
						for j := range got {
							d := rounded[i][j] - exact[i][j]
							got[i][j] += d * d
							sums += exact[i][j] * exact[i][j] * 9 * channels / 3
						}
					}
					tiles++
				}
			}
			for i := range got {
				for j := range got {
					is, says := math.Sqrt(got[i][j]/tiles), .43*u*math.Sqrt(want[i][j])
					one := .43 * u * math.Sqrt(sums/tiles/float64(f.Tile*f.Tile))
					if most := math.Hypot(says, map[bool]float64{true: one}[smooth]); is < .7*says && !smooth || is > 1.3*most {
						t.Errorf("tile %d, smooth %v, place (%d,%d): %.3g, want %.3g", f.Tile, smooth, i, j, is, says)
					}
				}
			}
		}
	}
}
