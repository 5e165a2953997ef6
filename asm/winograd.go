package asm

// Winograd is a set of kernels that convolve with 3x3 kernels in float64 by
// few multiplications: F(4x4,3x3) of Winograd and Toom-Cook with the points 0,
// 5/8, -5/8, 13/8, -13/8 and infinity. In one dimension the four outputs of
// three taps g over six inputs d are
//
//	y = A^T [ (G g) * (B^T d) ],
//
// * element by element; in two dimensions the matrices act on rows and columns,
// and there are 36 points. Sums over input channels are taken at each point,
// between the transforms. All entries of A and B are exact in float64 (WinogradA,
// WinogradB); package conv derives the bound of the whole.
//
// Channels come in blocks of 8. Images hold float32 numbers [block][y][x][8]. The
// transformed windows of a set of tiles are V [36][group][block][Tiles][8], Tiles
// tiles to a group; weights are U [36][block*8][Outputs] for each group of Outputs
// output channels; and the products M [36][group][Tiles][Outputs]. Strides are in
// bytes. Memory is never read beyond what the arguments describe.
type Winograd struct {
	Tiles   int // of a group
	Outputs int // of a group, a multiple of 8

	// Input transforms the 6x6 window of one tile. src is its first pixel in
	// channel block 0, line and image the strides from a line of pixels and
	// from a channel block to the next; dst is the tile's place in V at point 0
	// and block 0, plane and group the strides from a point and a block to the
	// next; scratch holds 36*8 numbers.
	Input func(src *float32, line, image int, dst *float64, plane, group, blocks int, scratch *float64)

	// Multiply computes M of v, u at one point: for each group, tile and
	// output the channels in order, one fused multiply-add each, from zero.
	Multiply func(v, u, m *float64, blocks, groups int)

	// Output transforms the products of one tile and 8 outputs, adds the bias,
	// and rounds twice: y-E and y+E, E = k N + e. It stores the former, float32
	// numbers, at dst (line is the stride of its lines), and for each of the
	// 4x4 pixels the bits of the channels in which the two differ: the guard
	// left those open. table holds N [16][8], bias [8] and e [8]; m is the
	// tile's place in M at point 0; scratch holds 24*8 numbers.
	Output [Formats]func(m *float64, plane int, k float64, table *float64, dst *float32, line int, flags *uint8, scratch *float64)
}

// The formats that Output rounds to, as its index.
const (
	Float32 = iota
	Float16
	BFloat16
	Formats
)

// The interpolation points beside 0 and infinity are +-pointA and +-pointB.
const (
	pointA = 5.0 / 8
	pointB = 13.0 / 8
)

// WinogradPoints are the finite points in the order of the rows.
var WinogradPoints = [5]float64{0, pointA, -pointA, pointB, -pointB}

// WinogradA is A^T: row i holds the powers of degree i of the points.
var WinogradA = [4][6]float64{
	{1, 1, 1, 1, 1, 0},
	{0, pointA, -pointA, pointB, -pointB, 0},
	{0, pointA * pointA, pointA * pointA, pointB * pointB, pointB * pointB, 0},
	{0, pointA * pointA * pointA, -pointA * pointA * pointA, pointB * pointB * pointB, -pointB * pointB * pointB, 1},
}

// WinogradB is B^T: row p holds the coefficients of the product of x-q over the
// finite points q other than p.
var WinogradB = [6][6]float64{
	{pointA * pointA * pointB * pointB, 0, -(pointA*pointA + pointB*pointB), 0, 1, 0},
	{0, -pointA * pointB * pointB, -pointB * pointB, pointA, 1, 0},
	{0, pointA * pointB * pointB, -pointB * pointB, -pointA, 1, 0},
	{0, -pointB * pointA * pointA, -pointA * pointA, pointB, 1, 0},
	{0, pointB * pointA * pointA, -pointA * pointA, -pointB, 1, 0},
	{0, pointA * pointA * pointB * pointB, 0, -(pointA*pointA + pointB*pointB), 0, 1},
}
