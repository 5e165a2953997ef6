package grad

import (
	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// convolutions are the rules of convolutions of images.
func convolutions() map[string]rule {
	return map[string]rule{"conv2d": convolution, "max_pool2d": maxPool}
}

// convolution: the transposed convolution of d with the same weights, and for them the convolution of the input, its
// samples as channels, with d, whose stride and dilation change places; the bias has the sum of d.
func convolution(s *step) {
	o := s.op.(graph.Conv)
	w := s.shape(s.in[1])
	p, err := o.Geometry(w[2], w[3])
	switch {
	case err != nil || p.Padding != conv.Zeros:
		s.refuse("no rule for padding that is not of zeros")
		return
	case p.Pad[0] != p.Pad[2] || p.Pad[1] != p.Pad[3]:
		s.refuse("no rule for padding that is not the same on both sides")
		return
	}
	x, y := s.shape(s.x), s.shape(s.y)
	var rest [2]int // of the input, which no window reaches
	for a := range 2 {
		stride, dilation := max(p.Stride[a], 1), max(p.Dilation[a], 1)
		rest[a] = x[2+a] + 2*p.Pad[a] - dilation*(w[2+a]-1) - 1 - (y[2+a]-1)*stride
	}
	if s.wants(0) {
		s.give(0, s.apply(graph.ConvTranspose{Params: p, Groups: o.Groups, OutputPadding: rest}, s.d, s.in[1]))
	}
	if s.wants(1) {
		s.give(1, s.byKernel(p, max(o.Groups, 1)))
	}
	if s.wants(2) {
		s.give(2, s.apply(graph.Reduction{Of: "sum", Axes: []int{0, 2, 3}}, s.d))
	}
}

// byKernel is the gradient by the weights [OC,IC/groups,KH,KW], group by group.
func (s *step) byKernel(p conv.Params, groups int) int {
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
		x, d := part(s.x, w[1], k), part(s.d, w[0]/groups, k)
		of := swap(s.apply(graph.Conv{Params: q}, swap(x), swap(d)))
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
