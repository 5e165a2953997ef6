package fault

import (
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// axis returns what each of the n + 2 pad coordinates of a padded axis reads.
func axis(n, pad int, p conv.Padding) []int {
	at := make([]int, n+2*pad)
	for k := range at {
		i := k - pad
		switch {
		case i >= 0 && i < n:
		case p == conv.Circular:
			i = (i + n) % n
		case p == conv.Reflect && i < 0:
			i = -i
		case p == conv.Reflect:
			i = 2*(n-1) - i
		case p == conv.Replicate:
			i = min(max(i, 0), n-1)
		default:
			i = -1
		}
		if i >= n {
			i = -1
		}
		at[k] = i
	}
	return at
}

// shifted is a convolution whose taps read a pixel beside theirs.
func shifted(dy, dx int) *trial.Fault {
	return change(Named("conv.window-shifted-by", dy, dx), emulate.IsConv, func(c *convolution, n *operator.Node) bool {
		if c.geometry.Stride[0] > 1 {
			return false
		}
		c.rows, c.cols = displaced(c.x.H(), dy, c.geometry), displaced(c.x.W(), dx, c.geometry)
		return true
	})
}

// displaced returns a padded axis, read d further on.
func displaced(n, d int, g conv.Params) []int {
	a := axis(n, g.Pad[0]+1, g.Padding)
	return a[1+d : len(a)-1+d]
}

// padded takes other rows and columns for those outside the image, where there are such.
func (c *convolution) padded(f func(rows, cols []int, x *tensor.Tensor, g conv.Params) ([]int, []int)) bool {
	g := c.geometry
	if g.Pad[0] == 0 || g.Pad[0] >= c.x.H() || g.Pad[0] >= c.x.W() {
		return false
	}
	c.rows, c.cols = f(axis(c.x.H(), g.Pad[0], g.Padding), axis(c.x.W(), g.Pad[0], g.Padding), c.x, g)
	return true
}

// paddingFaults are other pixels than the claimed ones outside the image.
func paddingFaults() []*trial.Fault {
	var l []*trial.Fault
	padded := func(row *table.Row, f func(rows, cols []int, x *tensor.Tensor, g conv.Params) ([]int, []int)) {
		l = append(l, change(row, emulate.IsWindow, func(c *convolution, n *operator.Node) bool {
			return c.padded(f)
		}))
	}
	for p := conv.Zeros; p <= conv.Replicate; p++ {
		padded(Named("conv.padding", p), func(_, _ []int, x *tensor.Tensor, g conv.Params) ([]int, []int) {
			return axis(x.H(), g.Pad[0], p), axis(x.W(), g.Pad[0], p)
		})
		padded(Named("conv.padding-of-rows-only", p), func(_, cols []int, x *tensor.Tensor, g conv.Params) ([]int, []int) {
			return axis(x.H(), g.Pad[0], p), cols
		})
		padded(Named("conv.padding-of-columns-only", p), func(rows, _ []int, x *tensor.Tensor, g conv.Params) ([]int, []int) {
			return rows, axis(x.W(), g.Pad[0], p)
		})
	}
	for _, side := range []string{"first", "last"} {
		for back := 1; back <= 2; back++ {
			halo := func(a []int, n, pad int) []int {
				if side == "first" {
					a[pad-1] = back - 1
				} else {
					a[pad+n] = n - back
				}
				return a
			}
			padded(Named("conv.halo-row-beyond-the-reads-row-from-there", side, back),
				func(rows, cols []int, x *tensor.Tensor, g conv.Params) ([]int, []int) {
					return halo(rows, x.H(), g.Pad[0]), cols
				})
			padded(Named("conv.halo-column-beyond-the-reads-column-from-there", side, back),
				func(rows, cols []int, x *tensor.Tensor, g conv.Params) ([]int, []int) {
					return rows, halo(cols, x.W(), g.Pad[0])
				})
		}
	}
	return l
}
