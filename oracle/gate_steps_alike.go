package oracle

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// lookAlikes returns the number of pixels of x that have the same surroundings as a pixel
// has, on average: the same 3x3 numbers, as the format holds them, in all channels.
// Until noise tells them apart, they round alike in all layers. It is 1 where no two
// are the same, and nearly all of them where x is a constant.
func lookAlikes(x *tensor.Tensor, f fp16.Format) float64 {
	hw := x.H * x.W
	pixels := make([]uint64, hw)
	seen := map[uint64]int{}
	for n := range x.N {
		clear(pixels)
		for c := range x.C {
			for p, v := range x.Plane(n, c) {
				pixels[p] = mix64(pixels[p] ^ math.Float64bits(f.Round(v)))
			}
		}
		for p := range pixels {
			var h uint64
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					if i, j := p/x.W+dy, p%x.W+dx; i >= 0 && i < x.H && j >= 0 && j < x.W {
						h ^= pixels[i*x.W+j]
					}
					h = mix64(h)
				}
			}
			seen[h]++
		}
	}
	var squares float64
	for _, n := range seen {
		squares += float64(n) * float64(n)
	}
	return squares / float64(x.N*hw)
}
