// Package fp16 holds the number formats of the project and the one rounding
// step every operation ends with.
//
// A [Format] is a grid of real numbers. Values on any of the grids are kept as
// float64, which contains all of them exactly, so an operation is: take grid
// numbers, evaluate one real function, and [Format.Round] once. There are no
// types of 16-bit numbers to compute with.
//
// Where a number leaves float64 for its own width it is bits: one at a time
// ([Format.Bits], [Format.FromBits]), in memory ([Pack], [Unpack]) or in files
// ([Format.Append], [Format.Decode]). All round to nearest even, from float64
// directly: going through float32 would round twice, and 1 + 2^-11 + 2^-40, just
// above a tie of Float16, would become 1 that way.
//
// Float16's bits are read by x448/float16, whose type is a uint16 and can be
// packed to and unpacked from. Its conversion from float32 gives the same bits as
// this package for every float32 but the NaNs: it keeps a NaN's sign and the top of
// its payload and makes it quiet; here every NaN is 0x7e00. It has no conversion
// from float64.
//
// In use:
//
//	y := fp16.Float16.Round(1.0 / 3)       // 0.333251953125
//	bits := fp16.Float16.Bits(y)           // 0x3555
//	fp16.Pack(fp16.BFloat16, memory, data) // a slice of uint16 of one of numbers
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

	// Int64 is no floating-point grid: it marks whole numbers, such as indices and
	// shapes, and truths, 1 and 0. Beyond 2^53 in magnitude float64 does not hold
	// them all. ParseFormat does not know it, and of the methods it has String,
	// Half, Round, RoundSlice, Holds and Decide only.
	Int64
)

// String returns the name used in files and on the command line.
func (f Format) String() string {
	if int(f) < len(grids) {
		return grids[f].name
	}
	if f == Int64 {
		return "int64"
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
	return 0, fmt.Errorf("unknown number format %.60q: want one of %s", name, strings.Join(names, ", "))
}

// NaN is the one NaN every operation returns: quiet, positive, no payload.
var NaN = math.Float64frombits(quiet)

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
	if f == Float32 { // without calls
		lo, hi := float32(y-w), float32(y+w)
		return float64(lo), math.Float32bits(lo) == math.Float32bits(hi)
	}
	lo, hi := f.Round(y-w), f.Round(y+w)
	return lo, math.Float64bits(lo) == math.Float64bits(hi)
}

// Holds reports whether v is a number of the format (NaN and the infinities
// are numbers of every format).
func (f Format) Holds(v float64) bool { return v != v || f.Round(v) == v }
