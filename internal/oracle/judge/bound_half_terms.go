package judge

import (
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// summandsOf are those of an operation's results, which have a shape; none of an operation of which they are not known.
func summandsOf(op graph.Op, x []*tensor.Tensor, shape []int) summands {
	switch op := op.(type) {
	case graph.Reduction:
		return reducedTerms(op, x[0].Shape, shape)
	case graph.AvgPool:
		return pooledTerms(op, x[0].Shape, shape, averaged(op))
	case graph.AdaptivePool:
		in, axes := x[0].Shape, pooled(op)
		if tensor.Size(shape[len(shape)-axes:]) == 1 {
			return reducedTerms(graph.Reduction{Of: "mean", Axes: lastAxes(in, axes), Keep: true}, in, shape)
		}
		size := make([]int, axes)
		for a := range size {
			size[a] = int(windows(in[len(in)-axes+a:][:1], shape[len(shape)-axes+a:][:1]))
		}
		return pooledTerms(op, in, shape, size)
	case graph.Gemm:
		axis := func(transposed bool, axis int) int {
			if transposed {
				return -3 - axis
			}
			return axis
		}
		return matrixTerms(op, x, shape, axis(op.TransA, -1), axis(op.TransB, -2))
	case graph.Einsum:
		return einsumTerms(op, x)
	case graph.Conv, graph.Convolution, graph.ConvTranspose:
		return tappedTerms(op, x, shape)
	}
	if a, b, is := matrixAxes(op); is {
		return matrixTerms(op, x, shape, a, b)
	}
	return summands{}
}

// pooled is how many axes a pool has, avg_pool2d two.
func pooled(op graph.Op) int {
	name := op.Name()
	return int(name[len(name)-2] - '0')
}

// averaged is over how many places along each axis a window reaches.
func averaged(op graph.AvgPool) []int {
	size := make([]int, pooled(op))
	for a := range size {
		size[a] = op.Kernel[a%len(op.Kernel)]
		if len(op.Dilation) > 0 {
			size[a] *= op.Dilation[a%len(op.Dilation)]
		}
	}
	return size
}

// reducedTerms are what lies along the axes of a reduction.
func reducedTerms(op graph.Reduction, in, shape []int) summands {
	kept, summed := []int{0}, []int{0} // offsets
	for a, step := len(in)-1, 1; a >= 0; a-- {
		to := &kept
		if len(op.Axes) == 0 || slices.Contains(op.Axes, a) || slices.Contains(op.Axes, a-len(in)) {
			to = &summed
		}
		var all []int
		for i := range in[a] {
			for _, at := range *to {
				all = append(all, i*step+at)
			}
		}
		*to, step = all, step*in[a]
	}
	t := summands{n: len(summed), times: 1, of: func(x []*tensor.Tensor, k int) (*tensor.Tensor, error) {
		y := fresh(fp16.Float64, shape...)
		for i, at := range kept {
			y.Data[i] = x[0].Data[at+summed[k]]
		}
		return y, nil
	}}
	if op.Of == "mean" && t.n > 0 {
		t.times = 1 / float64(t.n)
	}
	return t
}

// pooledTerms are what lies in the windows of a pool, of which each has one number at most of those places that are
// alike modulo its size.
func pooledTerms(op graph.Op, in, shape, size []int) summands {
	n := tensor.Size(size)
	image, plane := tensor.Size(in[len(in)-len(size):]), tensor.Size(shape[len(shape)-len(size):])
	places, ones := make([]*tensor.Tensor, n), make([]*tensor.Tensor, n)
	for k := range n {
		places[k] = fresh(fp16.Float64, append([]int{1}, in[len(in)-len(size):]...)...)
		ones[k] = fresh(fp16.Float64, places[k].Shape...)
	}
	for i := range image {
		class, at := 0, i
		for a, times := len(size)-1, 1; a >= 0; a-- {
			s := in[len(in)-len(size)+a]
			class += at % s % size[a] * times
			at, times = at/s, times*size[a]
		}
		places[class].Data[i], ones[class].Data[i] = float64(i), 1
	}
	return summands{n: n, times: 1 / float64(n), of: func(x []*tensor.Tensor, k int) (*tensor.Tensor, error) {
		at, err := one(op, places[k])
		if err != nil {
			return nil, err
		}
		weight, err := one(op, ones[k])
		if err != nil {
			return nil, err
		}
		y := fresh(fp16.Float64, shape...)
		for i := range y.Data {
			if w := weight.Data[i%plane]; w != 0 {
				y.Data[i] = x[0].Data[i/plane*image+int(math.RoundToEven(at.Data[i%plane]/w))] * float64(w*float64(n))
			}
		}
		release(at, weight)
		return y, nil
	}}
}

// partAt is the part of a tensor of one place along an axis.
func partAt(x *tensor.Tensor, axis, k int) (*tensor.Tensor, error) {
	axis = max(axis, -len(x.Shape)) // a vector has one
	return one(graph.Slice{Axes: graph.Ints{axis}, Start: graph.Ints{k}, End: graph.Ints{k + 1}}, x)
}

// matrixTerms are the products of columns and rows.
func matrixTerms(op graph.Op, x []*tensor.Tensor, shape []int, axisA, axisB int) summands {
	first := firstMatrix(op)
	a := x[first].Shape
	t := summands{n: a[len(a)+axisA], times: 1, product: true}
	of := op // without a bias
	if add, is := op.(graph.AddMM); is {
		add.Beta = 0
		of = add
	}
	rows, columns := readsOf(of, x, first, axisA, axisB), readsOf(of, x, first+1, axisB, axisA)
	t.of = func(x []*tensor.Tensor, k int) (*tensor.Tensor, error) {
		if rows.at != nil && columns.at != nil {
			y, a, b := fresh(fp16.Float64, shape...), x[first].Data[k*rows.step:], x[first+1].Data[k*columns.step:]
			for i, at := range rows.at {
				y.Data[i] = a[at] * b[columns.at[i]]
			}
			return y, nil
		}
		part := slices.Clone(x[:first+2])
		var err error
		if part[first], err = partAt(x[first], axisA, k); err == nil {
			part[first+1], err = partAt(x[first+1], axisB, k)
		}
		if err != nil {
			return nil, err
		}
		defer release(part[first:]...)
		return one(of, part...)
	}
	if len(x) > 2 {
		t.bias = biasOf(op)
	}
	return t
}

// reads says where a product reads an operand: for each result the place of its first term, and the step to the next
// one.
type reads struct {
	at   []int
	step int
}

// readsOf finds where a product reads an operand whose terms lie along axis. It runs the operation on an operand of
// places and another one of ones, each of one term: the result is the place that was read. If the product has another
// factor, the places are not known, and readsOf returns none.
func readsOf(op graph.Op, x []*tensor.Tensor, operand, axis, other int) reads {
	first := firstMatrix(op)
	given := slices.Clone(x[:first+2])
	for k := first; k < len(given); k++ {
		shape, along := slices.Clone(x[k].Shape), other
		if k == operand {
			along = axis
		}
		shape[max(0, len(shape)+along)] = 1
		given[k] = fresh(fp16.Float64, shape...)
		for i := range given[k].Data {
			given[k].Data[i] = 1
			if k == operand {
				given[k].Data[i] += float64(i)
			}
		}
	}
	defer release(given[first:]...)
	places, err := one(op, given...)
	if err != nil || len(places.Data) == 0 || slices.Min(places.Data) != 1 {
		return reads{}
	}
	shape := x[operand].Shape
	axis = max(0, len(shape)+axis)
	t := reads{at: make([]int, len(places.Data)), step: tensor.Size(shape[axis+1:])}
	for i, v := range places.Data {
		at := int(v) - 1
		t.at[i] = at/t.step*t.step*shape[axis] + at%t.step
	}
	release(places)
	return t
}

// biasOf is what a product adds to a sum of zeros.
func biasOf(op graph.Op) func(x []*tensor.Tensor) (*tensor.Tensor, error) {
	return func(x []*tensor.Tensor) (*tensor.Tensor, error) {
		given := slices.Clone(x)
		first := firstMatrix(op)
		given[first] = fresh(fp16.Float64, x[first].Shape...)
		defer release(given[first])
		return one(op, given...)
	}
}

// einsumTerms are the products at each place of the labels that the result lacks, if no label is there twice in an
// operand.
func einsumTerms(op graph.Einsum, x []*tensor.Tensor) summands {
	given, result, is := strings.Cut(strings.ReplaceAll(op.Equation, " ", ""), "->")
	of := strings.Split(given, ",")
	if !is || strings.Contains(given, ".") || len(of) != len(x) {
		return summands{}
	}
	var lacking []byte
	size := map[byte]int{}
	for k, labels := range of {
		for a := range len(labels) {
			l := labels[a]
			if strings.Count(labels, string(l)) > 1 {
				return summands{}
			}
			if size[l] = max(size[l], x[k].Shape[a]); strings.IndexByte(result, l) < 0 && !slices.Contains(lacking, l) {
				lacking = append(lacking, l)
			}
		}
	}
	t := summands{n: 1, times: 1, product: true}
	for _, l := range lacking {
		t.n *= size[l]
	}
	t.of = func(x []*tensor.Tensor, k int) (*tensor.Tensor, error) {
		part := slices.Clone(x)
		for i := len(lacking) - 1; i >= 0; i-- {
			l := lacking[i]
			for j, labels := range of {
				if a := strings.IndexByte(labels, l); a >= 0 && x[j].Shape[a] > 1 {
					var err error
					if part[j], err = partAt(part[j], a-len(labels), k%size[l]); err != nil {
						return nil, err
					}
				}
			}
			k /= size[l]
		}
		return one(op, part...)
	}
	return t
}

// tappedTerms are the products at each place of a kernel, of each channel.
func tappedTerms(op graph.Op, x []*tensor.Tensor, shape []int) summands {
	g := convolved(op, x[0].Shape, x[1].Shape, shape)
	t := summands{n: g.inner * g.taps, times: 1, product: true}
	var from [][]float64
	t.of = func(x []*tensor.Tensor, k int) (*tensor.Tensor, error) {
		if from == nil {
			all := make([]int, g.taps)
			for tap := range all {
				all[tap] = tap
			}
			var err error
			if from, err = g.read(op, all...); err != nil {
				return nil, err
			}
		}
		y := fresh(fp16.Float64, shape...)
		g.add(y, x[0], x[1], from[k%g.taps], k/g.taps, k%g.taps)
		return y, nil
	}
	if len(x) > 2 {
		t.bias = biasOf(op)
	}
	return t
}
