// Package spectral holds the discrete Fourier transform, of any length and along any
// axes. A complex number is two numbers, its real and its imaginary part, in a last axis
// of size 2, as in ONNX's DFT and in PyTorch's view_as_real. That axis is not counted
// among the axes to transform.
//
//	FFT    X[k] = f sum over j of x[j] e^(-2 pi i (j1 k1/n1 + j2 k2/n2 + ...))
//	IFFT   the same with e^(+2 pi i ...)
//	RFFT   FFT of real numbers, of which the last transformed axis keeps k = 0 to
//	       floor(n/2): the others are their conjugates
//	IRFFT  the real part of IFFT of a spectrum of which the last transformed axis has
//	       k = 0 to floor(n/2): IFFT along the other axes, then along the last axis
//	       Re z[0] + 2 Re sum over 0 < k < n/2 of z[k] e^(2 pi i j k/n), and, for even n,
//	       (-1)^j Re z[n/2]
//
// So the imaginary parts of z[0] and z[n/2] are ignored, as in PyTorch's CPU build. The
// factor f is 1, 1/N or 1/sqrt(N), N = n1 n2 ..., as [Norm] says.
//
// Each part of each number is one real function of the stored numbers, all axes
// together, rounded once to the destination's format. In a Float64 destination it is
// plain float64 in a written order: that of spectral/line.go, along the last of the axes first,
// then along the others as they are given (IRFFT: the last of them last), then one
// division by N or by sqrt(N).
//
// # Zeros, and numbers that are not finite
//
// An exact zero is +0. If any of the numbers that are transformed together is not
// finite, then all that comes of them is NaN.
//
// # Misuse
//
// Shapes that do not fit together, axes that the tensor has not, and axes of no numbers
// panic. So does a Float64 source with a destination of another format: exactness is
// proven for float32 numbers.
//
// In use:
//
//	s := tensor.New(fp16.Float32, n, w/2+1, 2)
//	spectral.RFFT(s, x, []int{1}, spectral.Backward) // x [n,w]
package spectral

