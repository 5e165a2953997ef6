package emulate

import (
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/oracle/winograd"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// InTiles reports whether a convolution may be formed in tiles, by Winograd's method.
func InTiles(n *operator.Node) bool {
	return n.Weight.Shape[2] >= 3 && n.Weight.Shape[3] >= 3 && n.Geometry.Stride[0] <= 1 && n.Geometry.Stride[1] <= 1
}

// byF4 reports whether a convolution is one of those whose tiles have a form in package winograd.
func byF4(n *operator.Node) bool {
	return InTiles(n) && n.Weight.Shape[2] == 3 && n.Weight.Shape[3] == 3 && n.Geometry.Dilation[0] <= 1 &&
		n.Geometry.Dilation[1] <= 1
}

// Tiles are the errors that F(4x4,3x3) makes of the convolutions of a step. Devices differ by far too little to have
// others, so that the first one of an ensemble says them.
type Tiles struct {
	U  float64                             // half an ulp of 1 in the accumulator
	of map[int]func(plane, at int) float64 // by node
}

// NewTiles returns those of one step, of which nothing is known yet.
func NewTiles(u float64) *Tiles { return &Tiles{u, map[int]func(plane, at int) float64{}} }

// squares returns the mean square errors of convolution i of x, at each place of a tile: see [winograd.Form.Squares].
func (t *Tiles) squares(i int, n *operator.Node, x *tensor.Tensor) func(plane, at int) float64 {
	if t.of[i] == nil {
		t.of[i] = tiles(n, x, float64(Rounding*t.U)*float64(Rounding*t.U))
	}
	return t.of[i]
}

// tiles is squares for a rounding of a mean square.
func tiles(n *operator.Node, x *tensor.Tensor, rounding float64) func(plane, at int) float64 {
	f, oc, ic := winograd.F4, n.Weight.Shape[0], n.Weight.Shape[1]
	h, w := n.Geometry.OutSize(x.H(), x.W(), 3, 3)
	windows, all := make([]winograd.Windows, x.N()*ic), make([][][]float64, x.N()*oc)
	par.For(len(windows),
		func(p int) { windows[p] = f.WindowsOf(padded(x.Plane(p/ic, p%ic), x.H(), x.W(), &n.Geometry), h, w) })
	par.For(oc, func(o int) {
		weights := make([][][]float64, ic)
		for c := range weights {
			weights[c] = f.Kernel(n.Weight.Data[(o*ic+c)*9 : (o*ic+c+1)*9])
		}
		for k := range x.N() {
			all[k*oc+o] = f.Squares(windows[k*ic:(k+1)*ic], weights)
		}
	})
	return func(p, at int) float64 { return float64(rounding * all[p][at/w%f.Tile][at%w%f.Tile]) }
}

// padded returns the numbers of a plane around a result: (-1, -1) is the first that the result (0, 0) is made of.
func padded(plane []float64, h, w int, p *conv.Params) func(y, x int) float64 {
	place := func(i, n int) int {
		switch {
		case 0 <= i && i < n:
			return i
		case p.Padding == conv.Circular:
			return (i + n) % n
		case p.Padding == conv.Reflect:
			return max(0, min(max(-i, min(i, 2*(n-1)-i)), n-1))
		case p.Padding == conv.Replicate:
			return min(max(i, 0), n-1)
		}
		return -1
	}
	return func(y, x int) float64 {
		i, j := place(y+1-p.Pad[0], h), place(x+1-p.Pad[1], w)
		if i < 0 || j < 0 {
			return 0
		}
		return plane[i*w+j]
	}
}
