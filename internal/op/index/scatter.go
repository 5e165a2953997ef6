package index

import "github.com/refrun/refrun/tensor"

// Reduction says what becomes of the numbers that come to one place.
type Reduction uint8

// The reductions.
const (
	Last Reduction = iota // the last one in the order of the index
	Sum
	Mean
	Max
	Min
)

// Scatter sets dst to old, with the numbers of src at places that differ from their own
// along an axis, where the index says it: ATen's scatter, scatter_add and scatter_reduce,
// and ONNX's ScatterElements. Along other axes the index may be shorter than the tensors,
// and src may be larger than the index. The old number takes part if it is included, and
// not in Last. dst may be old.
func Scatter(dst, old *tensor.Tensor, axis int, index, src *tensor.Tensor, how Reduction, include bool) error {
	want(dst.SameShape(old), "a destination of another shape")
	if len(index.Data) == 0 {
		return scattering{dst: dst, old: old, src: src, block: 1}.run()
	}
	m, step := lines(old.Shape, axis, index)
	from, _ := lines(src.Shape, axis, index)
	want(index.Shape[axis] <= src.Shape[axis], "an index larger than the source")
	along := strides(src.Shape)[axis]
	from[axis] = even(index.Shape[axis], along)
	at, err := resolved(index, old.Shape[axis])
	if err != nil {
		return err
	}
	of := make([]int, len(at))
	m.each(0, len(at), func(k, place int) { at[k] = place + at[k]*step })
	from.each(0, len(at), func(k, place int) { of[k] = place })
	return scattering{dst: dst, old: old, src: src, to: at, from: of, block: 1, how: how, include: include}.run()
}

// IndexAdd sets dst to old, with the parts of src along an axis at the places along it
// that the index names: ATen's index_add and index_reduce, and for Last index_copy. dst
// may be old.
func IndexAdd(dst, old *tensor.Tensor, axis int, index, src *tensor.Tensor, how Reduction, include bool) error {
	want(dst.SameShape(old), "a destination of another shape")
	outer, block := around(old.Shape, axis)
	n, each := old.Shape[axis], len(index.Data)
	want(len(src.Data) == outer*each*block, "a source of another size")
	at, err := resolved(index, n)
	if err != nil || len(dst.Data) == 0 {
		return err
	}
	to := make([]int, 0, outer*each)
	for o := range outer {
		for _, i := range at {
			to = append(to, o*n+i)
		}
	}
	return scattering{dst: dst, old: old, src: src, to: to, block: block, how: how, include: include}.run()
}

// ScatterND sets dst to old, with parts of src at the places that the last axis of the
// index names, as [GatherND] reads them. dst may be old.
func ScatterND(dst, old *tensor.Tensor, index, src *tensor.Tensor, how Reduction) error {
	want(dst.SameShape(old), "a destination of another shape")
	to, err := tuples(index, 0, old.Shape)
	if err != nil {
		return err
	}
	block := tensor.Size(old.Shape[index.Shape[len(index.Shape)-1]:])
	want(len(src.Data) == len(to)*block, "a source of another size")
	return scattering{dst: dst, old: old, src: src, to: to, block: block, how: how, include: true}.run()
}

// EmbeddingBag sets row b of dst to the rows of a table that the index names from
// first[b] to first[b+1]-1, taken together; without rows it is 0. Row skip, -1 for none,
// is left out. If weight is not nil each row is multiplied by its number there, exactly,
// which is for Sum only.
func EmbeddingBag(dst, table, index *tensor.Tensor, first []int, weight []float64, how Reduction, skip int) error {
	want(len(table.Shape) == 2 && how != Last && (weight == nil || how == Sum && len(weight) == len(index.Data)),
		"bags of another kind")
	block := table.Shape[1]
	want(len(first) > 0 && len(dst.Data) == (len(first)-1)*block, "a destination of another size")
	of, err := resolved(index, table.Shape[0])
	if err != nil {
		return err
	}
	if len(dst.Data) == 0 {
		return nil
	}
	c := scattering{dst: dst, src: table, block: block, how: how}
	for b := range len(first) - 1 {
		for k := first[b]; k < first[b+1]; k++ {
			if of[k] == skip {
				continue
			}
			c.to, c.from = append(c.to, b), append(c.from, of[k]*block)
			if weight != nil {
				c.factor = append(c.factor, weight[k])
			}
		}
	}
	return c.run()
}
