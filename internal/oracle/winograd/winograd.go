// Package winograd is Winograd's minimal filtering F(m x m, 3 x 3), by which libraries compute 3 x 3 convolutions of
// float32 numbers (A. Lavin and S. Gray, Fast algorithms for convolutional neural networks, 2016).
//
// A tile of m x m results is, with d a window of m+2 pixels a side and g the weights of a channel,
//
//	A^T (sum over channels of (G g G^T) . (B^T d B)) A
//
// All results of a tile share the products in the middle, and so their errors.
package winograd

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
