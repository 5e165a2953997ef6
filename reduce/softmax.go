package reduce

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// Softmax sets dst, of src's shape, to e^x_i / (e^x_1 + ... + e^x_n) along axes, one
// function of the line, rounded once. dst may be src.
//
// With m the greatest number, x - m is formed in two words without error, and its
// exponential is off by 1.1 u (elem.ExpErr), u = 2^-53. The n of them, all positive,
// are added, in an order of any kind, with at most n-1 roundings, and multiplied by one
// over that, with two more: n + 4 u of the result in all, the fractions rounded up. What
// underflows there, below 2^-1000 of the greatest term, is too small for any format but
// Float64 to show. A Float64 dst is the quotient by the sum in order.
//
// A kernel evaluates the exponentials with a relative error of b = asm.ExpBelowErr first:
// then the sum is off by b, too, and the result by 2.001 b + (n + 4) u. What that leaves
// open, some 2 of 10,000, has the finer numbers above.
func Softmax(dst, src *tensor.Tensor, axes ...int) {
	checkFormats(dst, src)
	if !dst.SameShape(src) {
		panic("reduce: source and destination differ in shape")
	}
	if len(src.Data) == 0 {
		return
	}
	v := newView(src.Shape, axes)
	f, n := dst.Format, len(v.along)
	wide := float64(1.0001*u*float64(n+4)) + 2.001*u // with the roundings of the interval's ends
	v.each(src.Data, func(i int, line []float64) {
		w := newSpace(n)
		defer spaces.Put(w)
		copy(w.x, line)
		most, undefined := greatest(line)
		if undefined {
			for j := range w.y {
				w.y[j] = fp16.NaN
			}
			v.put(dst.Data, i, w.y)
			return
		}
		if kernels := asm.ActKernels(); kernels != nil && f != fp16.Float64 && n >= 8 {
			quickSoftmax(kernels, w, f, most, wide)
			v.put(dst.Data, i, w.lo)
			return
		}
		elem.ExpBelow(w.y, w.x, most)
		if f == fp16.Float64 {
			sum := 0.0
			for _, e := range w.y {
				sum += e
			}
			for j, e := range w.y {
				w.y[j] = e / sum
			}
			v.put(dst.Data, i, w.y)
			return
		}
		l := softmaxLine{w: w, f: f}
		w.quotients(f, wide, l.settle)
		v.put(dst.Data, i, w.lo)
	})
}

// quickSoftmax sets w.lo to the softmax of w.x by a kernel's exponentials, and what they
// leave open by finer ones, whose error is wide.
func quickSoftmax(kernels *asm.Act, w *space, f fp16.Format, most, wide float64) {
	n := len(w.x)
	whole := n &^ 7
	kernels.ExpBelow(&w.y[0], &w.x[0], whole, most)
	elem.ExpBelow(w.y[whole:], w.x[whole:], most)
	fine := false
	var by float64
	l := softmaxLine{w: w, f: f}
	w.quotients(f, float64(2.001*asm.ExpBelowErr)+wide, func(j int) float64 {
		if !fine {
			elem.ExpBelow(w.y, w.x, most)
			fine, by = true, 1/quickly(w.y)
		}
		y := float64(w.y[j] * by)
		if y, ok := f.Decide(y, float64(wide*y)); ok {
			return y
		}
		return l.settle(j)
	})
}

// softmaxLine settles elements of the softmax of w.x.
type softmaxLine struct {
	w     *space
	f     fp16.Format
	exact *exact.Softmax // made when it is needed
}

func (l *softmaxLine) settle(j int) float64 {
	if l.exact == nil {
		l.exact = exact.NewSoftmax(l.w.x)
	}
	return l.f.Round(l.exact.Settle(l.w.x[j]))
}

// quotients sets w.lo to w.y over its sum, which has the relative error wide, and to what
// settle returns where that does not tell how it is rounded.
func (w *space) quotients(f fp16.Format, wide float64, settle func(j int) float64) {
	by := 1 / quickly(w.y)
	if f == fp16.Float32 {
		for j, e := range w.y {
			y := float64(e * by)
			d := float64(wide * y)
			lo := float32(y - d)
			if w.lo[j] = float64(lo); lo != float32(y+d) {
				w.hi[j] = math.Inf(1)
				continue
			}
			w.hi[j] = 0
		}
		for j, open := range w.hi {
			if open != 0 {
				w.lo[j] = settle(j)
			}
		}
		return
	}
	for j, e := range w.y {
		y := float64(e * by)
		d := float64(wide * y)
		w.lo[j], w.hi[j] = y-d, y+d
	}
	w.decide(f, settle)
}

// quickly adds positive numbers in four sums, none of which waits for another.
func quickly(y []float64) float64 {
	var a, b, c, d float64
	for ; len(y) >= 4; y = y[4:] {
		a, b, c, d = a+y[0], b+y[1], c+y[2], d+y[3]
	}
	for _, v := range y {
		a += v
	}
	return (a + b) + (c + d)
}

// greatest returns the greatest number of a line, and whether its softmax is not
// defined: it holds a NaN or +Inf, or nothing but -Inf.
func greatest(line []float64) (most float64, undefined bool) {
	most = math.Inf(-1)
	for _, x := range line {
		if !(x <= most) {
			if x != x {
				return 0, true
			}
			most = x
		}
	}
	return most, math.IsInf(most, 0)
}
