package fault

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// convolution is what may be changed about a convolution node.
type convolution struct {
	x        *tensor.Tensor
	weights  []float64 // [OC,IC,K,K]
	bias     float64   // times the bias
	scale    float64   // times the sums before the bias, 0 for 1
	geometry conv.Params
	rows     []int // the row of x that each row of the padded input reads, -1 for zeros; nil for what the padding says
	cols     []int
	dilated  bool           // every second pixel is read
	node     *operator.Node // the node with what was changed in it, nil for node i
	v        *trial.View
}

// convolve evaluates node i with those changes, as the view's device does.
func convolve(v *trial.View, i int, c convolution) *tensor.Tensor {
	n := v.Machine.Nodes[i]
	if c.node != nil {
		n = *c.node
	}
	f, _, err := n.Formats(v.Device.ModeOf(i), fp16.Float32)
	if err != nil {
		return nil
	}
	src, mode := c.x, v.Device.ModeOf(i)
	if !v.Device.Wide.Takes(&n) {
		src = emulate.Operand(mode, src, f)
	}
	apart := n.Bias != nil && v.Device.Apart(i, f) && v.Stored(i) == f
	bias := n.Bias
	if apart || c.bias != 1 || c.scale != 0 {
		n.Bias = nil
	}
	if c.rows != nil {
		src = gather(src, c.rows, c.cols)
		c.geometry.Pad = [4]int{}
	}
	weights := c.weights
	if c.dilated {
		weights = dilate(&n, weights)
		for side := range c.geometry.Pad {
			c.geometry.Pad[side] *= 2
		}
	}
	y := emulate.Wide(src, emulate.NewKernel(mode, &n, weights), c.geometry)
	if c.scale != 0 {
		for k := range y.Data {
			y.Data[k] *= c.scale
		}
	}
	if apart {
		f.RoundSlice(y.Data, y.Data)
	}
	if n.Bias == nil && bias != nil && c.bias != 0 {
		for k := range y.N() * y.C() {
			b := bias.Data[k%y.C()]
			if f.Half() {
				b = f.Round(b)
			}
			for j, plane := 0, y.Plane(k/y.C(), k%y.C()); j < len(plane); j++ {
				plane[j] += c.bias * b
			}
		}
	}
	return y
}

// gather returns the tensor of those rows and columns of x, zeros where they
// are negative.
func gather(x *tensor.Tensor, rows, cols []int) *tensor.Tensor {
	y := tensor.New(fp16.Float64, x.N(), x.C(), len(rows), len(cols))
	for k := range x.N() * x.C() {
		from, to := x.Plane(k/x.C(), k%x.C()), y.Plane(k/x.C(), k%x.C())
		for i, r := range rows {
			if r < 0 {
				continue
			}
			for j, c := range cols {
				if c >= 0 {
					to[i*len(cols)+j] = from[r*x.W()+c]
				}
			}
		}
	}
	return y
}

// change is a fault of convolutions: it changes what is convolved, or reports
// that it is none for these shapes.
func change(row *table.Row, at func(*operator.Node) bool, f func(c *convolution, n *operator.Node) bool) *trial.Fault {
	return &trial.Fault{
		Row: row, At: at, Node: func(v *trial.View, i int) *tensor.Tensor { return changed(v, i, f) },
	}
}

func changed(v *trial.View, i int, f func(c *convolution, n *operator.Node) bool) *tensor.Tensor {
	n := v.Machine.Nodes[i]
	c := convolution{node: &n, v: v, x: v.In(i, 0), weights: n.Weight.Data, bias: 1, geometry: n.Geometry}
	if !f(&c, &n) {
		return nil
	}
	return convolve(v, i, c)
}

// convFaults are those of convolutions. The order is that of the library.
func convFaults() []*trial.Fault {
	return slices.Concat(paddingFaults(), orderFaults(), weightFaults(), shiftFaults(), inputFaults(), outputFaults())
}

// orderFaults are kernels read in another order, and channels that are mixed up or left out.
func orderFaults() (l []*trial.Fault) {
	at := func(o, c, i, j, cs, k int) int { return ((o*cs+c)*k+i)*k + j }
	l = append(l,
		weightsRead(Named("conv.kernel-flipped"), emulate.IsWindow,
			func(o, c, i, j, _, cs, k int) int { return at(o, c, k-1-i, k-1-j, cs, k) }),
		weightsRead(Named("conv.kernel-rows-and-columns-swapped"), emulate.IsWindow,
			func(o, c, i, j, _, cs, k int) int { return at(o, c, j, i, cs, k) }),
		weightsRead(Named("conv.kernel-flipped-top-to-bottom"), emulate.IsWindow,
			func(o, c, i, j, _, cs, k int) int { return at(o, c, k-1-i, j, cs, k) }),
		weightsRead(Named("conv.kernel-flipped-left-to-right"), emulate.IsWindow,
			func(o, c, i, j, _, cs, k int) int { return at(o, c, i, k-1-j, cs, k) }),
		weightsRead(Named("conv.weights-read-as-ic-oc"), emulate.IsConv,
			func(o, c, i, j, os, cs, k int) int { return ((c*os+o)*k+i)*k + j }),
		weightsRead(Named("conv.weights-read-as-oc-k-k-ic"), emulate.IsWindow,
			func(o, c, i, j, _, cs, k int) int { return ((o*k+i)*k+j)*cs + c }),
		weightsRead(Named("conv.weights-stored-as-oc-k-k-ic-read-as-oc-ic-k-k"), emulate.IsWindow,
			func(o, c, i, j, _, cs, k int) int {
				p := (c*k+i)*k + j
				return at(o, p%cs, p/cs/k, p/cs%k, cs, k)
			}),
	)
	for _, name := range []string{"first two", "reversed", "shifted by one", "shifted back by one"} {
		order := channelOrder(name)
		l = append(l,
			weightsRead(Named("conv.input-channels", name), emulate.IsConv,
				func(o, c, i, j, _, cs, k int) int { return at(o, order(c, cs), i, j, cs, k) }),
			weightsRead(Named("conv.output-channels", name), emulate.IsConv,
				func(o, c, i, j, os, cs, k int) int { return at(order(o, os), c, i, j, cs, k) }))
	}
	for _, d := range dropped {
		l = append(l, weightsRead(Named(d.id), emulate.IsConv, func(o, c, i, j, os, cs, k int) int {
			if d.lost(c, cs) {
				return -1
			}
			return at(o, c, i, j, cs, k)
		}))
	}
	return l
}

