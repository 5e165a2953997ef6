package index

import "github.com/refrun/refrun/tensor"

// Order says how channels are blocks of pixels. Of an image with C block^2 channels,
// pixel (i, j) of a block of channel c is channel
type Order uint8

// The orders.
const (
	CRD Order = iota // c block^2 + i block + j: ATen's pixel_shuffle, ONNX's CRD
	DCR              // (i block + j) C + c: ONNX's DCR
)

// DepthToSpace sets dst [..., C, H block, W block] to the channels of src
// [..., C block^2, H, W] as blocks of pixels.
func DepthToSpace(dst, src *tensor.Tensor, block int, o Order) {
	blocks(dst, src, block, o, false)
}

// SpaceToDepth sets dst [..., C block^2, H, W] to the blocks of pixels of src
// [..., C, H block, W block] as channels: it undoes DepthToSpace.
func SpaceToDepth(dst, src *tensor.Tensor, block int, o Order) {
	blocks(dst, src, block, o, true)
}

// blocks moves between an image of many channels and one of many pixels. Both are seen
// with the axes n, c, y, i, x, j.
func blocks(dst, src *tensor.Tensor, block int, o Order, deeper bool) {
	deep, flat := src, dst
	if deeper {
		deep, flat = dst, src
	}
	want(len(deep.Shape) >= 3 && len(deep.Shape) == len(flat.Shape) && block > 0, "blocks of what is no image")
	at := len(deep.Shape) - 3
	h, w := deep.Shape[at+1], deep.Shape[at+2]
	c := flat.Shape[at]
	n := tensor.Size(deep.Shape[:at])
	want(deep.Shape[at] == c*block*block && flat.Shape[at+1] == h*block && flat.Shape[at+2] == w*block &&
		n == tensor.Size(flat.Shape[:at]), "images whose blocks do not fit")
	if len(dst.Data) == 0 {
		return
	}
	// How far neighbours along n, c, y, i, x, j lie apart in the deep image.
	steps := []int{c * block * block * h * w, block * block * h * w, w, block * h * w, 1, h * w}
	if o == DCR {
		steps = []int{steps[0], h * w, w, block * c * h * w, 1, c * h * w}
	}
	sizes := []int{n, c, h, block, w, block}
	if deeper { // the axes as dst has them
		order := []int{0, 1, 3, 5, 2, 4}
		if o == DCR {
			order = []int{0, 3, 5, 1, 2, 4}
		}
		of := strides(sizes) // in the flat image
		sizes, steps = pick(sizes, order), pick(of, order)
	}
	m := make(maps, len(sizes))
	for a, size := range sizes {
		m[a] = even(size, steps[a])
	}
	m.move(dst, src, 0)
}

func pick(of, order []int) []int {
	picked := make([]int, len(order))
	for i, a := range order {
		picked[i] = of[a]
	}
	return picked
}
