package grad

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// convolutions are the rules of convolutions of images.
func convolutions() map[string]rule {
	return map[string]rule{
		"conv2d": convolution, "conv_transpose2d": transposed,
		"max_pool2d": maxPool, "avg_pool2d": avgPool, "adaptive_avg_pool2d": adaptivePool,
	}
}

// convolution: the transposed convolution of d with the same weights, and for them the convolution of the input, its
// samples as channels, with d, whose stride and dilation change places; the bias has the sum of d.
func convolution(s *step) {
	convolutionBy(s, func(op graph.Op) int { return s.apply(op, s.d, s.in[1]) })
}

// convolutionBy is convolution with the transposed one as it is made.
func convolutionBy(s *step, transposed func(op graph.Op) int) {
	o := s.op.(graph.Conv)
	w := s.shape(s.in[1])
	p, err := o.Geometry(w[2], w[3])
	if err != nil || !s.even(p) {
		return
	}
	x, y := s.shape(s.x), s.shape(s.y)
	var rest [2]int // of the input, which no window reaches
	for a := range 2 {
		stride, dilation := max(p.Stride[a], 1), max(p.Dilation[a], 1)
		rest[a] = x[2+a] + 2*p.Pad[a] - dilation*(w[2+a]-1) - 1 - (y[2+a]-1)*stride
	}
	if s.wants(0) {
		s.give(0, transposed(graph.ConvTranspose{Params: p, Groups: o.Groups, OutputPadding: rest}))
	}
	if s.wants(1) {
		s.give(1, s.byKernel(p, max(o.Groups, 1), s.x, s.d))
	}
	s.byBias()
}

// transposed: the convolution of d with the same weights, and for them the input and d change places.
func transposed(s *step) {
	o := s.op.(graph.ConvTranspose)
	if !s.even(o.Params) {
		return
	}
	if s.wants(0) {
		s.give(0, s.apply(graph.Conv{Params: o.Params, Groups: o.Groups}, s.d, s.in[1]))
	}
	if s.wants(1) {
		s.give(1, s.byKernel(o.Params, max(o.Groups, 1), s.d, s.x))
	}
	s.byBias()
}

// even refuses a convolution without zeros around, as many on both sides.
func (s *step) even(p conv.Params) bool {
	switch {
	case p.Padding != conv.Zeros:
		s.refuse("no rule for padding that is not of zeros")
	case p.Pad[0] != p.Pad[2] || p.Pad[1] != p.Pad[3]:
		s.refuse("no rule for padding that is not the same on both sides")
	default:
		return true
	}
	return false
}

// byBias gives the bias the sum of d.
func (s *step) byBias() {
	if s.wants(2) {
		s.give(2, s.apply(graph.Reduction{Of: "sum", Axes: []int{0, 2, 3}}, s.d))
	}
}

// byKernel is the gradient by the weights [OC,IC/groups,KH,KW] of a convolution of images that gives what d is by,
// group by group.
func (s *step) byKernel(p conv.Params, groups, images, d int) int {
	w := s.shape(s.in[1])
	q := p
	q.Stride, q.Dilation = p.Dilation, p.Stride
	swap := func(v int) int { return s.move(v, []int{1, 0, 2, 3}) }
	part := func(v, channels, k int) int {
		if groups == 1 {
			return v
		}
		return s.apply(graph.Slice{
			Axes: graph.Ints{1}, Start: graph.Ints{k * channels}, End: graph.Ints{(k + 1) * channels},
		}, v)
	}
	var all []int
	for k := range groups {
		x, of := part(images, w[1], k), part(d, w[0]/groups, k)
		of = swap(s.apply(graph.Conv{Params: q}, swap(x), swap(of)))
		if s.err != nil {
			return of
		}
		if n := s.shape(of); n[2] > w[2] || n[3] > w[3] {
			of = s.apply(graph.Slice{Axes: graph.Ints{2, 3}, Start: graph.Ints{0, 0}, End: graph.Ints{w[2], w[3]}}, of)
		}
		all = append(all, of)
	}
	if groups == 1 {
		return all[0]
	}
	return s.apply(graph.Cat{}, all...)
}

