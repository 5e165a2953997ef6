package reduce

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Norm sets dst to the norms of src along axes, one function, rounded once; dst is as in
// [Sum]. The norm of order 1 is the sum of |x|, of 2 the root of the sum of x^2, of +Inf the
// greatest |x|, of -Inf the least, and of 0 the number of those that are not 0. Other orders
// panic. NaN counts as a number that is not 0, and makes any other norm NaN. The norm of no
// numbers is 0, that of -Inf +Inf.
//
// The float64 sums of n terms, which are exact and not negative, are off by (n - 1) u of
// themselves.
func Norm(dst, src *tensor.Tensor, order float64, axes ...int) {
	var norm func(line []float64) float64
	f := dst.Format
	switch order {
	case 0:
		norm = notZero
	case 1:
		norm = func(line []float64) float64 { return norm1(line, f) }
	case 2:
		norm = func(line []float64) float64 { return norm2(line, f) }
	case math.Inf(1):
		norm = func(line []float64) float64 { return greatestOf(line, 0, math.Abs) }
	case math.Inf(-1):
		norm = func(line []float64) float64 {
			return -greatestOf(line, math.Inf(-1), func(x float64) float64 { return -math.Abs(x) })
		}
	default:
		panic(fmt.Sprintf("reduce: norm of order %v: want 0, 1, 2 or an infinity", order))
	}
	lines(dst, src, axes, norm)
}

func notZero(line []float64) (n float64) {
	for _, x := range line {
		if x != 0 {
			n++
		}
	}
	return n
}

func norm1(line []float64, f fp16.Format) float64 {
	_, size := added(line)
	if f == fp16.Float64 || size-size != 0 {
		return size
	}
	rounded, ok := f.Decide(size, 1.0001*u*float64(float64(len(line))*size))
	if !ok {
		var s exact.Sum
		for _, x := range line {
			s.Add(math.Abs(x))
		}
		return s.Odd()
	}
	return rounded
}

func norm2(line []float64, f fp16.Format) float64 {
	sum := 0.0
	for _, x := range line {
		sum += float64(x * x)
	}
	y, bound := rooted(sum, float64(1.0001*u*float64(float64(len(line))*sum)))
	if f == fp16.Float64 || sum-sum != 0 || sum == 0 {
		return y
	}
	rounded, ok := f.Decide(y, bound)
	if !ok {
		var m exact.Moments
		m.Add(line)
		return m.RootSquares()
	}
	return rounded
}

// SumSquares sets dst to the sums of x^2 along axes, one function, rounded once; dst is as in
// [Sum].
func SumSquares(dst, src *tensor.Tensor, axes ...int) {
	f := dst.Format
	checkFormats(dst, src)
	if squareColumns(dst, src, axes) || squareLines(dst, src, axes) {
		return
	}
	lines(dst, src, axes, func(line []float64) float64 {
		sum := 0.0
		for _, x := range line {
			sum += float64(x * x)
		}
		return squares(f, sum, line)
	})
}

// squares returns the sum of a line's squares by that in float64, rounded or to be rounded.
func squares(f fp16.Format, sum float64, line []float64) float64 {
	if f == fp16.Float64 || sum-sum != 0 {
		return sum
	}
	rounded, ok := f.Decide(sum, 1.0001*u*float64(float64(len(line))*sum))
	if !ok {
		var m exact.Moments
		m.Add(line)
		return m.Squares()
	}
	return rounded
}

