package asm

import "math"

// Units is a set of kernels that add blocks of products as the matrix units of GPUs do, of a row and of four
// columns: the rules are package tensorcore's. Beside every number x stands the power of two of its first digit,
// 2^(exponent of x), 0 for 0, so that those of products are products. All numbers are finite.
//
//	row      blocks*terms pairs: a number, its power
//	columns  blocks*terms times four numbers, and their four powers
//	terms    products of a block, a multiple of 4
//	c        the accumulators, float32 numbers
//
// A kernel stops before the first block in which the power of an accumulator or of a result is not that of a normal
// float32 number or of 0, and returns how many blocks it added: plain Go adds that one.
type Units struct {
	Truncate func(row, columns *float64, blocks, terms int, rule *UnitRule, c *[4]float64) (done int)
	Floor    func(row, columns *float64, blocks, terms int, rule *UnitRule, c *[4]float64) (done int)
}

// UnitRule is a rule's numbers as kernels read them, each four times. See NewUnitRule.
type UnitRule = [13][4]uint64

// NewUnitRule returns a rule: the bits of a term below the greatest one's first, those of a result's fraction, and
// the least exponent of the greatest term.
func NewUnitRule(fraction, keep, lowest int) *UnitRule {
	const one = 1 << 52 // a power of two more
	var r UnitRule
	for i, w := range [13]uint64{
		math.Float64bits(math.Ldexp(1, lowest)),
		uint64(2046+fraction) * one, // less the bits of 2^n: those of 2^(fraction-n)
		uint64(fraction) * one,
		^uint64(0) << (52 - keep),
		0x7ff * one,
		1<<63 - 1,
		math.Float64bits(0x1p-126),
		math.Float64bits(0x1p128),
		math.Float64bits(0x1p300),
		math.Float64bits(0x1p-512),
		1030 * one, // 2^7
		math.Float64bits(0x1p7),
		31 * one,
	} {
		r[i] = [4]uint64{w, w, w, w}
	}
	return &r
}

// UnitKernels returns the kernels for matrix units of the backend in use, or nil.
func UnitKernels() *Units { return current().units }
