package norm

import (
	"math"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
)

// addMoments adds xs, float32 numbers, to m, by the kernels of package asm
// wherever they can do it without error.
func (w *space) addMoments(m *exact.Moments, xs []float64) {
	if k := asm.NormKernels(); k != nil {
		for len(xs) >= 8 {
			some := xs[:min(len(xs)&^7, block)]
			if !w.add(k, m, some) {
				m.Add(some)
			}
			xs = xs[len(some):]
		}
	}
	m.Add(xs)
}

// add adds at most block numbers to m, or reports that this way is not
// exact: a number is not finite, or some are less than 2^-37 of the largest and
// have bits far down.
//
// Let |x| < 2^(e+1) for all n <= 2^11 numbers x of the block. They and their
// squares, less than 2^(2e+2), are handed down accumulators: each starts at
// 1.5 2^k and takes what was lost by the one before. It stays within (2^k,
// 2^(k+1)), where its ulp is 2^(k-52), since the n terms are less than
// 2^(k-1)/n in size; so it takes the nearest multiples of its ulp, losing
// at most half an ulp each time, and both that loss and the sum of what it has
// taken are exact (T. J. Dekker, 1971).
//
//	          takes below      k        ulp
//	x         2^(e+1)          e+13     2^(e-39)
//	          2^(e-40)         e-8      2^(e-60)
//	x^2       2^(2e+2)         2e+14    2^(2e-38)
//	          2^(2e-39)        2e-26    2^(2e-78)
//	          2^(2e-79)        starts at 0
//
// (A loss may be just what the table says; there k has a bit to spare or more.)
// If nothing is left of any x after the second, all x are multiples of 2^(e-60)
// and all squares of 2^(2e-120). Then the last sum, 2^(2e-68) at most, takes 52
// bits and is exact in any order. So is that of an accumulator's lanes: less
// than 2^(k-1), and a multiple of the ulp.
func (w *space) add(k *asm.Norm, m *exact.Moments, xs []float64) bool {
	k.Top(&xs[0], len(xs), &w.top)
	var high uint32
	for i := 1; i < len(w.top); i += 2 {
		high = max(high, w.top[i])
	}
	switch {
	case high >= 0x7ff<<20:
		return false
	case high == 0: // zeros: the least float32 number is far larger
		m.AddSums(len(xs), nil, nil)
		return true
	}
	e := int(high>>20) - 1023
	start := [5]float64{anchor(e + 13), anchor(e - 8), anchor(2*e + 14), anchor(2*e - 26), 0}
	for i, a := range start {
		w.acc[i] = [8]float64{a, a, a, a, a, a, a, a}
	}
	w.acc[5] = [8]float64{}
	k.Sums(&xs[0], len(xs), &w.acc)
	var left uint64
	for _, r := range w.acc[5] {
		left |= math.Float64bits(r) << 1 // either zero
	}
	if left != 0 {
		return false
	}
	var sums [5]float64
	for i, a := range start {
		for _, s := range w.acc[i] {
			sums[i] += s - a
		}
	}
	m.AddSums(len(xs), sums[:2], sums[2:])
	return true
}

// anchor returns 1.5 2^k.
func anchor(k int) float64 { return math.Float64frombits(uint64(k+1023)<<52 | 1<<51) }
