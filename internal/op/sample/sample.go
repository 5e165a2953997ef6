// Package sample takes the numbers of an image, or of a volume, at positions that a grid names: what
// PyTorch calls grid_sample.
//
//	Nearest  the number next to the position
//	Linear   its two neighbours on each axis, weighed with 1-t and t
//	Cubic    its four neighbours on each axis, weighed with Keys' polynomials of t, of coefficient -3/4
//
// A number g of the grid names a position p along an axis of n numbers: -1 is one end of the axis and 1 the
// other. The ends are the outer edges of the first and the last number, p = (n-1)/2 + g n/2, or with aligned
// corners these numbers' middles, p = (n-1)/2 + g (n-1)/2. t is what is above the floor of p. Nearest takes
// the even one of two numbers as near.
//
// The padding says what stands beyond the ends. Zeros: what has no part in a sum. Border: the last number, so
// that a position there is that number's. Reflection: the axis turned round at an end, so that the grid is
// turned round at -1 and 1, and a position between an end and the number next to it is that number's. Cubic
// weighs with t of the position as it is, and what is padded are its neighbours.
//
// The result is the exact value of the weighted sum for the stored numbers, rounded once to the destination's
// format. In a Float64 destination it is plain float64, see [Grid].
//
// # Special values
//
// Nearest keeps what it takes: -0 and infinities. In weighted sums all neighbours take part that are not
// beyond the ends, or padded, also with weight 0, and 0*Inf is NaN, as in PyTorch. A sum that is exactly zero
// is +0. Of a grid's number that is NaN or infinite Cubic makes NaN. For the others zeros are beyond it;
// infinities are beyond the border, and all else, NaN there too, is the first number. PyTorch does so on GPUs;
// on a CPU its linear sums of an image with zeros are NaN there, and volumes have their last number for NaN.
//
// # Misuse
//
// Shapes that do not fit together, an axis without numbers or with more than 2^28, and a Float64 source or
// grid with a destination of another format panic: exactness is proven for float32 numbers.
package sample

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Mode says which numbers around a position are taken.
type Mode uint8

// The modes.
const (
	Nearest Mode = iota
	Linear
	Cubic
)

// Padding says what stands beyond the ends of an axis.
type Padding uint8

// The paddings.
const (
	Zeros Padding = iota
	Border
	Reflection
)

// Modes and Paddings are those of PyTorch's names.
var (
	Modes    = map[string]Mode{"nearest": Nearest, "bilinear": Linear, "bicubic": Cubic}
	Paddings = map[string]Padding{"zeros": Zeros, "border": Border, "reflection": Reflection}
)

// MostNumbers bounds an axis: with it, and a float32 number of the grid, both terms of a position are float64
// numbers.
const MostNumbers = 1 << 28

// Params say how a grid is read.
type Params struct {
	Mode    Mode
	Padding Padding
	Corners bool // the ends are the middles of the first and the last number
	// Positions says that the grid has positions already. Reflection then is of numbers alone, as of Cubic.
	Positions bool
	Early     bool // Nearest rounds before it reflects, as in ONNX: at 3/2 beyond an end it takes another number
}

// u is the relative error of one float64 operation.
const u = 0x1p-53

// together is how many positions a goroutine takes at a time.
const together = 256

