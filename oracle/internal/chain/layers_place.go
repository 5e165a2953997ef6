package chain

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/refrun/refrun/tensor"
)

// whereabouts are the part of a layer that numbers are in, each at [sample, channel, row, column]: what they have in
// common of these, and the tile of the image; "" if that is nowhere in particular.
func whereabouts(at []int, shape []int, first int) string {
	if len(at) == 0 || len(shape) != 4 {
		return ""
	}
	lo, hi := tensor.Index(at[0], shape), tensor.Index(at[0], shape)
	edge := 0
	for _, i := range at {
		x := tensor.Index(i, shape)
		for a, v := range x {
			lo[a], hi[a] = min(lo[a], v), max(hi[a], v)
		}
		if x[2] == 0 || x[3] == 0 || x[2] == shape[2]-1 || x[3] == shape[3]-1 {
			edge++
		}
	}
	var in []string
	share := 1
	one := func(a int, name string, from int) {
		if shape[a] > 1 && lo[a] == hi[a] {
			in, share = append(in, fmt.Sprintf("%s %d", name, from+lo[a])), share*shape[a]
		}
	}
	one(0, "realization", first)
	one(1, "channel", 0)
	h, w := hi[2]-lo[2]+1, hi[3]-lo[3]+1
	if most := shape[2] * shape[3]; h > 1 && w > 1 && 2*h*w <= most {
		in, share = append(in, fmt.Sprintf("a tile of %dx%d at (%d,%d)", h, w, lo[2], lo[3])), share*(most/(h*w))
	} else {
		one(2, "image row", 0)
		one(3, "image column", 0)
	}
	if in == nil && edge == len(at) {
		in, share = []string{"the border"}, 2
	}
	// So many numbers come together by chance in a part of that size with a chance below 2^-30.
	if len(at)*(bits.Len(uint(share))-1) < leastTogether {
		return ""
	}
	return strings.Join(in, ", ")
}