import (
	"fmt"
	"math/bits"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Norm says which transform of a pair carries which factor.
type Norm uint8

// The norms, as PyTorch and numpy name them.
const (
	Backward Norm = iota // the inverse 1/N
	Forward              // FFT and RFFT 1/N
	Ortho                // both 1/sqrt(N)
)

var normNames = [...]string{"backward", "forward", "ortho"}

// String returns backward, forward or ortho.
func (n Norm) String() string {
	if int(n) < len(normNames) {
		return normNames[n]
	}
	return fmt.Sprintf("Norm(%d)", uint8(n))
}

// ParseNorm returns the norm of that name. Any other name is an error.
func ParseNorm(name string) (Norm, error) {
	for i, s := range normNames {
		if s == name {
			return Norm(i), nil
		}
	}
	return 0, fmt.Errorf("%.20q: want backward, forward or ortho", name)
}

// FFT sets dst to the transform of src along axes. dst, of src's shape, has a last axis
// of 2; that of src may be 1, for real numbers. dst may be src.
func FFT(dst, src *tensor.Tensor, axes []int, norm Norm) { complexes(dst, src, axes, norm, false) }

// IFFT is FFT with the other sign of the exponent.
func IFFT(dst, src *tensor.Tensor, axes []int, norm Norm) { complexes(dst, src, axes, norm, true) }

func complexes(dst, src *tensor.Tensor, axes []int, norm Norm, inverse bool) {
	parts := src.Shape[max(0, len(src.Shape)-1):]
	if len(parts) == 0 || parts[0] != 1 && parts[0] != 2 {
		panic("spectral: source without a last axis of 2, or of 1 for real numbers")
	}
	shape := src.Shape[:len(src.Shape)-1]
	t := newTransform(shape, axes, norm, inverse)
	t.read, t.write = parts[0], 2
	t.in, t.out = newView(shape, t.axes), newView(shape, t.axes)
	t.run(dst, src, shape)
}

// RFFT sets dst to half of the transform of src, real numbers, along axes: dst has the
// shape of src, but floor(n/2)+1 instead of n in the last one of axes, and a last axis
// of 2.
func RFFT(dst, src *tensor.Tensor, axes []int, norm Norm) {
	t := newTransform(src.Shape, axes, norm, false)
	t.read, t.write = 1, 2
	t.narrow = true
	half := t.halved(src.Shape)
	t.in, t.out = newView(src.Shape, t.axes), newView(half, t.axes)
	t.run(dst, src, half)
}

// IRFFT sets dst, real numbers, to the inverse transform of src along axes: src has the
// shape of dst, but floor(n/2)+1 instead of n in the last one of axes, and a last axis
// of 2.
func IRFFT(dst, src *tensor.Tensor, axes []int, norm Norm) {
	t := newTransform(dst.Shape, axes, norm, true)
	t.read, t.write = 2, 1
	t.widen = true
	half := t.halved(dst.Shape)
	if r := len(src.Shape); r != len(half)+1 || src.Shape[r-1] != 2 || !same(src.Shape[:r-1], half) {
		panic("spectral: source of another shape than half of the destination's spectrum")
	}
	t.in, t.out = newView(half, t.axes), newView(dst.Shape, t.axes)
	t.run(dst, src, dst.Shape)
}

// transform is a transform of tensors of one shape.
type transform struct {
	axes    []int
	lines   []*line // of the axes
	inverse bool
	scale   scale
	units   float64 // the error of float64, see line.units

	read, write   int  // parts of a number: 1 or 2
	narrow, widen bool // from real numbers, to real numbers
	in, out       view
}

// newTransform returns the transform of numbers of that shape along axes.
func newTransform(shape, axes []int, norm Norm, inverse bool) *transform {
	if len(axes) == 0 {
		panic("spectral: no axes")
	}
	t := &transform{inverse: inverse}
	taken := make([]bool, len(shape))
	size := 1
	for _, a := range axes {
		if a < 0 {
			a += len(shape)
		}
		if a < 0 || a >= len(shape) || taken[a] {
			panic("spectral: axes that the tensor has not, or twice")
		}
		taken[a] = true
		n := shape[a]
		if n == 0 {
			panic("spectral: an axis of no numbers")
		}
		t.axes, t.lines = append(t.axes, a), append(t.lines, newLine(n))
		hi, lo := bits.Mul(uint(size), uint(n))
		if hi != 0 || lo > 1<<40 {
			panic("spectral: more than 2^40 numbers in one transform")
		}
		size = int(lo)
	}
	for _, l := range t.lines {
		t.units += l.units
	}
	switch {
	case norm == Ortho:
		t.scale = newScale(size, true)
	case (norm == Backward) == inverse:
		t.scale = newScale(size, false)
	default:
		t.scale = newScale(1, false)
	}
	return t
}

// halved returns the shape of half of the spectrum of numbers of that shape.
func (t *transform) halved(shape []int) []int {
	half := append([]int(nil), shape...)
	last := t.axes[len(t.axes)-1]
	half[last] = shape[last]/2 + 1
	return half
}

// run transforms src, line set by line set, into dst, which has numbers of that shape.
func (t *transform) run(dst, src *tensor.Tensor, shape []int) {
	if t.write == 2 {
		shape = append(append([]int(nil), shape...), 2)
	}
	if !same(dst.Shape, shape) {
		panic("spectral: destination of another shape than the transform's")
	}
	if src.Format == fp16.Float64 && dst.Format != fp16.Float64 {
		panic("spectral: a float64 source needs a float64 destination")
	}
	sets := len(t.in.first)
	if sets == 0 {
		return
	}
	workers := make([]*worker, par.Workers())
	par.Each(len(workers), sets, func(w, i int) {
		if workers[w] == nil {
			workers[w] = newWorker(t)
		}
		workers[w].do(dst, src, i)
	})
}

// view is a tensor as sets of numbers that are transformed together: number j of set i
// is at first[i]+along[j].
type view struct {
	first, along []int
	dims         []int // of a set
}

// newView returns the sets along axes of a shape: in a set the last of the axes runs
// fastest, and the sets are in row-major order of the other axes.
func newView(shape, axes []int) view {
	step := make([]int, len(shape))
	n := 1
	for a := len(shape) - 1; a >= 0; a-- {
		step[a] = n
		n *= shape[a]
	}
	spread := func(at []int, a int) []int {
		more := make([]int, 0, len(at)*shape[a])
		for _, i := range at {
			for j := range shape[a] {
				more = append(more, i+j*step[a])
			}
		}
		return more
	}
	v := view{first: []int{0}, along: []int{0}}
	taken := make([]bool, len(shape))
	for _, a := range axes {
		v.along = spread(v.along, a)
		v.dims = append(v.dims, shape[a])
		taken[a] = true
	}
	for a := range shape {
		if !taken[a] {
			v.first = spread(v.first, a)
		}
	}
	return v
}

func same(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
