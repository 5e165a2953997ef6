// Package winograd is Winograd's minimal filtering F(m x m, 3 x 3), by which libraries compute 3 x 3 convolutions of
// float32 numbers, and how far its errors are above those of a sum (A. Lavin and S. Gray, Fast algorithms for
// convolutional neural networks, 2016).
//
// A tile of m x m results is, with d a window of m+2 pixels a side and g the weights of a channel,
//
//	A^T (sum over channels of (G g G^T) . (B^T d B)) A
//
// All results of a tile share the products in the middle, and so their errors.
package winograd

import "math"

// Form is one of them. Each row of Data is of B^T, of Weights of G, and of Out of A^T.
type Form struct {
	Tile               int // m
	Data, Weights, Out [][]float64
}

// F2 is F(2x2,3x3), of the points 0, 1, -1, and F4 F(4x4,3x3), of 2 and -2 too.
var (
	F2 = &Form{
		Tile:    2,
		Data:    [][]float64{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
		Weights: [][]float64{{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}},
		Out:     [][]float64{{1, 1, 1, 0}, {0, 1, -1, -1}},
	}
	F4 = &Form{
		Tile: 4,
		Data: [][]float64{
			{4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
			{0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1},
		},
		Weights: [][]float64{
			{1. / 4, 0, 0}, {-1. / 6, -1. / 6, -1. / 6}, {-1. / 6, 1. / 6, -1. / 6},
			{1. / 24, 1. / 12, 1. / 6}, {1. / 24, -1. / 12, 1. / 6}, {0, 0, 1},
		},
		Out: [][]float64{{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}},
	}
)

// Of returns the form of a tile, nil if there is none.
func Of(tile int) *Form {
	for _, f := range []*Form{F2, F4} {
		if f.Tile == tile {
			return f
		}
	}
	return nil
}

// Growth is how far the errors of a result at row i and column j of a tile are above those of a sum of n = 9 C
// products that is added up one after the other, both as deviations and for independent numbers of C channels.
//
// A rounding has the variance 0.18 u^2 of its number's square, so that in units of that a sum of n equal products has
// n(n+1)/2, and n of the products themselves. In the middle there are C products of numbers with variances g and b,
// row by row of G and B^T, which their own roundings add to in part; Out adds up those errors with its squares. That
// is for one axis, and both multiply.
func (f *Form) Growth(channels, i, j int) float64 {
	c := float64(channels)
	var all float64
	for k, a := range f.Out[i] {
		for l, b := range f.Out[j] {
			gain := a * a * b * b * square(f.Data[k]) * square(f.Data[l]) * square(f.Weights[k]) * square(f.Weights[l])
			own := roundings(f.Data[k]) + roundings(f.Data[l]) + roundings(f.Weights[k]) + roundings(f.Weights[l])
			all += gain * (c*(c+1)/2 + c*(1+own))
		}
	}
	n := 9 * c
	return math.Sqrt(all / (n*(n+1)/2 + n))
}

// Worst is the greatest Growth in a tile: that of its last row and column.
func (f *Form) Worst(channels int) float64 {
	return f.Growth(channels, f.Tile-1, f.Tile-1)
}

// square is the variance of a row's sum of independent numbers.
func square(row []float64) (sum float64) {
	for _, v := range row {
		sum += v * v
	}
	return sum
}

// roundings is the variance of the errors of a row's sum over its own: of its products, but for those with powers of
// two, and of the sums on the way.
func roundings(row []float64) float64 {
	var sum, all float64
	for _, v := range row {
		if v == 0 {
			continue
		}
		if m, _ := math.Frexp(math.Abs(v)); m != .5 {
			all += v * v
		}
		if sum > 0 {
			all += sum + v*v
		}
		sum += v * v
	}
	return all / sum
}
