package judge

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// spare has numbers of tensors that nobody reads any more, by their capacity: 2^e (1 + m/8) is at 8e + m. A
// question is evaluated block by block, and each block has tensors as large as the one before had.
var spare [8 * 64]sync.Pool

// spoil is set by a test: it is called with all that is released, which is not used again.
var spoil func(data []float64)

// sizeOf returns the least capacity for n numbers, and its place.
func sizeOf(n int) (capacity, at int) {
	e := bits.Len(uint(n)) - 1
	eighth := 1 << e / 8
	m := (n - 1<<e + eighth - 1) / eighth
	return 1<<e + m*eighth, 8*e + m
}

// fresh is a tensor of zeros, of numbers that are spare if there are some.
func fresh(f fp16.Format, shape ...int) *tensor.Tensor {
	n := tensor.Size(shape)
	if n < leastSpare {
		return tensor.New(f, shape...)
	}
	t := &tensor.Tensor{Shape: slices.Clone(shape), Format: f}
	capacity, at := sizeOf(n)
	if p, _ := spare[at].Get().(*[]float64); p != nil {
		t.Data = (*p)[:n]
		clear(t.Data)
	} else {
		t.Data = make([]float64, n, capacity)
	}
	return t
}

// release takes the numbers of tensors that nobody else has and nobody will read. Nil is none, and one that is
// another of them is taken once.
func release(all ...*tensor.Tensor) {
	for k, t := range all {
		if t == nil || cap(t.Data) < leastSpare ||
			slices.ContainsFunc(all[:k], func(o *tensor.Tensor) bool { return shared(o, t) }) {
			continue
		}
		data := t.Data[:cap(t.Data)]
		if spoil != nil {
			spoil(data)
			continue
		}
		if capacity, at := sizeOf(len(data)); capacity == len(data) {
			spare[at].Put(&data)
		}
	}
}

// shared reports whether two tensors have the same numbers.
func shared(a, b *tensor.Tensor) bool {
	return a != nil && b != nil && len(a.Data) > 0 && len(b.Data) > 0 && &a.Data[0] == &b.Data[0]
}
