package asm

// Winograd is a set of kernels that convolve with KxK kernels in float64 by few
// multiplications: F(4x4,KxK) of Winograd and Toom-Cook, see Form. In one
// dimension the four outputs of K taps g over n = K+3 inputs d are
//
//	y = A^T [ (G g) * (B^T d) ],
//
// * element by element; in two dimensions the matrices act on rows and columns,
// and there are n*n points. Sums over input channels are taken at each point,
// between the transforms. Package conv derives the bound of the whole.
//
// Channels come in blocks of 8, tiles in groups of Tiles and output channels in
// groups of Outputs. Images hold float32 numbers [block][y][x][8]. The transformed
// windows are V [n*n][group][block][Tiles][8]; the weights of a group of outputs
// are U [n*n][block*8][Outputs] and its products M [n*n][group][Tiles][Outputs]. The
// distance of two points in V and M is up to the caller: planes at powers of two
// would meet in the same few sets of a cache. Strides are in bytes.
type Winograd struct {
	Tiles   int // of a group
	Outputs int // of a group, a multiple of 8

	// Few is the same with groups of fewer tiles, without Input and Weigh; nil where there
	// is none.
	Few *Winograd

	// Input transforms the nxn window of one tile. src is its first pixel in
	// channel block 0, line and image the strides from a line of pixels and
	// from a channel block to the next; dst is the tile's place in its group of
	// V, point the stride from a point to the next; scratch holds n*n*8 numbers.
	Input func(src *float32, line, image int, dst *float64, point, blocks int, scratch *float64)

	// InputRow is Input for one row of n points, one block and some tiles side by
	// side: src is the first pixel of the first, and dst its place in V
	// [n][group][block][Tiles][8]; next is the first pixel of the call after it, which
	// it may ask for. It is nil where there is none.
	InputRow func(src, next *float32, line int, dst *float64, point, tiles, row int)

	// Multiply computes M of v, u at one point, of which v and m are the
	// places: for each group, tile and output the channels in order, one fused
	// multiply-add each, from zero, in sums of chain blocks (the last may have less),
	// which are added in order. next are the weights of the call after it, and later
	// is memory to be used then or soon, 2 cache lines for each group and block. It may
	// ask for both, and reads nothing there.
	Multiply func(v, u, m *float64, blocks, chain, groups int, next *float64, later *float32)

	// Weigh sums the weighted squares of a number of points of a tile's transformed
	// window, an even number, channel by channel of a block: out[i] is the sum over
	// the blocks b and points p of weights[p] z^2 scale[b][i]^2. The points are
	// added one after another in two sums, p mod 2, and those to each other, the
	// blocks in order. It is nil for NEON.
	Weigh func(v *float64, point, points int, weights, scale *float64, blocks int, out *[8]float64)

	// Output transforms the products of one tile and 8 outputs, adds the bias,
	// and rounds twice: y-E and y+E, E = k N + e. It stores the former, float32
	// numbers, at dst (line is the stride of its lines), and for each of the
	// 4x4 pixels the bits of the channels in which the two differ: the guard
	// left those open. table holds N [16][8], bias [8] and e [8]; m is the
	// place of the tile and the first output in their group of M, point the
	// stride from a point to the next; scratch holds 4*n*8 numbers.
	Output [Formats]func(
		m *float64, point int, k float64, table *float64, dst *float32, line int, flags *uint8, scratch *float64,
	)

	// OutputRow and OutputColumns are Output in two halves, rows first: OutputRow
	// transforms one row of n points of some tiles and a group of outputs to 4 columns,
	// and OutputColumns, for one tile and 8 outputs, n such rows. y is [4][tiles]
	// [Outputs] for the one, and the tile's and outputs' place in [n][4][tiles][Outputs]
	// for the other; row and column are the strides of the first two. They are nil
	// where there is no InputRow.
	OutputRow     func(m *float64, point int, y *float64, column, tiles int)
	OutputColumns [Formats]func(
		y *float64, row, column int, k float64, table *float64, dst *float32, line int, flags *uint8,
	)

	// WideInput is Input for float64 numbers, and WideOutput is Output with nothing
	// rounded and no guard: bias is that of 8 outputs, dst receives float64 numbers,
	// 8 a pixel. They are nil where there are none.
	WideInput  func(src *float64, line, image int, dst *float64, point, blocks int, scratch *float64)
	WideOutput func(m *float64, point int, bias, dst *float64, line int, scratch *float64)

	// Dot computes one output directly, channel by channel of a block: out holds the
	// 8 sums of products.
	// Each sum has K parts, the lines of the kernel, of K*blocks products one
	// after another, from zero; the others are added to the first in order. src
	// is the first pixel of the KxK window, w [blocks][K*K][8]; next is the window
	// of the call after it.
	Dot func(src, next *float32, line, image int, w *float32, blocks int, out *[8]float64)

	// Pack lays a line of 8 channels out as pixels of an image: out receives
	// pixels*8 numbers, rounded to float32, which they are; pixels is a
	// multiple of 8, 8 or more. It adds the squares of the numbers times their
	// channel's scale to sums, one for each pixel, in the order of the channels.
	Pack func(in *[8]*float64, scale *[8]float64, out *float32, sums *float64, pixels int)

	// Unpack makes lines of 8 channels of pixels: plane is the stride from a
	// line to the next; pixels is a multiple of 4, 4 or more.
	Unpack func(src *float32, dst *float64, plane, pixels int)
}

// The formats that Output rounds to, as its index.
const (
	Float32 = iota
	Float16
	BFloat16
	Formats
)
