// Package reduce holds the operations that take the numbers along axes of a tensor
// together: sums, products, variances, norms, the greatest and the least, softmax.
//
//	sum          x_1 + ... + x_n
//	mean         mu = (x_1 + ... + x_n)/n
//	cumsum       x_1 + ... + x_i for each i
//	prod         x_1 * ... * x_n
//	var          ((x_1-mu)^2 + ... + (x_n-mu)^2)/(n-c), with a correction c
//	std          the root of var
//	standardize  (x_i-mu)/(std+eps), c = 0, for each i
//	norm         of order 1: |x_1| + ... + |x_n|; of order 2: the root of x_1^2 + ... + x_n^2
//	logsumexp    ln(e^x_1 + ... + e^x_n)
//	softmax      e^x_i / (e^x_1 + ... + e^x_n) for each i
//	log_softmax  x_i - ln(e^x_1 + ... + e^x_n) for each i
//
// The result is the exact value for the stored numbers, rounded once to the
// destination's format, so no order of summing shows in it. In a Float64 destination
// it is plain float64, summed in the order of the axes, whose error each function
// states. Axes are those of the tensor, in any order, from 0; a negative one counts
// from the end.
//
// # Numbers that are not finite, and none
//
// Sums follow IEEE 754: NaN and Inf-Inf give NaN, any other sum with infinities is the
// infinity. A sum that is exactly zero is +0. The sum of no numbers is +0 and their
// mean NaN. Softmax of a line with a NaN or +Inf is NaN everywhere, and so is that of
// a line of -Inf only; elsewhere -Inf has the share +0. (PyTorch and ONNX Runtime
// return the same.) Its logarithm is NaN where it is, and -Inf of -Inf. The logarithm of a
// sum is +Inf with +Inf, NaN with NaN, and -Inf of nothing but -Inf, and of no numbers. A
// variance with a number that is not finite is NaN, and a divisor n-c is never less than 0.
//
// # Misuse
//
// Shapes that do not fit together and axes that the tensor has not panic. So does a
// Float64 source with a destination of another format: exactness is proven for
// float32 numbers.
//
// In use:
//
//	reduce.Sum(y, x, 1, -1) // along axis 1 and the last
//	reduce.Softmax(y, x, -1)
package reduce

import (
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// u is the relative error of one float64 operation.
const u = 0x1p-53

// view is a tensor as lines of numbers that an operation takes together: number j of
// line i is at first[i]+along[j].
type view struct {
	first, along []int
	straight     bool // the numbers of a line are neighbours
}

// newView returns the lines along axes of a shape, in row-major order of the others.
func newView(shape, axes []int) view {
	taken := make([]bool, len(shape))
	for _, a := range axes {
		if a < 0 {
			a += len(shape)
		}
		if a < 0 || a >= len(shape) || taken[a] {
			panic("reduce: axes that the tensor has not, or twice")
		}
		taken[a] = true
	}
	v := view{first: []int{0}, along: []int{0}}
	for a, d := range shape { // no table of what is none times something large
		switch {
		case d == 0 && !taken[a]:
			return view{straight: true}
		case d == 0:
			v.along = nil
		}
	}
	step := 1
	for a := len(shape) - 1; a >= 0; a-- { // the last axis runs fastest
		to := &v.first
		if taken[a] {
			to = &v.along
		}
		if len(*to) == 0 {
			continue
		}
		more := make([]int, 0, len(*to)*shape[a])
		for i := range shape[a] {
			for _, at := range *to {
				more = append(more, at+i*step)
			}
		}
		*to = more
		step *= shape[a]
	}
	n := len(v.along) // in rising order
	v.straight = n == 0 || v.along[n-1] == n-1
	return v
}

// each calls body with every line of src: its number, and its numbers, which body must
// not change.
func (v *view) each(src []float64, body func(i int, line []float64)) {
	n := len(v.along)
	lines := max(1, (1<<13)/max(n, 1)) // a piece of work
	par.For((len(v.first)+lines-1)/lines, func(p int) {
		var w *space
		if !v.straight {
			w = newSpace(n)
			defer spaces.Put(w)
		}
		for i := p * lines; i < min((p+1)*lines, len(v.first)); i++ {
			at := v.first[i]
			if n == 0 {
				at = 0
			}
			if v.straight {
				body(i, src[at:at+n:at+n])
				continue
			}
			for k, j := range v.along {
				w.x[k] = src[at+j]
			}
			body(i, w.x)
		}
	})
}

// checkFormats panics if dst cannot be the correctly rounded result of src.
func checkFormats(dst, src *tensor.Tensor) {
	if src.Format == fp16.Float64 && dst.Format != fp16.Float64 {
		panic("reduce: a float64 source needs a float64 destination")
	}
}

// space is the memory of a line under work.
type space struct {
	x, y, lo, hi []float64

	// What a kernel is given.
	parameters  [6]float64
	open        []uint8
	lanes, sums [8]float64
}

var spaces = sync.Pool{New: func() any { return new(space) }}

// newSpace returns memory for lines of n numbers; spaces.Put gives it back.
func newSpace(n int) *space {
	w := spaces.Get().(*space)
	if cap(w.x) < n {
		all := make([]float64, 4*n)
		w.x, w.y, w.lo, w.hi = all[:n:n], all[n:2*n:2*n], all[2*n:3*n:3*n], all[3*n:]
	}
	w.x, w.y, w.lo, w.hi = w.x[:n], w.y[:n], w.lo[:n], w.hi[:n]
	return w
}

// decide rounds the ends of the intervals lo to hi to a format, and calls settle for each
// place where they are not one number, for what is to stand there: in lo.
func (w *space) decide(f fp16.Format, settle func(j int) float64) {
	f.RoundSlice(w.lo, w.lo)
	f.RoundSlice(w.hi, w.hi)
	for j, v := range w.lo {
		if math.Float64bits(v) != math.Float64bits(w.hi[j]) || v != v {
			w.lo[j] = settle(j)
		}
	}
}

// put writes a line's numbers to their places.
func (v *view) put(dst []float64, i int, line []float64) {
	if len(line) == 0 {
		return
	}
	at := v.first[i]
	if v.straight {
		copy(dst[at:], line)
		return
	}
	for j, y := range line {
		dst[at+v.along[j]] = y
	}
}

// added returns the float64 sum of a line and the sum of its magnitudes.
func added(line []float64) (sum, size float64) {
	for _, x := range line {
		sum += x
		size += math.Abs(x)
	}
	return sum, size
}
