package judge

import (
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

func lastAxes(shape []int, n int) (axes []int) {
	for a := len(shape) - n; a < len(shape); a++ {
		axes = append(axes, a)
	}
	return axes
}

// channelwise is the shape of what there is of each channel of a tensor [N,C,...].
func channelwise(shape []int) []int {
	s := slices.Repeat([]int{1}, len(shape))
	s[1] = shape[1]
	return s
}

// parameters returns the weight and the bias of a norm, as they are spread over its input; -1
// for none.
func (b *builder) parameters(in []int, spread func(k int) int) (weight, bias int) {
	weight, bias = -1, -1
	if len(in) > 1 && !b.is("kernel.weight-missing") {
		weight = spread(1)
	}
	if len(in) > 2 && !b.is("kernel.bias-missing") {
		bias = spread(2)
	}
	return weight, bias
}

// channels spreads what there is of each channel.
func (b *builder) channels(value int, shape []int) int {
	return b.step("parameter", graph.Reshape{Shape: channelwise(shape)}, value)
}

// norm is (x - mean)/sqrt(variance + eps), times a weight, plus a bias.
func (b *builder) norm(x int, shape, axes []int, eps float64, weight, bias int) int {
	n := 1
	for _, a := range axes {
		n *= shape[a]
	}
	var mean int
	of, share := b.part(x, shape, axes[len(axes)-1])
	count := b.padded(n)
	share *= float64(n) / count.of
	mean = b.times(b.step("mean_exact", over("mean", axes...), of), share)
	about := mean // what the variance is about: the mean before it is stored
	mean = b.may(false, b.step("mean", same, mean))
	if b.variances && b.form.StoredMean {
		about = mean
	}
	d := b.step("centered", sub, x, mean)
	var v int
	var kept []int
	switch {
	case b.form.OnePass:
		near := of
		if !b.form.loses {
			near = b.step("near", nearer{axes, eps}, of)
			about = b.times(b.step("mean_near", over("mean", axes...), near), share)
		}
		squares := b.times(b.step("mean_square", over("mean", axes...), b.step("square", unary("square"), near)), share)
		v = b.step("variance", sub, squares, b.step("square_mean", unary("square"), about))
		v = b.step("variance_0", unaryMax0(), v)
	default:
		c := d
		if of != x || b.stored {
			c = b.step("part_centered", sub, of, about)
		}
		squares := b.step("square", unary("square"), c)
		if b.variances {
			total, count := b.step("variance_sum", over("sum", axes...), squares), b.step("count", same, b.number(float64(n)))
			v = b.step("variance", div, total, count)
			kept = []int{total, count, v}
		} else {
			v = b.step("variance", over("mean", axes...), squares)
		}
		v = b.times(v, share)
		if count.lanes > 0 {
			beyond := b.times(b.step("square_mean", unary("square"), about), count.lanes/count.of)
			v = b.step("variance_padded", plus, v, beyond)
		}
	}
	if b.is("kernel.variance-n-minus-1") && n > 1 {
		v = b.step("unbiased", mul, v, b.number(float64(n)/float64(n-1)))
	}
	b.may(false, v)
	rstd := b.offBy(b.root(v, eps), shape, axes)
	if b.stored {
		b.together("statistics", mean, rstd)
	}
	if b.variances {
		b.together("variances", kept...)
	}
	if b.is("kernel.mean-not-subtracted") {
		d = x
	}
	return b.scaled(x, d, mean, rstd, weight, bias)
}

// root is 1/sqrt(v + eps).
func (b *builder) root(v int, eps float64) int {
	switch {
	case b.is("kernel.eps-ignored"):
	case b.is(otherEps):
		v = b.step("variance_eps", plus, v, b.number(b.figure(0)))
	case b.outside, b.is("kernel.eps-outside-root"):
		s := b.step("deviation", unary("sqrt"), v)
		return b.step("rstd", unary("reciprocal"), b.step("deviation_eps", plus, s, b.number(eps)))
	default:
		v = b.step("variance_eps", plus, v, b.number(eps))
	}
	if b.is(rootForgotten) {
		return b.step("rstd", unary("reciprocal"), v)
	}
	return b.may(false, b.step("rstd", unary("rsqrt"), v))
}

// scaled is d*rstd*weight + bias, where d is x - mean, or x*scale + shift; parameters below 0
// there are none.
func (b *builder) scaled(x, d, mean, rstd, weight, bias int) int {
	if b.form.Affine && mean >= 0 {
		scale := rstd
		if weight >= 0 {
			scale = b.step("scale", mul, rstd, weight)
		}
		shift := b.step("shift", unary("neg"), b.step("mean_scale", mul, mean, scale))
		if bias >= 0 {
			shift = b.step("shift_bias", plus, shift, bias)
		}
		return b.step("output", plus, b.step("scaled", mul, x, scale), shift)
	}
	y := b.step("normalized", mul, d, rstd)
	if weight >= 0 {
		b.may(true, y)
		y = b.step("scaled", mul, y, weight)
	}
	if bias >= 0 {
		y = b.step("output", plus, y, bias)
	}
	return y
}

func (b *builder) rms(op graph.RMSNorm, in []int, shape []int) int {
	axes := lastAxes(shape, max(len(op.Shape), 1))
	eps := defaultEps
	if op.Eps != nil {
		eps = *op.Eps
	}
	n := 1
	for _, a := range axes {
		n *= shape[a]
	}
	of, share := b.part(in[0], shape, axes[len(axes)-1])
	x := in[0]
	if b.is("kernel.mean-subtracted") {
		x = b.step("centered", sub, x, b.step("mean", over("mean", axes...), x))
		of = x
	}
	v := b.may(false, b.step("mean_square", over("mean", axes...), b.step("square", unary("square"), of)))
	v = b.times(v, share*float64(n)/b.padded(n).of)
	rstd := b.offBy(b.root(v, eps), shape, axes)
	weight := -1
	if len(in) > 1 && !b.is("kernel.weight-missing") {
		weight = in[1]
	}
	if weight >= 0 && b.is("kernel.weight-plus-one") {
		weight = b.step("weight_1", plus, weight, b.number(1))
	}
	return b.scaled(x, x, -1, rstd, weight, -1)
}

func (b *builder) groups(in []int, shape []int, groups int, eps float64) int {
	if b.is("kernel.groups-of-channels") && groups != shape[1] {
		groups = shape[1]
	} else if b.is("kernel.one-group") {
		groups = 1
	}
	x := b.step("grouped", graph.Reshape{Shape: []int{shape[0], groups, -1}}, in[0])
	n := tensor.Size(shape) / (shape[0] * groups)
	weight, bias := b.parameters(in, func(k int) int {
		full := b.step("spread", graph.Expand{Size: shape}, b.channels(in[k], shape))
		return b.step("parameter_grouped", graph.Reshape{Shape: []int{shape[0], groups, -1}}, full)
	})
	y := b.norm(x, []int{shape[0], groups, n}, []int{2}, eps, weight, bias)
	return b.step("output", graph.Reshape{Shape: shape}, y)
}

func real(v float64) *float64 { return &v }

// running is a batch norm in evaluation: its statistics are inputs.
func (b *builder) running(in []int, shape []int, eps float64) int {
	n := len(in)
	mean, v := b.channels(in[n-2], shape), b.channels(in[n-1], shape)
	rstd := b.root(v, eps)
	weight, bias := b.parameters(in[:n-2], func(k int) int { return b.channels(in[k], shape) })
	return b.scaled(in[0], b.step("centered", sub, in[0], mean), mean, rstd, weight, bias)
}
