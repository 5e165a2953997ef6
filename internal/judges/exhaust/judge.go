package exhaust

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/dd"
	"github.com/refrun/refrun/internal/op/act"
)

// judge knows one function: its limits at the infinities; where a simple
// inequality bounds it, the open interval around its size; its double-double
// evaluation, that one's relative error and its fixed-point evaluation. A
// function without eval is the value of simple itself.
type judge struct {
	atNeg, atPos float64
	simple       func(x float64) (lo, hi float64, ok bool)
	eval         func(x float64) dd.Num
	err          float64
	exact        func(x float64) *big.Int
}

var (
	inf     = math.Inf(1)
	negZero = math.Copysign(0, -1)
)

var judges = [...]judge{
	act.Identity: {atNeg: -inf, atPos: inf},
	act.ReLU:     {atNeg: 0, atPos: inf},
	act.GELU:     {negZero, inf, gate(8, dd.GELUEnd), dd.GELU, dd.GELUErr, dd.ExactGELU},
	act.GELUTanh: {negZero, inf, gate(8, dd.GELUTanhEnd), dd.GELUTanh, dd.GELUTanhErr, dd.ExactGELUTanh},
	act.SiLU:     {negZero, inf, gate(32, dd.SiLUEnd), dd.SiLU, dd.SiLUErr, dd.ExactSiLU},
	act.Tanh:     {-1, 1, sigmoid, dd.Tanh, dd.TanhErr, dd.ExactTanh},
}

// gate bounds x G(x) for the three G of this shape, which increase from 0 to 1
// through 1/2:
//
//	|x| < 2^-30   x G - x/2 is positive and below x^2/2: it is x (G - 1/2), and
//	              G' <= 0.4 for gelu and gelu_tanh, 1/4 for silu, near 0
//	x >= far      x - x G is positive and below 2^-45 x: Q(8) < 2^-50 for gelu,
//	              e^-s < e^-49 for gelu_tanh at 8, e^-32 < 2^-46 for silu at 32
//	x <= end      x G lies in (-2^-151, 0), see internal/exact/dd
func gate(far, end float64) func(x float64) (lo, hi float64, ok bool) {
	return func(x float64) (lo, hi float64, ok bool) {
		switch {
		case math.Abs(x) < 0x1p-30:
			a := math.Abs(x) / 2
			if x > 0 {
				return a, a * (1 + 0x1p-29), true
			}
			return a * (1 - 0x1p-29), a, true
		case x >= far:
			return x * (1 - 0x1p-45), x, true
		case x <= end:
			return 0, 0x1p-151, true
		}
		return 0, 0, false
	}
}

// sigmoid bounds |tanh x|: x - x^3/3 < tanh x < x for 0 < x < 2^-15, where x^2/3
// < 2^-31; and from 16 on 1 - tanh x = 2/(e^2x + 1) < 2 e^-32 < 2^-45.
func sigmoid(x float64) (lo, hi float64, ok bool) {
	switch a := math.Abs(x); {
	case a < 0x1p-15:
		return a * (1 - 0x1p-31), a, true
	case a >= 16:
		return 1 - 0x1p-45, 1, true
	}
	return 0, 0, false
}

// verdict is what a judge says of a result.
type verdict uint8

const (
	right verdict = iota
	wrong
	undecided
)

// judge says whether y is the function's value at x rounded to g, and, if not,
// near what value it should be. It counts in r who decided.
func (j *judge) judge(g *grid, x, y float64, exactly bool, r *Report) (verdict, float64) {
	if want, ok := j.rule(x); ok {
		r.Special++
		if math.Float64bits(y) == math.Float64bits(want) {
			return right, want
		}
		return wrong, want
	}
	a := math.Abs(y)
	cellLo, cellHi, ok := g.cell(a)
	ok = ok && math.Signbit(y) == math.Signbit(x) // all four have the sign of x

	if lo, hi, is := j.simple(x); is {
		r.Simple++
		want := math.Copysign(hi, x)
		switch {
		case ok && cellLo <= lo && hi <= cellHi:
			return right, want
		case ok && lo < cellHi && cellLo < hi:
			return undecided, want
		}
		return wrong, want
	}

	v := j.eval(x)
	if x < 0 {
		v.Hi, v.Lo = -v.Hi, -v.Lo
	}
	want := math.Copysign(v.Hi, x)
	if !ok {
		r.Double++
		return wrong, want
	}
	if !exactly {
		// How far the value lies inside either end. Near an end the first
		// difference is exact; elsewhere it is far greater than its own rounding
		// error. Either way 2 err leaves room for the rounding of the second.
		e := 2 * j.err * v.Hi
		up := (v.Hi - cellLo) + v.Lo
		down := (cellHi - v.Hi) - v.Lo
		if up > e && down > e {
			r.Double++
			return right, want
		}
		if up < -e || down < -e {
			r.Double++
			return wrong, want
		}
	}
	r.Fixed++
	exact := j.exact(x)
	exact.Abs(exact)
	up := exceeds(exact, fixed(cellLo))
	down := exceeds(fixed(cellHi), exact)
	switch {
	case up > 0 && down > 0:
		return right, want
	case up < 0 || down < 0:
		return wrong, want
	}
	return undecided, want
}

// rule returns what has a written rule: NaN, the infinities, zeros, and every
// argument of the two functions that are exact.
func (j *judge) rule(x float64) (want float64, ok bool) {
	switch {
	case x != x:
		return fp16.NaN, true
	case x == inf:
		return j.atPos, true
	case x == -inf:
		return j.atNeg, true
	case x == 0:
		return x, true
	case j.eval == nil && x < 0 && j.atNeg == 0: // relu
		return 0, true
	case j.eval == nil:
		return x, true
	}
	return 0, false
}

// fixed returns x * 2^dd.Frac, exactly for multiples of 2^-768.
func fixed(x float64) *big.Int {
	f := new(big.Float).SetFloat64(x)
	v, _ := f.SetMantExp(f, dd.Frac).Int(nil)
	return v
}

// tolerance is the error of the fixed-point evaluations.
var tolerance = new(big.Int).Lsh(big.NewInt(1), dd.Frac-dd.ExactBits)

// exceeds returns 1 if a > b for certain, -1 if a < b for certain, or 0.
func exceeds(a, b *big.Int) int {
	d := new(big.Int).Sub(a, b)
	if d.CmpAbs(tolerance) <= 0 {
		return 0
	}
	return d.Sign()
}
