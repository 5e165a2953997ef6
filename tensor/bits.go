package tensor

import "github.com/refrun/refrun/fp16"

// FromFloat32 returns a Float32 tensor of a copy of data, which must hold as many
// numbers as the shape says; it panics when the length differs.
func FromFloat32(data []float32, shape ...int) *Tensor {
	t := of(fp16.Float32, len(data), shape)
	for i, v := range data {
		t.Data[i] = fp16.Float32.Round(float64(v)) // which changes NaNs only
	}
	return t
}

// FromBits returns a tensor of the Float16 or BFloat16 numbers with those bits, as a
// device's memory holds them; it panics for other formats, and when the length differs
// from what the shape says.
func FromBits(f fp16.Format, bits []uint16, shape ...int) *Tensor {
	t := of(f, len(bits), shape)
	fp16.Unpack(f, t.Data, bits)
	return t
}

// of returns a tensor with room for n numbers.
func of(f fp16.Format, n int, shape []int) *Tensor {
	if n != Size(shape) {
		panic("tensor: data has another length than the shape")
	}
	return New(f, shape...)
}

// Float32s returns a copy of the numbers as float32. That is exact unless the format is
// Float64, whose numbers are rounded to nearest even.
func (t *Tensor) Float32s() []float32 {
	data := make([]float32, len(t.Data))
	for i, v := range t.Data {
		data[i] = float32(v)
	}
	return data
}

// Bits returns the bits of the numbers of a Float16 or BFloat16 tensor; it panics for
// other formats.
func (t *Tensor) Bits() []uint16 {
	bits := make([]uint16, len(t.Data))
	fp16.Pack(t.Format, bits, t.Data)
	return bits
}
