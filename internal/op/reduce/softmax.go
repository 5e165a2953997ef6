package reduce

import (
	"math"
	"math/bits"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/tensor"
)

// Softmax sets dst, of src's shape, to e^x_i / (e^x_1 + ... + e^x_n) along axes, one
// function of the line, rounded once. dst may be src.
//
// With m the greatest number, x - m is formed in two words without error, and its
// exponential is off by 1.1 u (elem.ExpErr), u = 2^-53. The n of them, all positive,
// are added, in an order of any kind, with at most n-1 roundings, and multiplied by one
// over that, with two more: (n + 4) u of the result in all, the fractions rounded up. What
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
	wide := float64(1.0001*u*float64(n+4)) + 2.001*u             // with the roundings of the interval's ends
	apart := v.straight && n > 0 && &dst.Data[0] != &src.Data[0] // results may go to their places at once
	v.each(src.Data, func(i int, line []float64) {
		w := newSpace(n)
		defer spaces.Put(w)
		defer func(x, lo []float64) { w.x, w.lo = x, lo }(w.x, w.lo)
		w.x = line
		if apart {
			w.lo = dst.Data[v.first[i]:][:n:n]
		}
		most, undefined := w.greatest(line)
		if undefined {
			for j := range w.y {
				w.y[j] = fp16.NaN
			}
			v.put(dst.Data, i, w.y)
			return
		}
		if kernels := asm.ActKernels(); kernels != nil && f != fp16.Float64 && n >= 8 {
			quickSoftmax(kernels, w, f, most, wide)
			if !apart {
				v.put(dst.Data, i, w.lo)
			}
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
	if whole < n { // the last ones of eight, with what comes before them
		kernels.ExpBelow(&w.lanes[0], &w.x[n-8], 8, most)
		copy(w.y[whole:], w.lanes[8-n+whole:])
	}
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

// softmaxLine settles elements of the softmax of w.x, of which w.y are the exponentials, off by
// elem.ExpErr.
type softmaxLine struct {
	w     *space
	f     fp16.Format
	sum   float64        // of the exponentials, 0 before it is needed
	exact *exact.Softmax // made when it is needed
}

// settle takes the quotient by a sum in two words, which is off by what its terms are but for
// n^2 u^2; to that come the first word, the division and the roundings of the interval's ends.
func (l *softmaxLine) settle(j int) float64 {
	if l.sum == 0 {
		var hi, lo, rest float64
		for _, e := range l.w.y {
			hi, rest = exact.TwoSum(hi, e)
			lo += rest
		}
		l.sum = hi + lo
	}
	y := l.w.y[j] / l.sum
	if y, ok := l.f.Decide(y, float64((2*elem.ExpErr+4.1)*u*y)); ok {
		return y
	}
	if l.exact == nil {
		l.exact = exact.NewSoftmax(l.w.x)
	}
	return l.f.Round(l.exact.Settle(l.w.x[j]))
}

// quotients sets w.lo to w.y over its sum, which has the relative error wide, and to what
// settle returns where that does not tell how it is rounded.
func (w *space) quotients(f fp16.Format, wide float64, settle func(j int) float64) {
	by := 1 / quickly(w.y)
	n := w.quotientBlocks(f, by, wide)
	lo, hi := w.lo[n:], w.hi[n:]
	for j, e := range w.y[n:] {
		y := float64(e * by)
		d := float64(wide * y)
		lo[j], hi[j] = y-d, y+d
	}
	f.RoundSlice(lo, lo)
	f.RoundSlice(hi, hi)
	for j, v := range lo { // all of them first: settle may change w.y
		if v == hi[j] {
			hi[j] = math.NaN() // decided
		}
	}
	for i, o := range w.open[:n/8] {
		for j := 8 * i; o != 0; j, o = j+1, o>>1 {
			if o&1 != 0 {
				w.lo[j] = settle(j)
			}
		}
	}
	for j, v := range hi {
		if v == v {
			lo[j] = settle(n + j)
		}
	}
}

// quotientBlocks does quotients by a kernel in multiples of 8, of which it returns how many it
// did, and leaves those that are open in w.open. It is the kernel of a line through 0, whose
// slope is by, with the interval of quotients. Numbers below the normal ones are open to it,
// of which float16 has too many.
func (w *space) quotientBlocks(f fp16.Format, by, wide float64) int {
	k := asm.NormKernels()
	if k == nil || f != fp16.Float32 && f != fp16.BFloat16 || len(w.y) < 8 {
		return 0
	}
	apply := k.Apply[asm.Float32]
	if f == fp16.BFloat16 {
		apply = k.Apply[asm.BFloat16]
	}
	n := len(w.y) &^ 7
	w.open = append(w.open[:0], make([]uint8, n/8)...)
	w.parameters = [6]float64{2: by, 4: wide}
	if apply(&w.lo[0], &w.y[0], n, &w.parameters, &w.open[0]) == 0 {
		return n
	}
	for i, o := range w.open {
		for ; o != 0; o &= o - 1 {
			j := 8*i + bits.TrailingZeros8(o)
			y := float64(w.y[j] * by)
			if v, ok := f.Decide(y, float64(wide*y)); ok {
				w.lo[j] = v
				w.open[i] &^= o & -o
			}
		}
	}
	return n
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
func (w *space) greatest(line []float64) (most float64, undefined bool) {
	most = math.Inf(-1)
	if k := asm.LineKernels(); k != nil && len(line) >= 8 {
		n := len(line) &^ 7
		k.Greatest(&line[0], n, &w.lanes, &w.sums)
		sum := 0.0
		for i, v := range w.lanes {
			most, sum = max(most, v), sum+w.sums[i]
		}
		if sum != sum { // there is a NaN, or perhaps infinities
			most, n = math.Inf(-1), 0
		}
		line = line[n:]
	}
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
