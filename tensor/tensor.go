// Package tensor holds dense tensors: shape, data and the number format the
// data is on. It does nothing numerical.
//
//	x := tensor.FromFloat32(pixels, 1, 3, 32, 32) // [N,C,H,W]
//	y := tensor.New(fp16.Float16, 1, 8, 32, 32)   // zeros, for an operation to set
//	device := tensor.FromBits(fp16.Float16, dump, 1, 8, 32, 32)
//	fmt.Println(y.Dims(), y.Plane(0, 3)[:4], y.Float32s()[:4])
//
// The operations of the other packages read and write tensors: they round to the
// format of the destination, which the caller makes. A shape that does not fit its
// data panics, as a mistake of the program.
package tensor

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
)

// Tensor is a dense tensor in row-major order, of any rank; a scalar has rank 0.
//
// The data is float64 whatever the format: float64 contains every number of
// every format, so one copy of an operation serves all of them. Format says on
// which grid the numbers lie and, for a destination, to which grid an
// operation rounds.
//
// Images are tensors [N,C,H,W]; the methods N, C, H, W, Plane and Samples are
// for them.
type Tensor struct {
	Shape  []int
	Format fp16.Format
	Data   []float64
}

// New returns a tensor of zeros, and keeps a copy of the shape. It panics on a
// negative dimension and on a size beyond the address space.
func New(f fp16.Format, shape ...int) *Tensor {
	return &Tensor{Shape: slices.Clone(shape), Format: f, Data: make([]float64, Size(shape))}
}

// Size returns the product of dimensions, 1 of none. It panics on a negative
// dimension and on a size beyond the address space.
func Size(shape []int) int {
	n := 1
	for _, d := range shape {
		if d < 0 {
			panic("tensor: negative dimension")
		}
		if d > 0 && n > math.MaxInt/8/d {
			panic("tensor: too large")
		}
		n *= d
	}
	return n
}

// Index returns the indices of element i of a tensor of that shape.
func Index(i int, shape []int) []int {
	at := make([]int, len(shape))
	for a := len(shape) - 1; a >= 0; a-- {
		at[a], i = i%shape[a], i/shape[a]
	}
	return at
}

// Fault says why t is no tensor of that rank, -1 for any: it is nil, has another rank,
// or its data another length than its shape says. "" if it is one.
func (t *Tensor) Fault(rank int) string {
	if t == nil {
		return "a tensor is nil"
	}
	if rank >= 0 && len(t.Shape) != rank {
		return "a tensor has another rank"
	}
	n := 1
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > math.MaxInt/d {
			return "a tensor has an impossible shape"
		}
		n *= d
	}
	if len(t.Data) != n {
		return "a tensor's data has another length than its shape"
	}
	return ""
}

// Require panics for the package that calls it if a tensor has a [Tensor.Fault].
func Require(who string, rank int, tensors ...*Tensor) {
	for _, t := range tensors {
		if f := t.Fault(rank); f != "" {
			panic(who + ": " + f)
		}
	}
}

// Of wraps data, which must hold as many numbers of format f as the shape says;
// it panics when the length differs, and takes the rest on trust. The tensor shares the slice
// of data.
func Of(f fp16.Format, data []float64, shape ...int) *Tensor {
	for _, d := range shape {
		if d < 0 {
			panic("tensor: data length does not match the shape")
		}
	}
	if len(data) != Size(shape) {
		panic("tensor: data length does not match the shape")
	}
	return &Tensor{Shape: slices.Clone(shape), Format: f, Data: data}
}

// Like returns a tensor of zeros with t's shape and format.
func Like(t *Tensor) *Tensor { return New(t.Format, t.Shape...) }

// Clone returns a copy that shares nothing with t.
func (t *Tensor) Clone() *Tensor {
	return &Tensor{Shape: slices.Clone(t.Shape), Format: t.Format, Data: slices.Clone(t.Data)}
}

// N returns the samples of an image [N,C,H,W].
func (t *Tensor) N() int { return t.Shape[0] }

// C returns the channels of an image [N,C,H,W].
func (t *Tensor) C() int { return t.Shape[1] }

// H returns the rows of an image [N,C,H,W].
func (t *Tensor) H() int { return t.Shape[2] }

// W returns the columns of an image [N,C,H,W].
func (t *Tensor) W() int { return t.Shape[3] }

// Plane returns the H*W numbers of sample n, channel c of an image, shared with t.
func (t *Tensor) Plane(n, c int) []float64 {
	hw := t.H() * t.W()
	at := (n*t.C() + c) * hw
	return t.Data[at : at+hw : at+hw]
}

// Samples returns samples lo to hi-1, of the first dimension, as a tensor that
// shares t's data.
func (t *Tensor) Samples(lo, hi int) *Tensor {
	s := new(Tensor)
	s.SetSamples(t, lo, hi)
	return s
}

// SetSamples makes t samples lo to hi-1 of another tensor, whose data it then
// shares. It allocates nothing where t has had the rank before.
func (t *Tensor) SetSamples(of *Tensor, lo, hi int) {
	each := 1
	for _, d := range of.Shape[1:] {
		each *= d
	}
	t.Shape = append(append(t.Shape[:0], hi-lo), of.Shape[1:]...)
	t.Format, t.Data = of.Format, of.Data[lo*each:hi*each:hi*each]
}

// SameShape reports whether t and u have equal shapes.
func (t *Tensor) SameShape(u *Tensor) bool { return slices.Equal(t.Shape, u.Shape) }

// Dims returns the shape as text, such as "[2,3,32,32]".
func (t *Tensor) Dims() string {
	var b strings.Builder
	for i, d := range t.Shape {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, d)
	}
	return "[" + b.String() + "]"
}
