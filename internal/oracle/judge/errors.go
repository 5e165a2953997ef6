package judge

import (
	"math"
	"math/rand/v2"
)

// errorsOf are the random errors of a simulated kernel. They are functions of the numbers: what a kernel makes of the
// same numbers twice, in another row or piece, it makes alike. The sums of a kernel whose rows are equal, say, have one
// error many times.
type errorsOf struct {
	from *rand.PCG
	r    *rand.Rand
	key  uint64 // of the kernel and the step
	// blocks is set of a kernel whose sums of each block of pixels are added up in another order.
	blocks bool
}

// newErrors are those of kernel m.
func newErrors(m int) errorsOf {
	from := new(rand.PCG)
	return errorsOf{from: from, r: rand.New(from), key: uint64(m) << 32}
}

// step are those of the step that makes a value.
func (e errorsOf) step(value int) errorsOf {
	e.key += uint64(value)
	return e
}

// sum draws what the sum is off by that is element i.
func (e errorsOf) sum(i int, v float64) *rand.Rand {
	if e.blocks {
		e.key += uint64(i/blockOfPixels) << 48
	}
	return e.number(v)
}

// number draws what a number is off by.
func (e errorsOf) number(v float64) *rand.Rand {
	e.from.Seed(math.Float64bits(v), e.key)
	return e.r
}
