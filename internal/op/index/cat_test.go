package index

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/tensor"
)

// TestCat: along its axis the output at i is the source that i falls into.
func TestCat(t *testing.T) {
	trials(t, 1, 1, func(o *outputs, r *rand.Rand, shape []int) {
		axis := r.IntN(len(shape))
		var src []*tensor.Tensor
		shape[axis] = 0
		for range 1 + r.IntN(4) {
			s := append([]int(nil), shape...)
			s[axis] = r.IntN(4)
			src = append(src, numbered(formats[r.IntN(len(formats))], s...))
			shape[axis] += s[axis]
		}
		dst := tensor.New(formats[r.IntN(len(formats))], shape...)
		Cat(dst, axis, src...)
		holds(t, o, dst, func(at []int) float64 {
			of, k := append([]int(nil), at...), 0
			for of[axis] >= src[k].Shape[axis] {
				of[axis] -= src[k].Shape[axis]
				k++
			}
			return src[k].Data[place(src[k].Shape, of)]
		})
	})
}
