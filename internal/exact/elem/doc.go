// Package elem holds the project's own elementary functions in float64. Those
// of the standard library differ between ports in their last bits; these give
// the same bits everywhere: they are made of the IEEE 754 operations + - * /
// and integer work alone, in a fixed order. The compiler may fuse a product with
// an addition that uses it, through variables and inlined calls too; so every
// product that could meet an addition is rounded by an explicit conversion.
//
// Every function states a bound of its relative error in units of
// [U] = 2^-53, the relative error of one rounding to nearest: 1 ulp is between
// U and 2 U. The bounds hold for normal results; a subnormal result is off by
// at most 2^-1074. NaN gives NaN, and so does an argument outside the domain of
// a function; it is always [fp16.NaN].
//
// The methods are the usual ones, tables for the leading bits and short Taylor
// or interpolation polynomials for the rest; all tables and constants come
// from gen.go, which computes them with math/big.
package elem

//go:generate go run gen.go

// U is 2^-53, the greatest relative error of one float64 operation.
const U = 0x1p-53