// Grid sets dst [N,C,...] to the numbers of src [N,C,n...] at the positions of grid [N,...,k], whose last axis
// has a number for each of the k axes n, the last axis first.
//
// The float64 order is: the neighbours in row-major order, each times the product of its weights, first axis
// first, added to 0. Its error is at most g_k P, see [bound].
func Grid(dst, src, grid *tensor.Tensor, p Params) {
	axes := len(src.Shape) - 2
	tensor.Require("sample", -1, dst, src, grid)
	if dst.Format != fp16.Float64 && (src.Format == fp16.Float64 || grid.Format == fp16.Float64) {
		panic("sample: float64 numbers need a float64 destination")
	}
	if axes < 1 || len(grid.Shape) != axes+2 || len(dst.Shape) != axes+2 || grid.Shape[axes+1] != axes ||
		tensor.Size(dst.Shape[2:]) != tensor.Size(grid.Shape[1:axes+1]) || src.Shape[0] != grid.Shape[0] ||
		src.Shape[0] != dst.Shape[0] || src.Shape[1] != dst.Shape[1] {
		panic("sample: shapes that do not fit together")
	}
	for _, n := range src.Shape[2:] {
		if n < 1 || n > MostNumbers {
			panic("sample: an axis without numbers, or with more than 2^28")
		}
	}
	positions := tensor.Size(dst.Shape[2:])
	parts := (positions + together - 1) / together
	par.For(src.Shape[0]*parts, func(i int) {
		w := &sampler{Params: p, sizes: src.Shape[2:], f: dst.Format, spots: make([]spot, axes)}
		sample, first := i/parts, i%parts*together
		for at := first; at < min(first+together, positions); at++ {
			w.find(grid.Data[(sample*positions+at)*axes:][:axes])
			for c := range src.Shape[1] {
				plane := sample*src.Shape[1] + c
				dst.Data[plane*positions+at] = w.number(src.Data[plane*w.size():][:w.size()])
			}
		}
	})
}

// sampler takes numbers at one position after the other.
type sampler struct {
	Params
	sizes  []int
	f      fp16.Format
	spots  []spot // of each axis
	taps   []tap
	before []tap
	alone  bool // the result is of no number of the source
	value  float64
}

// tap is a neighbour: where it is, which of its axes' neighbours, and its weight in float64.
type tap struct {
	at     int
	which  [3]int8
	weight float64
}

func (w *sampler) size() int { return tensor.Size(w.sizes) }

// find sets what is taken at a position.
func (w *sampler) find(g []float64) {
	axes := len(w.sizes)
	w.alone, w.value = false, 0
	for a := range w.sizes {
		v := g[axes-1-a]
		if w.Mode == Cubic && v-v != 0 {
			w.alone, w.value = true, fp16.NaN
			return
		}
		w.alone = !w.spots[a].set(v, w.sizes[a], w.Params) || w.alone
	}
	if w.alone {
		return
	}
	w.taps = append(w.taps[:0], tap{weight: 1})
	for a := range w.spots {
		s := &w.spots[a]
		w.before, w.taps = w.taps, w.before[:0]
		for _, t := range w.before {
			for k, at := range s.at[:s.n] {
				if at < 0 {
					continue
				}
				next := t
				next.which[a], next.at, next.weight = int8(k), t.at*w.sizes[a]+at, float64(t.weight*s.weight[k])
				w.taps = append(w.taps, next)
			}
		}
	}
}

// number returns that of a plane.
func (w *sampler) number(in []float64) float64 {
	if w.alone || len(w.taps) == 0 {
		return w.value
	}
	if w.Mode == Nearest {
		return w.f.Round(in[w.taps[0].at])
	}
	sum, size := 0.0, 0.0
	for i := range w.taps {
		p := float64(w.taps[i].weight * in[w.taps[i].at])
		sum += p
		size += math.Abs(p)
	}
	if w.f == fp16.Float64 || sum-sum != 0 {
		return w.f.Round(sum) // finite terms do not overflow: IEEE 754's answer
	}
	if y, ok := w.f.Decide(sum, float64(w.bound()*size)); ok {
		return y
	}
	return w.f.Round(w.settle(in))
}

// bound bounds the error of a weighted sum by a part of P, the sum of |weights x|.
//
// With u the relative error of an operation and g_k = k u/(1 - k u): of a axes, a term has a weights that were
// rounded, a-1 products of them and one with x; of n terms n-1 additions round, as the first, to 0, does not. A
// linear weight is rounded once, and one of Cubic is off by at most 12 u, see [spot.cubic]. So
//
//	|y^ - y| <= g_(n-1 + a+a) P, and g_(n-1 + 12a+a) P.
//
// P is computed with a relative error below that; a factor 1.0001 covers it. A weight is 0 or above 2^-455, and so
// is nothing that underflows.
func (w *sampler) bound() float64 {
	off := 2
	if w.Mode == Cubic {
		off = 13
	}
	return 1.0001 * u * float64(len(w.taps)-1+off*len(w.spots))
}
