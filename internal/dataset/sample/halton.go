package sample

import "github.com/refrun/refrun/noise"

// halton is a Halton sequence: coordinate d of point i is i in the base of the d-th prime
// with its digits mirrored at the point. Each is formed as an integer over a power of
// the base below 2^53, so that one division rounds it. If it is scrambled every digit
// goes through a permutation of its own (A. Owen, "A randomized Halton algorithm in R",
// 2017), zeros behind the last one too.
type halton struct {
	checked
	axes []haltonAxis
}

type haltonAxis struct {
	base   uint64
	unit   float64    // base to the power of the digits
	digits [][]uint32 // a permutation for each digit, nil for none
}

func newHalton(of checked, c Config) *halton {
	h := &halton{checked: of}
	p := uint64(2)
	for d := range c.Dims {
		for ; !prime(p); p++ {
		}
		a := haltonAxis{base: p}
		n := uint64(1)
		for k := uint32(0); n*p < 1<<53; k++ {
			n *= p
			var order []uint32
			if c.Scramble {
				order = permutation(noise.Counter{Seed: c.Seed, Operator: stream(c.Seed).Operator - 1 - k}, uint32(d), int(p))
			}
			a.digits = append(a.digits, order)
		}
		a.unit = float64(n)
		h.axes = append(h.axes, a)
		p++
	}
	return h
}

func prime(p uint64) bool {
	for f := uint64(2); f*f <= p; f++ {
		if p%f == 0 {
			return false
		}
	}
	return true
}

// At implements [Sampler].
func (h *halton) At(i int, x []float64) {
	h.check(i, x)
	for d, a := range h.axes {
		left, n := uint64(i), uint64(0)
		for _, order := range a.digits {
			digit := left % a.base
			left /= a.base
			if order != nil {
				digit = uint64(order[digit])
			}
			n = n*a.base + digit
		}
		x[d] = float64(n) / a.unit
	}
}