// avgPool gives each number of a window its part of d.
func avgPool(s *step) {
	o := s.op.(graph.AvgPool)
	size := pair(o.Kernel, [2]int{1, 1})
	pad, apart := pair(o.Padding, [2]int{}), pair(o.Dilation, [2]int{1, 1})
	if len(o.Padding) > 2 || o.Ceil || o.Divisor != nil || apart != [2]int{1, 1} || pad != [2]int{} && !o.CountPadding {
		s.refuse("no rule for windows that do not all count as many numbers as they have")
		return
	}
	s.spread(size, pair(o.Stride, size), pad)
}

// pair is what an attribute says of rows and columns.
func pair(v graph.Ints, other [2]int) [2]int {
	switch len(v) {
	case 0:
		return other
	case 1:
		return [2]int{v[0], v[0]}
	}
	return [2]int{v[0], v[1]}
}

// adaptivePool does so where all windows are of one size and lie side by side.
func adaptivePool(s *step) {
	x, y := s.shape(s.x), s.shape(s.y)
	var size [2]int
	for a := range 2 {
		in, out := x[len(x)-2+a], y[len(y)-2+a]
		if out == 0 || in%out != 0 {
			s.refuse("no rule for windows of several sizes")
			return
		}
		size[a] = in / out
	}
	s.spread(size, size, [2]int{})
}

// spread gives the numbers of each window of that size d over how many they are.
func (s *step) spread(size, stride, pad [2]int) {
	x, y := s.shape(s.x), s.shape(s.y)
	n := len(x) - 2
	f := s.types[s.d].Format
	var rest [2]int
	for a := range 2 {
		rest[a] = x[n+a] + 2*pad[a] - size[a] - (y[n+a]-1)*stride[a]
	}
	count := float64(size[0] * size[1])
	part := s.apply(graph.Binary{Of: pointwise.Div, Other: &count}, s.d)
	plane := s.reshape(part, []int{elements(x[:n]), 1, y[n], y[n+1]})
	ones := s.full(1, graph.Type{Shape: []int{1, 1, size[0], size[1]}, Format: f})
	p := conv.Params{Stride: stride, Pad: [4]int{pad[0], pad[1], pad[0], pad[1]}}
	s.give(0, s.reshape(s.apply(graph.ConvTranspose{Params: p, OutputPadding: rest}, plane, ones), x))
}

// maxPool gives d to the place of the greatest number of each window, the first of equal ones.
func maxPool(s *step) {
	places := none
	if len(s.out) > 1 {
		places = s.out[1]
	} else {
		o := s.op.(graph.MaxPool)
		o.Indices = true
		places = s.applyAll(o, 2, s.x)[1]
	}
	x := s.shape(s.x)
	if s.err != nil {
		return
	}
	lead := x[: len(x)-2 : len(x)-2]
	flat := append(lead, elements(x[len(x)-2:]))
	of := func(v int) int {
		return s.reshape(v, append(lead, elements(s.shape(v)[len(x)-2:])))
	}
	zeros := s.full(0, graph.Type{Shape: flat, Format: s.types[s.d].Format})
	s.give(0, s.reshape(s.apply(graph.ScatterAdd{Axis: len(flat) - 1}, zeros, of(places), of(s.d)), x))
}

// whole reports whether a value has whole numbers, as truth values are.
func (t *tape) whole(v int) bool { return t.types[v].Format == fp16.Int64 }

// causal is a constant: whether query i sees key j, up to its own.
func (t *tape) causal(queries, keys int) int {
	c := tensor.New(fp16.Int64, queries, keys)
	for i := range queries {
		for j := range min(i+1, keys) {
			c.Data[i*keys+j] = 1
		}
	}
	return t.constant("causal "+c.Dims(), c)
}
