package steps

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// lookAlikes returns the number of pixels of x that have the same surroundings as a pixel
// has, on average: the same numbers, as the format holds them, in all channels, of the
// pixels up to reach from it. Until noise tells them apart, they round alike in all layers.
// It is 1 where no two are the same, and nearly all of them where x is a constant.
func lookAlikes(x *tensor.Tensor, f fp16.Format, reach int) float64 {
	hw := x.H() * x.W()
	pixels := make([]uint64, hw)
	seen := map[uint64]int{}
	for n := range x.N() {
		clear(pixels)
		for c := range x.C() {
			for p, v := range x.Plane(n, c) {
				pixels[p] = measure.Mix64(pixels[p] ^ math.Float64bits(f.Round(v)))
			}
		}
		for p := range pixels {
			var h uint64
			for dy := -reach; dy <= reach; dy++ {
				for dx := -reach; dx <= reach; dx++ {
					if i, j := p/x.W()+dy, p%x.W()+dx; i >= 0 && i < x.H() && j >= 0 && j < x.W() {
						h ^= pixels[i*x.W()+j]
					}
					h = measure.Mix64(h)
				}
			}
			seen[h]++
		}
	}
	var squares float64
	for _, n := range seen {
		squares += float64(n) * float64(n)
	}
	return squares / float64(x.N()*hw)
}

// firstReach returns how far the first convolutions reach, 0 if one of them is of 1x1 and
// otherwise 1. What such a one makes of a number is rounded alike wherever that stands, and
// a state of one channel in bfloat16 has some dozens of numbers.
func firstReach(nodes []operator.Node) int {
	apart := map[int]bool{operator.Input: true} // values in which no pixel has met another
	for i, n := range nodes {
		here := slices.ContainsFunc(n.In, func(k int) bool { return apart[k] })
		if n.Op != operator.OpConv {
			apart[i] = here
		} else if here && n.Weight.Shape[2] == 1 {
			return 0
		}
	}
	return 1
}

// alikeNote tells of the step that is farthest beyond the limits of states whose pixels all differ,
// and within its own; "" if there is none.
func (h *spreads) alikeNote(all []*stepFigures) string {
	apart, most, note := h.at(1, wellKnown), 1.0, ""
	for _, f := range all {
		if x := apart.hold(f); x != nil && x.excess > most && h.judge(f) == nil {
			most = x.excess
			note = fmt.Sprintf("step %d%s: %.3g times as far from the claimed arithmetic "+
				"as correct devices are where no two pixels are the same; here %.3g pixels, on average, "+
				"have the same surroundings and round alike", f.step, in(x.slice), x.excess, f.alike)
		}
	}
	return note
}
