package judge

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/oracle/winograd"
	"github.com/refrun/refrun/tensor"
)

// tiled reports whether libraries compute a convolution by Winograd's method: of 3 x 3 kernels with a stride of 1.
func tiled(op graph.Op, weight []int) bool {
	c, is := op.(graph.Conv)
	one := func(steps [2]int) bool { return max(steps[0], steps[1]) <= 1 }
	return is && slices.Equal(weight[2:], []int{3, 3}) && one(c.Stride) && one(c.Dilation) && c.Groups <= 1
}

// winograd computes a convolution of x and w without its bias by a form: each of its transforms is a product with a
// matrix along one axis, twice, and between them there is a product of the channels for each place of a window.
func (b *builder) winograd(f *winograd.Form, op graph.Conv, x, w int, shape, out []int) int {
	m, n, channels := f.Tile, f.Tile+2, shape[1]
	down, across := (out[2]+m-1)/m, (out[3]+m-1)/m
	tiles := out[0] * down * across

	x = b.step("padded", padding(op), x)
	more := []int{0, 0, down*m - out[2], across*m - out[3]}
	x = b.step("filled", graph.Pad{Mode: "constant", Before: make([]int, 4), After: more}, x)
	x = b.step("rows_of_tiles", graph.IndexSelect{Axis: 2}, x, b.windows(down, m))
	x = b.step("windows", graph.IndexSelect{Axis: 3}, x, b.windows(across, m))
	x = b.step("by_tiles", graph.Reshape{Shape: []int{out[0], channels, down, n, across, n}}, x)
	x = b.step("tiles", graph.Permute{Axes: []int{1, 0, 2, 4, 3, 5}}, x)
	x = b.both("data", f.Data, b.step("squares", graph.Reshape{Shape: []int{channels, tiles, n, n}}, x))
	x = b.byPlace("data", x, channels, tiles, n)

	w = b.byPlace("weights", b.both("weights", f.Weights, w), out[1], channels, n)
	x = b.step("data_of_places", graph.Transpose{A: 1, B: 2}, x) // [n n, tiles, channels]
	w = b.step("weights_of_places", graph.Transpose{A: 1, B: 2}, w)
	y := b.step("channels", graph.MatMul{}, x, w) // [n n, tiles, outputs]
	y = b.step("sums", graph.Permute{Axes: []int{1, 2, 0}}, y)
	y = b.both("output", f.Out, b.step("sums_of_tiles", graph.Reshape{Shape: []int{tiles, out[1], n, n}}, y))
	y = b.step("results", graph.Reshape{Shape: []int{out[0], down, across, out[1], m, m}}, y)
	y = b.step("placed", graph.Permute{Axes: []int{0, 3, 1, 4, 2, 5}}, y)
	y = b.step("image", graph.Reshape{Shape: []int{out[0], out[1], down * m, across * m}}, y)
	return b.step("product", graph.Slice{Axes: []int{2, 3}, Start: []int{0, 0}, End: out[2:]}, y)
}

// padding is that of a convolution, as an operation.
func padding(op graph.Conv) graph.Op {
	p := graph.Pad{
		Mode: op.Padding.String(), Before: []int{0, 0, op.Pad[0], op.Pad[1]}, After: []int{0, 0, op.Pad[2], op.Pad[3]},
	}
	if op.Padding == conv.Zeros {
		p.Mode = "constant"
	}
	if op.Same {
		p.Before, p.After = []int{0, 0, 1, 1}, []int{0, 0, 1, 1}
	}
	return p
}

// windows are the places of m+2 pixels from each m-th on.
func (b *builder) windows(count, m int) int {
	at := tensor.New(fp16.Int64, count*(m+2))
	for i := range at.Data {
		at.Data[i] = float64(i/(m+2)*m + i%(m+2))
	}
	return b.Constant("", at)
}

// both is M x M^T of each square x, of the last two axes.
func (b *builder) both(name string, m [][]float64, x int) int {
	t := tensor.New(fp16.Float64, len(m[0]), len(m))
	for i, row := range m {
		for j, v := range row {
			t.Data[j*len(m)+i] = v
		}
	}
	of := b.Constant("", t)
	x = b.step(name+"_rows", graph.Transpose{A: -2, B: -1}, b.step(name+"_along", graph.MatMul{}, x, of))
	return b.step(name+"_columns", graph.Transpose{A: -2, B: -1}, b.step(name+"_across", graph.MatMul{}, x, of))
}

// byPlace makes matrices of squares [p,q,n,n], one for each of their places: [n n, p, q].
func (b *builder) byPlace(name string, x, p, q, n int) int {
	x = b.step(name+"_flat", graph.Reshape{Shape: []int{p, q, n * n}}, x)
	return b.step(name+"_of_each_place", graph.Permute{Axes: []int{2, 0, 1}}, x)
}
