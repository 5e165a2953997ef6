package oracle

import (
	"fmt"

	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// convolution is what may be changed about a convolution node.
type convolution struct {
	x        *tensor.Tensor
	weights  []float64 // [OC,IC,K,K]
	bias     float64   // times the bias
	geometry conv.Params
	rows     []int // the row of x that each row of the padded input reads, -1 for zeros; nil for what the padding says
	cols     []int
	dilated  bool           // every second pixel is read
	node     *operator.Node // the node with what was changed in it, nil for node i
	v        *view
}

// convolve evaluates node i with those changes, as the view's device does.
func (v *view) convolve(i int, c convolution) *tensor.Tensor {
	n := v.m.Nodes[i]
	if c.node != nil {
		n = *c.node
	}
	f, _, err := v.d.Mode.Formats(&n, fp16.Float32)
	if err != nil {
		return nil
	}
	src, mode := c.x, v.d.Mode
	if !v.d.WideInput {
		src = emulate.Operand(mode, src, f)
	}
	apart := n.Bias != nil && !v.d.BiasTogether && mode.BiasApart() && v.stored(i) == f
	bias := n.Bias
	if apart || c.bias != 1 {
		n.Bias = nil
	}
	if c.rows != nil {
		src = gather(src, c.rows, c.cols)
		c.geometry.Pad = 0
	}
	weights := c.weights
	if c.dilated {
		weights = dilate(&n, weights)
		c.geometry.Pad *= 2
	}
	y := emulate.Conv(src, emulate.NewKernel(mode, &n, weights), c.geometry)
	if apart {
		f.RoundSlice(y.Data, y.Data)
	}
	if n.Bias == nil && bias != nil && c.bias != 0 {
		half := f == fp16.Float16 || f == fp16.BFloat16
		for k := range y.N * y.C {
			b := bias.Data[k%y.C]
			if half {
				b = f.Round(b)
			}
			for j, plane := 0, y.Plane(k/y.C, k%y.C); j < len(plane); j++ {
				plane[j] += c.bias * b
			}
		}
	}
	return y
}

// dilate gives the node a kernel with zeros between its taps.
func dilate(n *operator.Node, weights []float64) []float64 {
	p := *n.Weight
	k := p.Shape[2]
	wide := 2*k - 1
	p.Shape = []int{p.Shape[0], p.Shape[1], wide, wide}
	n.Weight = &p
	w := make([]float64, p.Shape[0]*p.Shape[1]*wide*wide)
	for at, u := range weights {
		w[at/(k*k)*wide*wide+at/k%k*2*wide+at%k*2] = u
	}
	return w
}

// gather returns the tensor of those rows and columns of x, zeros where they
// are negative.
func gather(x *tensor.Tensor, rows, cols []int) *tensor.Tensor {
	y := tensor.New(fp16.Float64, x.N, x.C, len(rows), len(cols))
	for k := range x.N * x.C {
		from, to := x.Plane(k/x.C, k%x.C), y.Plane(k/x.C, k%x.C)
		for i, r := range rows {
			if r < 0 {
				continue
			}
			for j, c := range cols {
				if c >= 0 {
					to[i*len(cols)+j] = from[r*x.W+c]
				}
			}
		}
	}
	return y
}

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

// change is a fault of convolutions: it changes what is convolved, or reports
// that it is none for these shapes.
func change(name, probe string, at func(*operator.Node) bool, f func(c *convolution, n *operator.Node) bool) *hypothesis {
	return &hypothesis{name: name, verdict: FailLogic, probe: probe, at: at, node: func(v *view, r *run, i int) *tensor.Tensor {
		n := v.m.Nodes[i]
		c := convolution{node: &n, v: v, x: r.in(i, 0), weights: n.Weight.Data, bias: 1, geometry: n.Geometry}
		if !f(&c, &n) {
			return nil
		}
		return v.convolve(i, c)
	}}
}

// weights is a fault that reads weight w[o,c,i,j] at another place of [O,C,K,K];
// negative places are zeros.
func weightsRead(name string, at func(*operator.Node) bool, from func(o, c, i, j, os, cs, k int) int) *hypothesis {
	return change(name, "impulse", at, func(cv *convolution, n *operator.Node) bool {
		s := n.Weight.Shape
		w := make([]float64, len(cv.weights))
		for at := range w {
			j, i := at%s[3], at/s[3]%s[2]
			c, o := at/(s[3]*s[2])%s[1], at/(s[3]*s[2]*s[1])
			if k := from(o, c, i, j, s[0], s[1], s[2]); k >= 0 {
				w[at] = cv.weights[k]
			}
		}
		cv.weights = w
		return true
	})
}

func convFaults() []*hypothesis {
	var l []*hypothesis
	l = append(l, paddingFaults()...)
	at := func(o, c, i, j, cs, k int) int { return ((o*cs+c)*k+i)*k + j }
	l = append(l,
		weightsRead("kernel flipped", isWindow, func(o, c, i, j, _, cs, k int) int { return at(o, c, k-1-i, k-1-j, cs, k) }),
		weightsRead("kernel rows and columns swapped", isWindow, func(o, c, i, j, _, cs, k int) int { return at(o, c, j, i, cs, k) }),
		weightsRead("kernel flipped top to bottom", isWindow, func(o, c, i, j, _, cs, k int) int { return at(o, c, k-1-i, j, cs, k) }),
		weightsRead("kernel flipped left to right", isWindow, func(o, c, i, j, _, cs, k int) int { return at(o, c, i, k-1-j, cs, k) }),
		weightsRead("weights read as [IC,OC]", isConv, func(o, c, i, j, os, cs, k int) int { return ((c*os+o)*k+i)*k + j }),
		weightsRead("weights read as [OC,K,K,IC]", isWindow, func(o, c, i, j, _, cs, k int) int { return ((o*k+i)*k+j)*cs + c }),
		weightsRead("weights stored as [OC,K,K,IC] read as [OC,IC,K,K]", isWindow, func(o, c, i, j, _, cs, k int) int {
			p := (c*k+i)*k + j
			return at(o, p%cs, p/cs/k, p/cs%k, cs, k)
		}),
	)
	for _, name := range []string{"first two", "reversed", "shifted by one", "shifted back by one"} {
		order := channelOrder(name)
		l = append(l,
			weightsRead("input channels "+name, isConv, func(o, c, i, j, _, cs, k int) int { return at(o, order(c, cs), i, j, cs, k) }),
			weightsRead("output channels "+name, isConv, func(o, c, i, j, os, cs, k int) int { return at(order(o, os), c, i, j, cs, k) }))
	}
	for _, d := range dropped {
		l = append(l, weightsRead(d.name, isConv, func(o, c, i, j, os, cs, k int) int {
			if d.lost(c, cs) {
				return -1
			}
			return at(o, c, i, j, cs, k)
		}))
	}
	l = append(l, weightFaults()...)
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			if dy != 0 || dx != 0 {
				l = append(l, shifted(dy, dx))
			}
		}
	}
	l = append(l,
		change("conv bias missing", "integer-fill", isConv, func(c *convolution, n *operator.Node) bool { c.bias = 0; return n.Bias != nil }),
		change("conv bias doubled", "integer-fill", isConv, func(c *convolution, n *operator.Node) bool { c.bias = 2; return n.Bias != nil }),
		change("H and W swapped", "impulse", isConv, func(c *convolution, n *operator.Node) bool {
			c.x = transposed(c.x)
			return true
		}),
		change("channels-last input read as channels-first", "impulse", isConv, func(c *convolution, n *operator.Node) bool {
			c.x = interleaved(c.x)
			return c.x.C > 1
		}),
		change("channels-first input read as channels-last", "impulse", isConv, func(c *convolution, n *operator.Node) bool {
			y, hw := tensor.Like(c.x), c.x.H*c.x.W
			for k := range y.N {
				from, to := c.x.Samples(k, k+1).Data, y.Samples(k, k+1).Data
				for i, u := range from {
					to[i%y.C*hw+i/y.C] = u
				}
			}
			c.x = y
			return y.C > 1
		}),
		change("kernel dilated by 2", "impulse", isWindow, func(c *convolution, n *operator.Node) bool {
			k := n.Weight.Shape[2]
			if c.geometry.Stride > 1 || c.geometry.Pad*2 != k-1 {
				return false
			}
			c.dilated = true
			return 2*c.geometry.Pad < min(c.x.H, c.x.W)
		}),
		change("all samples read the first", "permuted-batch", isConv, func(c *convolution, n *operator.Node) bool {
			y := tensor.Like(c.x)
			for k := range y.N {
				copy(y.Samples(k, k+1).Data, c.x.Samples(0, 1).Data)
			}
			c.x = y
			return y.N > 1
		}),
		change("bias of the next channel", "integer-fill", isConv, func(c *convolution, n *operator.Node) bool {
			if n.Bias != nil {
				n.Bias = reordered(n.Bias, func(c, n int) int { return (c + 1) % n })
			}
			return n.Bias != nil
		}),
		change("bias of the channel before", "integer-fill", isConv, func(c *convolution, n *operator.Node) bool {
			if n.Bias != nil {
				n.Bias = reordered(n.Bias, func(c, n int) int { return (c + n - 1) % n })
			}
			return n.Bias != nil
		}),
		change("samples mixed up: each reads the one before", "permuted-batch", isConv, func(c *convolution, n *operator.Node) bool {
			if c.x.N < 2 {
				return false
			}
			y := tensor.Like(c.x)
			for k := range y.N {
				copy(y.Samples(k, k+1).Data, c.x.Samples(max(k-1, 0), max(k, 1)).Data)
			}
			c.x = y
			return true
		}),
	)
	return append(l, outputFaults()...)
}

