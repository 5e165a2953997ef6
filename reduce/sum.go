package reduce

import (
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// Sum sets dst to the sums of src along axes. dst has as many numbers as the other axes,
// in their order; whether the axes stay in its shape, with size 1, is its own affair.
//
// The float64 sum of n numbers is off by at most (n-1) u sum |x|, u = 2^-53, and
// terms of higher order (N. Higham, Accuracy and Stability of Numerical Algorithms,
// 2nd ed., section 4.2): the first addition, to 0, is exact.
func Sum(dst, src *tensor.Tensor, axes ...int) { total(dst, src, axes, false) }

// Mean is Sum divided by the number of elements: one more float64 operation.
func Mean(dst, src *tensor.Tensor, axes ...int) { total(dst, src, axes, true) }

func total(dst, src *tensor.Tensor, axes []int, mean bool) {
	checkFormats(dst, src)
	v := newView(src.Shape, axes)
	if len(dst.Data) != len(v.first) {
		panic("reduce: destination size does not fit source and axes")
	}
	f, n := dst.Format, len(v.along)
	if n == 0 {
		for i := range dst.Data {
			if dst.Data[i] = 0; mean {
				dst.Data[i] = fp16.NaN
			}
		}
		return
	}
	v.each(src.Data, func(i int, line []float64) {
		sum, size := added(line)
		y, bound := sum, 1.0001*u*float64(float64(n-1)*size)
		if mean {
			y /= float64(n)
			bound = 1.0001 * (bound/float64(n) + float64(u*size)/float64(n)) // |y| is at most size/n
		}
		if f == fp16.Float64 || y-y != 0 {
			dst.Data[i] = f.Round(y)
			return
		}
		rounded, ok := f.Decide(y, bound)
		if !ok {
			rounded = f.Round(settle(line, mean))
		}
		dst.Data[i] = rounded
	})
}

// settle returns the exact sum of a line of finite numbers, or its mean, rounded to odd.
func settle(line []float64, mean bool) float64 {
	var s exact.Sum
	for _, x := range line {
		s.Add(x)
	}
	if !mean {
		return s.Odd()
	}
	m, exp := s.Int()
	return exact.Quotient(m, exp, big.NewInt(int64(len(line))))
}

// CumSum sets dst, of src's shape, to the sums of what stands before each number
// along an axis, the number itself included, or not if exclusive; from the end if
// reverse. dst may be src.
//
// Every prefix is exact, rounded once. It is followed in two words, which lose at most
// what is counted; see [exact.Sum] for the rest.
func CumSum(dst, src *tensor.Tensor, axis int, exclusive, reverse bool) {
	checkFormats(dst, src)
	if !dst.SameShape(src) {
		panic("reduce: source and destination differ in shape")
	}
	if len(src.Data) == 0 {
		return
	}
	v := newView(src.Shape, []int{axis})
	f, n := dst.Format, len(v.along)
	v.each(src.Data, func(i int, line []float64) {
		at := func(j int) int {
			if reverse {
				j = n - 1 - j
			}
			return j
		}
		p := prefix{line: append([]float64(nil), line...), at: at}
		for j := range n {
			if !exclusive {
				p.add()
			}
			dst.Data[v.first[i]+v.along[at(j)]] = p.value(f)
			if exclusive {
				p.add()
			}
		}
	})
}

// prefix is the sum of the first numbers of a line: s + l without error but for what is
// lost in l, at most lost in all.
type prefix struct {
	line       []float64
	at         func(j int) int
	n          int // numbers in it
	plain      float64
	s, l, lost float64
	exact      exact.Sum // of the first settled numbers
	settled    int
}

// add takes the next number.
func (p *prefix) add() {
	x := p.line[p.at(p.n)]
	p.n++
	p.plain += x
	var e float64
	p.s, e = twoSum(p.s, x)
	p.l, e = twoSum(p.l, e)
	if e < 0 {
		e = -e
	}
	p.lost += e
}

// value returns the sum rounded to a format.
func (p *prefix) value(f fp16.Format) float64 {
	if f == fp16.Float64 || p.plain-p.plain != 0 {
		return f.Round(p.plain)
	}
	// s+l is rounded once more; what is lost was added up with fewer than n roundings.
	y := p.s + p.l
	bound := 2 * p.lost
	if _, e := twoSum(p.s, p.l); e != 0 {
		bound += float64(1.0001 * u * max(y, -y))
	}
	rounded, ok := f.Decide(y, bound)
	if !ok {
		for ; p.settled < p.n; p.settled++ {
			p.exact.Add(p.line[p.at(p.settled)])
		}
		rounded = f.Round(p.exact.Odd())
	}
	return rounded
}

// twoSum returns s = a+b, rounded, and the error e: s+e = a+b exactly (D. E. Knuth, The
// Art of Computer Programming, vol. 2, section 4.2.2, theorem B).
func twoSum(a, b float64) (s, e float64) {
	s = a + b
	z := s - a
	return s, (a - (s - z)) + (b - z)
}
