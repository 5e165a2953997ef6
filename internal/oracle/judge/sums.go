package judge

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/oracle/kernel"
	"github.com/refrun/refrun/oracle/report"
)

// order tells in which order a kernel of one product sums; nil of other kernels, and where operands are rounded.
func (q *Question) order() *report.Order {
	if len(q.Graph.Nodes) != 1 || len(q.Inputs) < 2 || q.Operands != "" || q.Claimed != nil && q.Claimed.Operands != "" {
		return nil
	}
	terms, taps, sum := q.sums()
	if sum == nil || terms == 0 || len(q.Output.Data) == 0 {
		return nil
	}
	n := min(len(q.Output.Data), max(leastSums, min(mostSums, mostOrdered/terms)))
	var all []kernel.Sum
	for k := range n {
		i := k * len(q.Output.Data) / n
		s := kernel.Sum{A: make([]float64, terms), B: make([]float64, terms), Result: q.Output.Data[i]}
		sum(i, &s)
		all = append(all, s)
	}
	return kernel.Orders(all, taps, q.Output.Format)
}

// sums returns how many products a result is of, how many of them each channel has, and what gives them.
func (q *Question) sums() (terms, taps int, sum func(i int, s *kernel.Sum)) {
	a, b := q.Inputs[0], q.Inputs[1]
	if a.Format == fp16.Int64 || b.Format == fp16.Int64 {
		return 0, 0, nil
	}
	bias := func(channel int) float64 {
		if len(q.Inputs) > 2 {
			return q.Inputs[2].Data[channel]
		}
		return 0
	}
	shape := q.Output.Shape
	switch op := q.Graph.Nodes[0].Op.(type) {
	case graph.Linear:
		if len(b.Shape) < 2 { // one row of weights
			return 0, 0, nil
		}
		terms, n := b.Shape[1], b.Shape[0]
		return terms, 1, func(i int, s *kernel.Sum) {
			copy(s.A, a.Data[i/n*terms:])
			copy(s.B, b.Data[i%n*terms:])
			s.Bias = bias(i % n)
		}
	case graph.MatMul:
		if len(a.Shape) < 2 || len(b.Shape) < 2 || len(shape) != len(a.Shape) {
			return 0, 0, nil
		}
		terms, n, m := a.Shape[len(a.Shape)-1], shape[len(shape)-1], shape[len(shape)-2]
		each := terms * n // of each matrix of b, or b is one
		if len(b.Data) == each {
			each = 0
		} else if len(b.Data) != len(a.Data)/(m*terms)*each {
			return 0, 0, nil
		}
		return terms, 1, func(i int, s *kernel.Sum) {
			copy(s.A, a.Data[i/n*terms:])
			for k := range s.B {
				s.B[k] = b.Data[i/n/m*each+k*n+i%n]
			}
		}
	case graph.Conv:
		if op.Padding != conv.Zeros || op.Same {
			return 0, 0, nil
		}
		return q.patches(op, bias)
	}
	return 0, 0, nil
}

// patches gives what a convolution sums: a patch of an image, by (c, kh, kw), and a kernel.
func (q *Question) patches(op graph.Conv, bias func(int) float64) (terms, taps int, sum func(i int, s *kernel.Sum)) {
	x, w, shape := q.Inputs[0], q.Inputs[1], q.Output.Shape
	c, kh, kw := w.Shape[1], w.Shape[2], w.Shape[3]
	h, width := x.Shape[2], x.Shape[3]
	terms = c * kh * kw
	groups := max(op.Groups, 1)
	return terms, kh * kw, func(i int, s *kernel.Sum) {
		col, row := i%shape[3], i/shape[3]%shape[2]
		out, item := i/shape[3]/shape[2]%shape[1], i/shape[3]/shape[2]/shape[1]
		first := out / (shape[1] / groups) * c
		copy(s.B, w.Data[out*terms:])
		s.Bias = bias(out)
		for k := range s.A {
			y := row*max(1, op.Stride[0]) - op.Pad[0] + k/kw%kh*max(1, op.Dilation[0])
			z := col*max(1, op.Stride[1]) - op.Pad[1] + k%kw*max(1, op.Dilation[1])
			if y >= 0 && y < h && z >= 0 && z < width {
				s.A[k] = x.Data[((item*x.Shape[1]+first+k/(kh*kw))*h+y)*width+z]
			}
		}
	}
}
