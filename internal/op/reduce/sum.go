package reduce

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/ground/par"
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
	if t := (totals{f: dst.Format, mean: mean}); t.columns(dst, src, axes) {
		return
	}
	v := newView(src.Shape, axes)
	if len(dst.Data) != len(v.first) {
		panic("reduce: destination size does not fit source and axes")
	}
	t := totals{dst.Format, len(v.along), mean}
	if t.n == 0 {
		for i := range dst.Data {
			if dst.Data[i] = 0; mean {
				dst.Data[i] = fp16.NaN
			}
		}
		return
	}
	v.each(src.Data, func(i int, line []float64) {
		y, ok := t.value(added(line))
		if !ok {
			y = t.f.Round(settle(line, mean))
		}
		dst.Data[i] = y
	})
}

// totals are sums, or means, of n numbers each.
type totals struct {
	f    fp16.Format
	n    int
	mean bool
}

// value returns the rounded total of numbers by their float64 sum and that of their magnitudes, false
// if these cannot tell.
func (t *totals) value(sum, size float64) (float64, bool) {
	y, bound := sum, 1.0001*u*float64(float64(t.n-1)*size)
	if t.mean {
		y /= float64(t.n)
		bound = 1.0001 * (bound/float64(t.n) + float64(u*size)/float64(t.n)) // |y| is at most size/n
	}
	if t.f == fp16.Float64 || y-y != 0 {
		return t.f.Round(y), true
	}
	return t.f.Decide(y, bound)
}

// columns evaluates totals along axes that are neighbours and not the last ones, of [outer,n,inner]
// along n: row by row, each number in the same order as along its line. It is false for other axes.
func (t *totals) columns(dst, src *tensor.Tensor, axes []int) bool {
	outer, n, inner := split(src.Shape, axes)
	if t.n = n; n == 0 || inner < 2 || outer == 0 || len(dst.Data) != outer*inner {
		return false
	}
	// Decide for sums in float32, in line. A size beyond float64 is not a bound: lo and hi are NaN then.
	quick, scale := t.f == fp16.Float32 && !t.mean, 1.0001*u*float64(n-1)
	rows := max(1, (1<<13)/(n*inner)) // a piece of work
	par.For((outer+rows-1)/rows, func(p int) {
		w := newSpace(2*inner + n)
		defer spaces.Put(w)
		sum, size, line := w.x[:inner], w.x[inner:2*inner], w.x[2*inner:2*inner+n]
		for o := p * rows; o < min((p+1)*rows, outer); o++ {
			x := src.Data[o*n*inner : (o+1)*n*inner]
			clear(w.x[:2*inner])
			for at := 0; at < len(x); at += inner {
				for j, v := range x[at : at+inner] {
					sum[j] += v
					size[j] += math.Abs(v)
				}
			}
			for j, v := range sum {
				if quick {
					w := float64(float64(scale*size[j])*(1+0x1p-50)) + float64(0x1p-52*math.Abs(v))
					lo, hi := float32(v-w), float32(v+w)
					if math.Float32bits(lo) == math.Float32bits(hi) && lo-lo == 0 {
						dst.Data[o*inner+j] = float64(lo)
						continue
					}
				}
				y, ok := t.value(v, size[j])
				if !ok {
					for k := range line {
						line[k] = x[k*inner+j]
					}
					y = t.f.Round(settle(line, t.mean))
				}
				dst.Data[o*inner+j] = y
			}
		}
	})
	return true
}

// split sees a shape as [outer,n,inner], n being the sizes along axes that are neighbours; n is 0 if they
// are not.
func split(shape, axes []int) (outer, n, inner int) {
	taken := make([]bool, len(shape))
	for _, a := range axes {
		if a < 0 {
			a += len(shape)
		}
		if a < 0 || a >= len(shape) || taken[a] {
			return 0, 0, 0
		}
		taken[a] = true
	}
	outer, n, inner = 1, 1, 1
	for a, state := 0, 0; a < len(shape); a++ {
		switch {
		case taken[a] && state == 2:
			return 0, 0, 0
		case taken[a]:
			state = 1
			n *= shape[a]
		case state == 0:
			outer *= shape[a]
		default:
			state = 2
			inner *= shape[a]
		}
	}
	return outer, n, inner
}

// settle returns the exact sum of a line of finite numbers, or its mean, rounded to odd. Of few numbers of
// like size the float64 sum is exact as a rule, and often lies in the middle between two float32 numbers.
func settle(line []float64, mean bool) float64 {
	if y, ok := plain(line); ok && !mean {
		return y
	}
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

// plain returns the float64 sum of a line, and whether it is exact.
func plain(line []float64) (sum float64, exactly bool) {
	for _, x := range line {
		s, e := twoSum(sum, x)
		if e != 0 {
			return 0, false
		}
		sum = s
	}
	return sum, true
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