// channelOrder returns which of n channels is read in place of channel c.
func channelOrder(name string) func(c, n int) int {
	return func(c, n int) int {
		switch {
		case name == "first two" && c < 2 && n > 1:
			return 1 - c
		case name == "reversed":
			return n - 1 - c
		case name == "shifted by one":
			return (c + 1) % n
		case name == "shifted back by one":
			return (c + n - 1) % n
		}
		return c
	}
}

// dropped are the patterns of input channels that are not read.
var dropped = []struct {
	name string
	lost func(c, n int) bool
}{
	{"last input channel not read", func(c, n int) bool { return n > 1 && c == n-1 }},
	{"first input channel not read", func(c, n int) bool { return n > 1 && c == 0 }},
	{"input channels from 8 on not read", func(c, n int) bool { return c >= 8 }},
	{"input channels from 16 on not read", func(c, n int) bool { return c >= 16 }},
	{"second half of the input channels not read", func(c, n int) bool { return n > 1 && c >= (n+1)/2 }},
	{"input channels of an incomplete block of 4 not read", func(c, n int) bool { return c >= n/4*4 }},
	{"input channels of an incomplete block of 8 not read", func(c, n int) bool { return n > 8 && c >= n/8*8 }},
}

// transposed returns x as it looks if memory that holds [N,C,W,H] is read as
// [N,C,H,W]: for a square image, with H and W swapped.
func transposed(x *tensor.Tensor) *tensor.Tensor {
	y := tensor.Like(x)
	for k := range x.N * x.C {
		from, to := x.Plane(k/x.C, k%x.C), y.Plane(k/x.C, k%x.C)
		for i := range to {
			to[i] = from[i%x.W*x.H+i/x.W]
		}
	}
	return y
}

