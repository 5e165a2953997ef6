package spectral

import (
	"math"

	"github.com/refrun/refrun/internal/exact/double"
	"github.com/refrun/refrun/tensor"
)

// vanishes reports whether a part of number k of the result is 0 whatever the numbers
// are: the imaginary part of what is its own conjugate.
func (t *transform) vanishes(k, part int) bool {
	if t.read == 2 || part == 0 {
		return false
	}
	for a := len(t.lines) - 1; a >= 0; a-- {
		d := t.out.dims[a]
		if 2*(k%d)%t.lines[a].n != 0 {
			return false
		}
		k /= d
	}
	return true
}

// settle decides the open roundings of set i, whose magnitudes add up to size.
func (w *worker) settle(dst *tensor.Tensor, i int, size float64) {
	f := dst.Format
	to := func(open int) *float64 {
		return &dst.Data[w.write*(w.out.first[i]+w.out.along[open/2])+open%2]
	}
	rest := w.open[:0]
	var y []complexNum // of all numbers
	units := 0.0
	switch {
	case len(w.open) > w.worth():
		y = w.double()
		for _, l := range w.lines {
			units += l.unitsDD
		}
	case w.read == 1 && !w.inverse && len(w.lines) == 1:
		units = sumUnits * float64(w.lines[0].n)
	default:
		rest = w.open
	}
	if units > 0 {
		bound := float64(units * (1.0001 * 0x1p-106 * size / w.scale.div))
		for _, open := range w.open {
			var v double.Num
			switch {
			case y == nil:
				v = w.single(open/2, open%2)
			case (open%2 == 1) != w.inverse:
				v = y[open/2].im
			default:
				v = y[open/2].re
			}
			v = double.Sum(v.Hi, v.Lo).Over(w.scale.wide)
			err := bound + float64(math.Abs(v.Hi)*(24*0x1p-106)) // 15 of the quotient, 8 of the root
			rounded, ok := f.Decide(v.Hi+0, math.Abs(v.Lo)+err)
			if !ok {
				var odd float64
				if odd, ok = v.Odd(err); ok {
					rounded = f.Round(odd)
				}
			}
			if ok {
				*to(open) = rounded
			} else {
				rest = append(rest, open)
			}
		}
	}
	if len(rest) == 0 {
		return
	}
	if w.exact == nil {
		w.exact = newDirect(w.transform)
	}
	w.exact.load(w.x)
	for _, open := range rest {
		*to(open) = f.Round(w.exact.part(open/2, open%2))
	}
}

// sumUnits is the error that single has for each number of a line, in units of 2^-106 of the sum of magnitudes: 3 of a
// sum; and of a product, relative to its number, 2 and 1 for the root, which are no more than 3 for all together.
const sumUnits = 6

// single returns a part of number k of a transform of real numbers along one axis, by its definition in two words.
func (w *worker) single(k, part int) (sum double.Num) {
	l := w.lines[0]
	turn := 0
	for _, x := range w.x.re {
		root := l.wide[turn].re
		if part == 1 {
			root = l.wide[turn].im
		}
		sum = sum.Plus(root.Scaled(x))
		if turn += k; turn >= l.n {
			turn -= l.n
		}
	}
	return sum
}

// worth returns for how many numbers of a set the sums of direct take about as long as
// all its numbers in two words: a stage of radix p is p products for each number, each of
// which takes as long as some additions.
func (t *transform) worth() int {
	n := 0
	for _, l := range t.lines {
		for _, p := range l.primes {
			n += 8 * p
		}
	}
	return n
}

// double returns the transform of the set with two words for each number.
func (w *worker) double() []complexNum {
	if w.wideA == nil {
		w.wideA, w.wideB = make([]complexNum, len(w.a.re)), make([]complexNum, len(w.a.re))
	}
	a, b := w.wideA, w.wideB
	for k, x := range w.x.re {
		a[k] = complexNum{double.Num{Hi: x}, double.Num{Hi: w.x.im[k]}}
	}
	w.passes(func(l *line, outer, inner int) {
		n := l.n * inner
		for o := range outer {
			l.transformDD(a[o*n:(o+1)*n], b[o*n:(o+1)*n], inner)
		}
		if len(l.primes)%2 == 1 {
			a, b = b, a
		}
	}, func(rows, from, to int) { resize(a, rows, from, to) })
	return a
}
