// Package fp16 holds the number formats of the project and the one rounding
// step every operation ends with.
//
// A [Format] is a grid of real numbers. Values on any of the grids are kept as
// float64, which contains all of them exactly, so an operation is: take grid
// numbers, evaluate one real function, and [Format.Round] once.
package fp16

import (
	"fmt"
	"math"
	"strings"
)

// Format names a floating-point grid: the numbers an operation may return.
type Format uint8

// The formats. Float64 is the grid of truth runs; Float32 is the default of
// every rollout. TF32 is float32's exponent range with 10 mantissa bits, the
// operand grid of NVIDIA tensor cores.
const (
	Float64 Format = iota
	Float32
	TF32
	Float16
	BFloat16
)

// grid describes a format by its precision p (bits of the significand with the
// hidden one) and the exponents of its least and greatest normal number.
type grid struct {
	name       string
	p          int
	emin, emax int
}

var grids = [...]grid{
	Float64:  {"float64", 53, -1022, 1023},
	Float32:  {"float32", 24, -126, 127},
	TF32:     {"tf32", 11, -126, 127},
	Float16:  {"float16", 11, -14, 15},
	BFloat16: {"bfloat16", 8, -126, 127},
}

// String returns the name used in files and on the command line.
func (f Format) String() string {
	if int(f) < len(grids) {
		return grids[f].name
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// ParseFormat returns the format of that name: float64, float32, tf32, float16
// or bfloat16. Any other name is an error that lists them.
func ParseFormat(name string) (Format, error) {
	var names []string
	for f, g := range grids {
		if g.name == name {
			return Format(f), nil
		}
		names = append(names, g.name)
	}
	return 0, fmt.Errorf("unknown number format %q: want one of %s", name, strings.Join(names, ", "))
}

// NaN is the one NaN every operation returns: quiet, positive, no payload.
var NaN = math.Float64frombits(0x7ff8000000000000)

// Round returns the number of the format nearest to y, ties to even, in one
// rounding. Beyond the largest finite number it is an infinity (the largest
// number plus half its ulp and more); below half of the least subnormal it is
// a zero of y's sign. Any NaN becomes [NaN].
func (f Format) Round(y float64) float64 {
	switch {
	case y != y:
		return NaN
	case f == Float64:
		return y
	case f == Float32:
		return float64(float32(y)) // IEEE 754 conversion: nearest even, once
	}
	g := grids[f]
	e := int(math.Float64bits(y)>>52&0x7ff) - 1023
	switch {
	case y == 0:
		return y
	case e > g.emax:
		return math.Copysign(math.Inf(1), y)
	}
	// Adding and subtracting 1.5*2^(52+q) leaves y rounded to a multiple of
	// 2^q, the ulp of the format at y: that sum's own ulp is 2^q.
	q := max(e, g.emin) - (g.p - 1)
	big := 1.5 * power(52+q)
	r := (y + big) - big
	if math.Abs(r) >= power(g.emax+1) {
		return math.Copysign(math.Inf(1), y)
	}
	return math.Copysign(r, y)
}

// power returns 2^e for an exponent of normal float64 numbers.
func power(e int) float64 { return math.Float64frombits(uint64(e+1023) << 52) }

// Decide is the guard of the numerical contract. Given an evaluation y of an
// exact value that lies within bound of it, it returns the rounded exact value
// and true if every number of that interval rounds to the same bits, and false
// if it cannot tell. A NaN or infinity in either argument cannot tell. A bound
// of 0 says that y is exact.
func (f Format) Decide(y, bound float64) (float64, bool) {
	if bound == 0 && !math.IsInf(y, 0) && y == y {
		return f.Round(y), true
	}
	// y-w and y+w are rounded themselves, by at most 2^-53 of their size.
	w := float64(bound*(1+0x1p-50)) + float64(0x1p-52*math.Abs(y))
	if !(w <= math.MaxFloat64) {
		return 0, false
	}
	lo, hi := f.Round(y-w), f.Round(y+w)
	return lo, math.Float64bits(lo) == math.Float64bits(hi)
}

// Holds reports whether v is a number of the format (NaN and the infinities
// are numbers of every format).
func (f Format) Holds(v float64) bool { return v != v || f.Round(v) == v }

// Ulp returns the distance of the two numbers of the format around |v|, or
// the least subnormal below the normal range: 2^(e-p+1). v must be finite.
func (f Format) Ulp(v float64) float64 {
	g := grids[f]
	e := g.emin
	if v != 0 {
		e = max(math.Ilogb(v), g.emin)
	}
	return math.Ldexp(1, e-(g.p-1))
}