// interleaved returns x as it looks if memory that holds [N,H,W,C] is read as
// [N,C,H,W].
func interleaved(x *tensor.Tensor) *tensor.Tensor {
	y := tensor.Like(x)
	hw := x.H * x.W
	for n := range x.N {
		from, to := x.Samples(n, n+1).Data, y.Samples(n, n+1).Data
		for i := range to {
			to[i] = from[i%x.C*hw+i/x.C]
		}
	}
	return y
}

// shifted is a convolution whose taps read a pixel beside theirs.
func shifted(dy, dx int) *hypothesis {
	return change(fmt.Sprintf("window shifted by (%d,%d)", dy, dx), "impulse", isConv, func(c *convolution, n *operator.Node) bool {
		if c.geometry.Stride > 1 {
			return false
		}
		c.rows, c.cols = displaced(c.x.H, dy, c.geometry), displaced(c.x.W, dx, c.geometry)
		return true
	})
}

// displaced returns a padded axis, read d further on.
func displaced(n, d int, g conv.Params) []int {
	a := axis(n, g.Pad+1, g.Padding)
	return a[1+d : len(a)-1+d]
}

// paddingFaults are other pixels than the claimed ones outside the image.
func paddingFaults() []*hypothesis {
	var l []*hypothesis
	padded := func(name string, f func(rows, cols []int, x *tensor.Tensor, g conv.Params) ([]int, []int)) {
		l = append(l, change(name, "impulse", isWindow, func(c *convolution, n *operator.Node) bool {
			if g := c.geometry; g.Pad == 0 || g.Pad >= c.x.H || g.Pad >= c.x.W {
				return false
			}
			c.rows, c.cols = f(axis(c.x.H, c.geometry.Pad, c.geometry.Padding), axis(c.x.W, c.geometry.Pad, c.geometry.Padding), c.x, c.geometry)
			return true
		}))
	}
	for p := conv.Zeros; p <= conv.Replicate; p++ {
		padded(p.String()+" padding", func(_, _ []int, x *tensor.Tensor, g conv.Params) ([]int, []int) {
			return axis(x.H, g.Pad, p), axis(x.W, g.Pad, p)
		})
		padded(p.String()+" padding of rows only", func(_, cols []int, x *tensor.Tensor, g conv.Params) ([]int, []int) {
			return axis(x.H, g.Pad, p), cols
		})
		padded(p.String()+" padding of columns only", func(rows, _ []int, x *tensor.Tensor, g conv.Params) ([]int, []int) {
			return rows, axis(x.W, g.Pad, p)
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
			padded(fmt.Sprintf("halo row beyond the %s reads row %d from there", side, back), func(rows, cols []int, x *tensor.Tensor, g conv.Params) ([]int, []int) {
				return halo(rows, x.H, g.Pad), cols
			})
			padded(fmt.Sprintf("halo column beyond the %s reads column %d from there", side, back), func(rows, cols []int, x *tensor.Tensor, g conv.Params) ([]int, []int) {
				return rows, halo(cols, x.W, g.Pad)
			})
		}
	}
	return l
}

// outputFaults are faults of where a convolution's output is written.
func outputFaults() []*hypothesis {
	var l []*hypothesis
	out := func(name string, f func(y *tensor.Tensor) bool) {
		l = append(l, &hypothesis{name: name, verdict: FailLogic, probe: "impulse", at: isConv, node: func(v *view, r *run, i int) *tensor.Tensor {
			n := &v.m.Nodes[i]
			y := v.convolve(i, convolution{x: r.in(i, 0), weights: n.Weight.Data, bias: 1, geometry: n.Geometry})
			if !f(y) {
				return nil
			}
			return y
		}})
	}
	row := func(p []float64, w, i int) []float64 { return p[i*w : (i+1)*w] }
	for _, block := range []int{4, 8, 16, 32} {
		out(fmt.Sprintf("rows of an incomplete block of %d not written", block), func(y *tensor.Tensor) bool {
			for k := range y.N * y.C {
				clear(y.Plane(k/y.C, k%y.C)[y.H/block*block*y.W:])
			}
			return y.H > block && y.H%block != 0
		})
		out(fmt.Sprintf("columns of an incomplete block of %d not written", block), func(y *tensor.Tensor) bool {
			for k := range y.N * y.C {
				for i := range y.H {
					clear(row(y.Plane(k/y.C, k%y.C), y.W, i)[y.W/block*block:])
				}
			}
			return y.W > block && y.W%block != 0
		})
		out(fmt.Sprintf("first row of each block of %d is the row before", block), func(y *tensor.Tensor) bool {
			for k := range y.N * y.C {
				p := y.Plane(k/y.C, k%y.C)
				for i := block; i < y.H; i += block {
					copy(row(p, y.W, i), row(p, y.W, i-1))
				}
			}
			return y.H > block
		})
	}
	for _, block := range []int{16} {
		out(fmt.Sprintf("rows from the last multiple of %d on not written, or the last one", block), func(y *tensor.Tensor) bool {
			from := y.H / block * block
			if from == y.H {
				from--
			}
			for k := range y.N * y.C {
				clear(y.Plane(k/y.C, k%y.C)[from*y.W:])
			}
			return from > 0 && from == y.H-1 && y.H%block == 0
		})
	}
	for _, name := range []string{"first two", "reversed", "shifted by one", "shifted back by one"} {
		order := channelOrder(name)
		out("results' channels "+name, func(y *tensor.Tensor) bool {
			from := y.Clone()
			for k := range y.N * y.C {
				copy(y.Plane(k/y.C, k%y.C), from.Plane(k/y.C, order(k%y.C, y.C)))
			}
			return true
		})
	}
	out("last channel's result is that of the one before", func(y *tensor.Tensor) bool {
		for k := range y.N {
			copy(y.Plane(k, y.C-1), y.Plane(k, max(y.C-2, 0)))
		}
		return y.C > 1
	})
	out("last sample not written", func(y *tensor.Tensor) bool {
		clear(y.Samples(y.N-1, y.N).Data)
		return true
	})
	out("results' H and W swapped", func(y *tensor.Tensor) bool { copy(y.Data, transposed(y).Data); return true })
	for _, d := range [][2]int{{0, 1}, {0, -1}, {1, 0}, {-1, 0}} {
		out(fmt.Sprintf("results moved by (%d,%d), around the edge", d[0], d[1]), func(y *tensor.Tensor) bool {
			from := y.Clone()
			for k := range y.N * y.C {
				p, q := y.Plane(k/y.C, k%y.C), from.Plane(k/y.C, k%y.C)
				for i := range p {
					p[i] = q[(i/y.W+y.H-d[0])%y.H*y.W+(i%y.W+y.W-d[1])%y.W]
				}
			}
			return true
		})
	}
	out("last row not written", func(y *tensor.Tensor) bool {
		for k := range y.N * y.C {
			clear(row(y.Plane(k/y.C, k%y.C), y.W, y.H-1))
		}
		return true
	})
	out("last column not written", func(y *tensor.Tensor) bool {
		for k := range y.Data {
			if k%y.W == y.W-1 {
				y.Data[k] = 0
			}
		}
		return true
	})
	return l
}

// weightFaults are other weights than the claimed ones, or in other places.
func weightFaults() []*hypothesis {
	at := func(o, c, i, j, cs, k int) int { return ((o*cs+c)*k+i)*k + j }
	swapped := func(name string, a, b func(k int) (i, j int)) *hypothesis {
		return weightsRead(name, isWindow, func(o, c, i, j, _, cs, k int) int {
			ai, aj := a(k)
			bi, bj := b(k)
			switch {
			case i == ai && j == aj:
				i, j = bi, bj
			case i == bi && j == bj:
				i, j = ai, aj
			}
			return at(o, c, i, j, cs, k)
		})
	}
	l := []*hypothesis{
		swapped("first two taps swapped", func(int) (int, int) { return 0, 0 }, func(int) (int, int) { return 0, 1 }),
		swapped("last two taps swapped", func(k int) (int, int) { return k - 1, k - 1 }, func(k int) (int, int) { return k - 1, k - 2 }),
		swapped("first taps of the first two rows swapped", func(int) (int, int) { return 0, 0 }, func(int) (int, int) { return 1, 0 }),
		swapped("first and last tap swapped", func(int) (int, int) { return 0, 0 }, func(k int) (int, int) { return k - 1, k - 1 }),
		weightsRead("first two rows of the kernel swapped", isWindow, func(o, c, i, j, _, cs, k int) int {
			if i < 2 {
				i = 1 - i
			}
			return at(o, c, i, j, cs, k)
		}),
		weightsRead("first two columns of the kernel swapped", isWindow, func(o, c, i, j, _, cs, k int) int {
			if j < 2 {
				j = 1 - j
			}
			return at(o, c, i, j, cs, k)
		}),
		weightsRead("filters moved by half of them", isConv, func(o, c, i, j, os, cs, k int) int { return at((o+os-max(1, os/2))%os, c, i, j, cs, k) }),
	}
	for _, from := range []int{4, 7, 8, 16} {
		l = append(l, weightsRead(fmt.Sprintf("input channels from %d on shifted by one", from), isConv, func(o, c, i, j, _, cs, k int) int {
			if n := cs - from; c >= from {
				c = from + (c-from+n-1)%n
			}
			return at(o, c, i, j, cs, k)
		}))
	}
	for _, block := range []int{4, 8, 16, 32} {
		l = append(l, weightsRead(fmt.Sprintf("terms after the last whole block of %d left out", block), isConv, func(o, c, i, j, _, cs, k int) int {
			if (c*k+i)*k+j >= cs*k*k/block*block {
				return -1
			}
			return at(o, c, i, j, cs, k)
		}))
	}
	l = append(l, change("weights of the first other layer of that shape", "integer-fill", isConv, func(c *convolution, n *operator.Node) bool {
		for i := range c.v.m.Nodes {
			if m := &c.v.m.Nodes[i]; isConv(m) && m.Name != n.Name && len(m.Weight.Data) == len(c.weights) && m.Weight.Shape[0] == n.Weight.Shape[0] && m.Weight.Shape[2] == n.Weight.Shape[2] {
				c.weights = m.Weight.Data
				return true
			}
		}
		return false
	}))
	l = append(l, change("weights of the last other layer of that shape", "integer-fill", isConv, func(c *convolution, n *operator.Node) bool {
		for i := len(c.v.m.Nodes) - 1; i >= 0; i-- {
			if m := &c.v.m.Nodes[i]; isConv(m) && m.Name != n.Name && len(m.Weight.Data) == len(c.weights) && m.Weight.Shape[0] == n.Weight.Shape[0] && m.Weight.Shape[2] == n.Weight.Shape[2] {
				c.weights = m.Weight.Data
				return true
			}
		}
		return false
	}))
	return l
}
