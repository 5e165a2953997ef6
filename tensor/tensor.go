// Package tensor holds dense NCHW tensors: shape, data and the number format
// the data is on. It does nothing numerical.
package tensor

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
)

// Tensor is a dense tensor of shape [N,C,H,W] in row-major (NCHW) order.
//
// The data is float64 whatever the format: float64 contains every number of
// every format, so one copy of an operation serves all of them. Format says on
// which grid the numbers lie and, for a destination, to which grid an
// operation rounds.
type Tensor struct {
	N, C, H, W int
	Format     fp16.Format
	Data       []float64
}

// New returns a tensor of zeros. It panics on a negative dimension and on a size
// beyond the address space.
func New(f fp16.Format, n, c, h, w int) *Tensor {
	return &Tensor{N: n, C: c, H: h, W: w, Format: f, Data: make([]float64, size(n, c, h, w))}
}

// size returns the product of dimensions.
func size(dims ...int) int {
	n := 1
	for _, d := range dims {
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

// Of wraps data, which must hold n*c*h*w numbers of format f; it panics when
// the length differs. The tensor shares the slice.
func Of(f fp16.Format, data []float64, n, c, h, w int) *Tensor {
	if min(n, c, h, w) < 0 || len(data) != size(n, c, h, w) {
		panic("tensor: data length does not match the shape")
	}
	return &Tensor{N: n, C: c, H: h, W: w, Format: f, Data: data}
}

// Like returns a tensor of zeros with t's shape and format.
func Like(t *Tensor) *Tensor { return New(t.Format, t.N, t.C, t.H, t.W) }

// Clone returns a copy that shares nothing with t.
func (t *Tensor) Clone() *Tensor {
	c := *t
	c.Data = append([]float64(nil), t.Data...)
	return &c
}

// Plane returns the H*W numbers of sample n, channel c, shared with t.
func (t *Tensor) Plane(n, c int) []float64 {
	hw := t.H * t.W
	at := (n*t.C + c) * hw
	return t.Data[at : at+hw : at+hw]
}

// Samples returns samples lo to hi-1 as a tensor that shares t's data.
func (t *Tensor) Samples(lo, hi int) *Tensor {
	chw := t.C * t.H * t.W
	s := *t
	s.N, s.Data = hi-lo, t.Data[lo*chw:hi*chw:hi*chw]
	return &s
}

// SameShape reports whether t and u have equal N, C, H and W.
func (t *Tensor) SameShape(u *Tensor) bool {
	return t.N == u.N && t.C == u.C && t.H == u.H && t.W == u.W
}

// Shape returns N, C, H, W as text, such as "[2,3,32,32]".
func (t *Tensor) Shape() string { return fmt.Sprintf("[%d,%d,%d,%d]", t.N, t.C, t.H, t.W) }
