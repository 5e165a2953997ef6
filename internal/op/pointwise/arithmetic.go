package pointwise

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/double"
)

// add and sub know the error of the float64 sum: the sum of both words is exact. It is
// settled by rounding that to odd: rounding to float64 on the way is no harm in
// float32 (Figueroa), but is in a shorter format, where the first word of
// (1 + 2^-11) + 2^-60 is a tie of float16.
func add(a, b float64) (y, bound float64) {
	s := double.Sum(a, b)
	return s.Hi, math.Abs(s.Lo)
}

func settleAdd(a, b float64) float64 { return odd(double.Sum(a, b)) }

func sub(a, b float64) (y, bound float64) { return add(a, -b) }

func settleSub(a, b float64) float64 { return settleAdd(a, -b) }

// mul is exact for numbers of 24 bits.
func mul(a, b float64) (y, bound float64) { return float64(a * b), 0 }

// div is a/b rounded to float64 and then to the format, as if once.
//
// The second rounding could go wrong only if q = a/b were not a tie t of the format
// (its grid points, and what lies halfway between them) but within 2^-53 t of one.
// Take |a| = A 2^i, |b| = B 2^j, |t| = T 2^k with 2^23 <= A, B < 2^24 and
// 2^24 <= T < 2^25, as ties have at most 25 bits. Then | |a| - |tb| | < 2^-52.9 |tb|.
// |tb| = TB 2^(j+k) with TB >= 2^47, so that i > j+k, and both are multiples of
// 2^(j+k): they are equal, or differ by 2^(j+k) > 2^-49 |tb|.
func div(a, b float64) (y, bound float64) { return a / b, 0 }

// prelu is a for a > 0, and a times b below.
func prelu(a, b float64) (y, bound float64) {
	if a > 0 {
		return a, 0
	}
	return float64(a * b), 0
}

// minimum and maximum are IEEE 754-2019's: a NaN wins, and -0 is less than +0.
func minimum(a, b float64) (y, bound float64) { return min(a, b), 0 }

func maximum(a, b float64) (y, bound float64) { return max(a, b), 0 }

// fmin and fmax are IEEE 754-2019's minimumNumber and maximumNumber: a number wins.
func fmin(a, b float64) (y, bound float64) {
	switch {
	case a != a:
		return b, 0
	case b != b:
		return a, 0
	}
	return min(a, b), 0
}

func fmax(a, b float64) (y, bound float64) {
	switch {
	case a != a:
		return b, 0
	case b != b:
		return a, 0
	}
	return max(a, b), 0
}

// plainly reports whether an operation is IEEE 754's in float64, rounded again, to the bit:
// a product or a quotient always (see div), a sum in float64 mode and where 53 bits are two
// more than twice those of the result and of the operands (S. Figueroa, "When is double
// rounding innocuous?", SIGNUM Newsletter 30, 1995).
func plainly(f fp16.Format, op Op, operands ...fp16.Format) bool {
	if op > Div || f == fp16.Int64 {
		return false
	}
	for _, of := range operands {
		if op <= Sub && of != f && f != fp16.Float32 && f != fp16.Float64 || of == fp16.Int64 {
			return false
		}
	}
	return true
}

// arithmetic sets d to an operation of two runs, rounded to f.
func arithmetic(d []float64, a, b run, op Op, f fp16.Format) {
	if f == fp16.Float32 && a.step+b.step > 0 {
		float32s(d, a, b, op)
		return
	}
	switch op {
	case Add:
		for i := range d {
			d[i] = one(a.data[a.step*i] + b.data[b.step*i])
		}
	case Sub:
		for i := range d {
			d[i] = one(a.data[a.step*i] - b.data[b.step*i])
		}
	case Mul:
		for i := range d {
			d[i] = one(a.data[a.step*i] * b.data[b.step*i])
		}
	case Div:
		for i := range d {
			d[i] = one(a.data[a.step*i] / b.data[b.step*i])
		}
	}
	if f != fp16.Float64 {
		f.RoundSlice(d, d)
	}
}

// float32s is arithmetic for Float32, of which one run has a step.
func float32s(d []float64, a, b run, op Op) {
	switch {
	case b.step == 0 && op == Sub:
		float32s(d, a, run{[]float64{-b.data[0]}, 0}, Add)
	case b.step == 0 && op == Div:
		by := b.data[0]
		for i, x := range a.data[:len(d)] {
			d[i] = single(x / by)
		}
	case b.step == 0: // a sum and a product are the same the other way round
		float32s(d, b, a, op)
	case a.step == 0:
		if k := asm.LineKernels(); k != nil && op == Mul && len(d) >= 8 {
			n := len(d) &^ 7
			k.Scale(&d[0], &b.data[0], &a.data[0], n)
			d, b.data = d[n:], b.data[n:]
		}
		x := a.data[0]
		switch y := b.data[:len(d)]; op {
		case Add:
			for i := range d {
				d[i] = single(x + y[i])
			}
		case Sub:
			for i := range d {
				d[i] = single(x - y[i])
			}
		case Mul:
			for i := range d {
				d[i] = single(x * y[i])
			}
		case Div:
			for i := range d {
				d[i] = single(x / y[i])
			}
		}
	default:
		if k := asm.LineKernels(); k != nil && (op == Add || op == Mul) && len(d) >= 8 {
			n := len(d) &^ 7
			if op == Add {
				k.Add(&d[0], &a.data[0], &b.data[0], n)
			} else {
				k.Mul(&d[0], &a.data[0], &b.data[0], n)
			}
			d, a.data, b.data = d[n:], a.data[n:], b.data[n:]
		}
		x, y := a.data[:len(d)], b.data[:len(d)]
		switch op {
		case Add:
			for i := range d {
				d[i] = single(x[i] + y[i])
			}
		case Sub:
			for i := range d {
				d[i] = single(x[i] - y[i])
			}
		case Mul:
			for i := range d {
				d[i] = single(x[i] * y[i])
			}
		case Div:
			for i := range d {
				d[i] = single(x[i] / y[i])
			}
		}
	}
}

// single rounds to float32, with the one NaN that there is.
func single(y float64) float64 {
	if y != y {
		return fp16.NaN
	}
	return float64(float32(y))
}