// squareColumns is SumSquares along axes that are neighbours and not the last ones, as totals.columns has
// sums. It is false for other axes.
func squareColumns(dst, src *tensor.Tensor, axes []int) bool {
	outer, n, inner := split(src.Shape, axes)
	if n == 0 || inner < 2 || outer == 0 || len(dst.Data) != outer*inner {
		return false
	}
	f, scale := dst.Format, 1.0001*u*float64(n)
	const most = 1 << 12 // of a row at a time
	parts := (inner + most - 1) / most
	par.For(outer*parts, func(i int) {
		w := newSpace(most + n)
		defer spaces.Put(w)
		o, first := i/parts, i%parts*most
		sums, line := w.x[:min(most, inner-first)], w.x[most:]
		clear(sums)
		x := src.Data[o*n*inner+first : (o+1)*n*inner]
		for at := 0; at < len(x); at += inner {
			for j, v := range x[at:][:len(sums)] {
				sums[j] += float64(v * v)
			}
		}
		to := dst.Data[o*inner+first:][:len(sums)]
		for j, v := range sums {
			if y, ok := decided(f, v, scale); ok {
				to[j] = y
				continue
			}
			for k := range line {
				line[k] = x[k*inner+j]
			}
			to[j] = f.Round(squares(f, v, line))
		}
	})
	return true
}

// decided returns the sum v of squares in Float32, if its error, scale of it, leaves no doubt, as Format.Decide has it.
func decided(f fp16.Format, v, scale float64) (float64, bool) {
	w := float64(float64(scale*v)*(1+0x1p-50)) + float64(0x1p-52*v)
	lo, hi := float32(v-w), float32(v+w)
	return float64(lo), f == fp16.Float32 && math.Float32bits(lo) == math.Float32bits(hi) && lo-lo == 0
}

// squareLines is SumSquares along the last axes, without a table of places. It is false for others.
func squareLines(dst, src *tensor.Tensor, axes []int) bool {
	outer, n, inner := split(src.Shape, axes)
	if n == 0 || inner != 1 || outer == 0 || len(dst.Data) != outer {
		return false
	}
	f, scale := dst.Format, 1.0001*u*float64(n)
	each := max(1, (1<<13)/n)
	par.For((outer+each-1)/each, func(i int) {
		for o := i * each; o < min((i+1)*each, outer); o++ {
			line, sum := src.Data[o*n:(o+1)*n], 0.0
			for _, x := range line {
				sum += float64(x * x)
			}
			y, ok := decided(f, sum, scale)
			if !ok {
				y = f.Round(squares(f, sum, line))
			}
			dst.Data[o] = y
		}
	})
	return true
}

// Max sets dst to the greatest numbers of src along axes; dst is as in [Sum]. A NaN wins, and
// -0 is less than +0. Of no numbers it is -Inf.
func Max(dst, src *tensor.Tensor, axes ...int) {
	lines(dst, src, axes, func(line []float64) float64 {
		return greatestOf(line, math.Inf(-1), func(x float64) float64 { return x })
	})
}

// Min sets dst to the least numbers, as [Max] does: of no numbers it is +Inf.
func Min(dst, src *tensor.Tensor, axes ...int) {
	lines(dst, src, axes, func(line []float64) float64 {
		return -greatestOf(line, math.Inf(-1), func(x float64) float64 { return -x })
	})
}

// greatestOf returns the greatest of f of the numbers, or of none what is given.
func greatestOf(line []float64, none float64, f func(x float64) float64) float64 {
	most := none
	for i, x := range line {
		if y := f(x); i == 0 {
			most = y
		} else {
			most = max(most, y)
		}
	}
	return most
}

// Any sets dst to 1 where a number of src along axes is not 0, NaN included, and to 0
// elsewhere; dst is as in [Sum].
func Any(dst, src *tensor.Tensor, axes ...int) {
	truths(dst, src, axes, func(line []float64) bool { return notZero(line) > 0 })
}

// All sets dst to 1 where no number of src along axes is 0, and to 0 elsewhere; dst is as in
// [Sum].
func All(dst, src *tensor.Tensor, axes ...int) {
	truths(dst, src, axes, func(line []float64) bool { return notZero(line) == float64(len(line)) })
}

func truths(dst, src *tensor.Tensor, axes []int, f func(line []float64) bool) {
	each(dst, src, axes, func(line []float64) float64 {
		if f(line) {
			return 1
		}
		return 0
	})
}