// shiftFaults are windows one pixel beside where they should be.
func shiftFaults() (l []*trial.Fault) {
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			if dy != 0 || dx != 0 {
				l = append(l, shifted(dy, dx))
			}
		}
	}
	return l
}

// inputFaults are another input, bias or spacing of the taps.
func inputFaults() []*trial.Fault {
	return []*trial.Fault{
		change(Named("conv.conv-bias-missing"), emulate.IsBiased,
			func(c *convolution, n *operator.Node) bool { c.bias = 0; return true }),
		change(Named("conv.conv-bias-doubled"), emulate.IsBiased,
			func(c *convolution, n *operator.Node) bool { c.bias = 2; return true }),
		change(Named("conv.h-and-w-swapped"), emulate.IsConv, func(c *convolution, n *operator.Node) bool {
			c.x = transposed(c.x)
			return true
		}),
		change(Named("conv.channels-last-input-read-as-channels-first"), emulate.IsConv,
			func(c *convolution, n *operator.Node) bool {
				c.x = interleaved(c.x)
				return c.x.C() > 1
			}),
		change(Named("conv.channels-first-input-read-as-channels-last"), emulate.IsConv,
			func(c *convolution, n *operator.Node) bool {
				y, hw := tensor.Like(c.x), c.x.H()*c.x.W()
				for k := range y.N() {
					from, to := c.x.Samples(k, k+1).Data, y.Samples(k, k+1).Data
					for i, u := range from {
						to[i%y.C()*hw+i/y.C()] = u
					}
				}
				c.x = y
				return y.C() > 1
			}),
		change(Named("conv.kernel-dilated-by-2"), emulate.IsWindow, func(c *convolution, n *operator.Node) bool {
			k := n.Weight.Shape[2]
			if c.geometry.Stride[0] > 1 || c.geometry.Pad[0]*2 != k-1 {
				return false
			}
			c.dilated = true
			return 2*c.geometry.Pad[0] < min(c.x.H(), c.x.W())
		}),
		change(Named("conv.all-samples-read-the-first"), emulate.IsConv, func(c *convolution, n *operator.Node) bool {
			c.x = samplesFrom(c.x, func(int) int { return 0 })
			return c.x.N() > 1
		}),
		change(Named("conv.bias-of-the-next-channel"), emulate.IsBiased, func(c *convolution, n *operator.Node) bool {
			n.Bias = reordered(n.Bias, func(c, n int) int { return (c + 1) % n })
			return true
		}),
		change(Named("conv.bias-of-the-channel-before"), emulate.IsBiased, func(c *convolution, n *operator.Node) bool {
			n.Bias = reordered(n.Bias, func(c, n int) int { return (c + n - 1) % n })
			return true
		}),
		change(Named("conv.samples-mixed-up-each-reads-the-one-before"), emulate.IsConv,
			func(c *convolution, n *operator.Node) bool {
				c.x = samplesFrom(c.x, func(k int) int { return max(k-1, 0) })
				return c.x.N() > 1
			}),
	}
}

// samplesFrom returns x with the samples of others.
func samplesFrom(x *tensor.Tensor, from func(k int) int) *tensor.Tensor {
	y := tensor.Like(x)
	for k := range x.N() {
		copy(y.Samples(k, k+1).Data, x.Samples(from(k), from(k)+1).Data)
	}
	return y
}

// transposed returns x as it looks if memory that holds [N,C,W,H] is read as
// [N,C,H,W]: for a square image, with H and W swapped.
func transposed(x *tensor.Tensor) *tensor.Tensor {
	y := tensor.Like(x)
	for k := range x.N() * x.C() {
		from, to := x.Plane(k/x.C(), k%x.C()), y.Plane(k/x.C(), k%x.C())
		for i := range to {
			to[i] = from[i%x.W()*x.H()+i/x.W()]
		}
	}
	return y
}

// interleaved returns x as it looks if memory that holds [N,H,W,C] is read as
// [N,C,H,W].
func interleaved(x *tensor.Tensor) *tensor.Tensor {
	y := tensor.Like(x)
	hw := x.H() * x.W()
	for n := range x.N() {
		from, to := x.Samples(n, n+1).Data, y.Samples(n, n+1).Data
		for i := range to {
			to[i] = from[i%x.C()*hw+i/x.C()]
		}
	}
	return y
}
