package index

import (
	"fmt"

	"github.com/refrun/refrun/tensor"
)

// resolved returns the numbers of an index of an axis of size n, counted from the front,
// or an error that names the first that is outside.
func resolved(index *tensor.Tensor, n int) ([]int, error) {
	of := make([]int, len(index.Data))
	for i, v := range index.Data {
		if at := int(v); uint(at) < uint(n) && float64(at) == v { // most are such
			of[i] = at
			continue
		}
		at, err := resolve(index, i, v, n)
		if err != nil {
			return nil, err
		}
		of[i] = at
	}
	return of, nil
}

// resolve returns number v of an index, which stands at place i of it.
func resolve(index *tensor.Tensor, i int, v float64, n int) (int, error) {
	if v >= 0 && v < float64(n) && v == float64(int(v)) {
		return int(v), nil
	}
	if v < 0 && v >= -float64(n) && v == float64(int(v)) {
		return int(v) + n, nil
	}
	at := make([]int, len(index.Shape))
	for a := len(at) - 1; a >= 0; a-- {
		at[a], i = i%index.Shape[a], i/index.Shape[a]
	}
	if n == 0 {
		return 0, fmt.Errorf("index%v: %.0f: want an axis with numbers, it has size 0", at, v)
	}
	return 0, fmt.Errorf("index%v: %v: want %d to %d", at, v, -n, n-1)
}

// Take sets dst to the parts of src along an axis that the numbers of an index name. The
// axes of the index stand where the axis was: ONNX's Gather, and ATen's index_select and
// embedding.
func Take(dst, src *tensor.Tensor, axis int, index *tensor.Tensor) error {
	outer, inner := around(src.Shape, axis)
	n := src.Shape[axis]
	want(len(dst.Data) == outer*len(index.Data)*inner, "a destination of another size")
	of, err := resolved(index, n)
	if err != nil || len(dst.Data) == 0 {
		return err
	}
	for i := range of {
		of[i] *= inner
	}
	maps{
		even(outer, n*inner),
		places{n: len(of), at: of},
	}.runs(dst, src, 0, inner)
	return nil
}

// lines returns the map from an index with a number for each element to a tensor of that
// shape, in which the numbers are places along an axis: all but those places.
func lines(shape []int, axis int, index *tensor.Tensor) (m maps, step int) {
	want(axis >= 0 && axis < len(shape), "an axis that the tensor has not")
	want(len(index.Shape) == len(shape), "an index of another rank")
	by := strides(shape)
	for a, n := range index.Shape {
		want(a == axis || n <= shape[a], "an index larger than the tensor")
		along := by[a]
		if a == axis {
			along = 0
		}
		m = append(m, even(n, along))
	}
	return m, by[axis]
}

// Gather sets dst, of the shape of an index, to the numbers of src with the same indices
// but for an axis, where the index says it: ATen's gather, ONNX's GatherElements. Along
// other axes the index may be shorter than src.
func Gather(dst, src *tensor.Tensor, axis int, index *tensor.Tensor) error {
	want(dst.SameShape(index), "a destination of another shape than the index")
	if len(dst.Data) == 0 {
		return nil
	}
	m, step := lines(src.Shape, axis, index)
	of, err := resolved(index, src.Shape[axis])
	if err != nil {
		return err
	}
	pieces(len(of), 1, func(lo, hi int) {
		m.each(lo, hi, func(k, at int) { dst.Data[k] = src.Data[at+of[k]*step] })
		round(dst.Format, src.Format, dst.Data[lo:hi])
	})
	return nil
}

// each calls body with the numbers lo to hi-1 of a result and their places.
func (m maps) each(lo, hi int, body func(k, at int)) {
	last := m[len(m)-1]
	for k := lo; k < hi; {
		from, _ := m[:len(m)-1].at(k / last.n)
		for i := k % last.n; i < last.n && k < hi; i++ {
			body(k, from+last.of(i))
			k++
		}
	}
}

// tuples returns the places that the last axis of an index names, in a tensor whose first
// axes have those sizes. Before them batch axes of the index and the tensor run together;
// sizes are those of the others.
func tuples(index *tensor.Tensor, batch int, shape []int) ([]int, error) {
	rank := len(index.Shape)
	want(rank > 0 && batch < rank && batch <= len(shape), "an index of too low a rank")
	depth := index.Shape[rank-1]
	want(batch+depth <= len(shape), "an index of more axes than the tensor has")
	for a := range batch {
		want(index.Shape[a] == shape[a], "an index of another batch")
	}
	batches, each := tensor.Size(index.Shape[:batch]), tensor.Size(index.Shape[batch:rank-1])
	sizes := shape[batch : batch+depth]
	slots := tensor.Size(sizes)
	of := make([]int, batches*each)
	for k := range of {
		at := 0
		for j, n := range sizes {
			i := k*depth + j
			v, err := resolve(index, i, index.Data[i], n)
			if err != nil {
				return nil, err
			}
			at = at*n + v
		}
		of[k] = k/each*slots + at
	}
	return of, nil
}

// GatherND sets dst to the parts of src that the last axis of an index names: each line
// of it is a place along the axes of src that follow the first batch ones, which the
// index has as well.
func GatherND(dst, src *tensor.Tensor, index *tensor.Tensor, batch int) error {
	of, err := tuples(index, batch, src.Shape)
	if err != nil {
		return err
	}
	inner := tensor.Size(src.Shape[batch+index.Shape[len(index.Shape)-1]:])
	want(len(dst.Data) == len(of)*inner, "a destination of another size")
	if len(dst.Data) == 0 {
		return nil
	}
	for k := range of {
		of[k] *= inner
	}
	maps{places{n: len(of), at: of}, even(inner, 1)}.move(dst, src, 0)
	return nil
}

// OneHot sets dst to 1 where the number of an index names the place along an axis of dst,
// and to 0 elsewhere. The index has dst's shape without the axis.
func OneHot(dst, index *tensor.Tensor, axis int) error {
	outer, inner := around(dst.Shape, axis)
	n := dst.Shape[axis]
	want(len(index.Data) == outer*inner, "an index of another size")
	of, err := resolved(index, n)
	if err != nil {
		return err
	}
	clear(dst.Data)
	for k, at := range of {
		dst.Data[(k/inner*n+at)*inner+k%inner] = 1
	}
	return nil
}
