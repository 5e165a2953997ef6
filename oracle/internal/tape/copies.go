package tape

import (
	"math"
	"slices"

	"github.com/refrun/refrun/internal/exact/elem"
)

// place is where a number of a tape is: of step t of realization m, whose engine batch begins
// at lo, the number at.
type place struct{ t, m, lo, at int }

// seeded reports whether two engine batches have one seed by design: base + first
// realization + step.
func (p place) seeded(q place) bool { return p.lo != q.lo && p.lo+p.t == q.lo+q.t }

// copies finds numbers that come again, wherever and however shifted: the hash of every window
// of some consecutive numbers, without their signs, is looked up among those before. A window
// is so long that two are the same once in e^certain tapes. Of large tapes those with some
// hashes are kept: a copy has the same ones.
type copies struct {
	window   int
	every    uint64
	seen     map[[2]uint64]place
	looked   float64 // windows that were looked up
	again    float64 // of them that were known
	linked   float64 // of these that are as far from what they repeat as the one before
	apart    [2]int  // how far: realizations, numbers
	first    place   // of these the first,
	original place   // and what it repeats
}

// mostWindows is how many are kept: some 50 MB.
const mostWindows = 1 << 19

// newCopies is for so many numbers, of which none has a value with a probability of more than
// grain, so that none has one up to its sign with more than twice that.
func newCopies(numbers, grain float64) *copies {
	pairs := 2*elem.Log(numbers) - math.Ln2
	c := &copies{window: int(math.Ceil((pairs + certain) / -elem.Log(2*grain))), every: 1, seen: map[[2]uint64]place{}}
	for float64(c.every)*mostWindows < numbers {
		c.every *= 2
	}
	return c
}

// add looks up the windows of one step of a realization.
func (c *copies) add(at place, v []float64) {
	for i := 0; i+c.window <= len(v); i++ {
		h := hash(v[i : i+c.window])
		if h[0]&(c.every-1) != 0 {
			continue
		}
		at.at = i
		c.looked++
		before, known := c.seen[h]
		switch {
		case !known:
			c.seen[h] = at
		case !at.seeded(before):
			if c.again++; c.again == 1 {
				c.first, c.original = at, before
			}
			apart := [2]int{at.m - before.m, i - before.at}
			if apart == c.apart {
				c.linked++
			}
			c.apart = apart
		}
	}
}

// hash is of the magnitudes of numbers, twice 64 bits.
func hash(v []float64) (h [2]uint64) {
	for _, x := range v {
		b := math.Float64bits(x) &^ (1 << 63)
		h[0], h[1] = mix(h[0]^b), mix(h[1]+b*0x9e3779b97f4a7c15)
	}
	return h
}

// mix is the finalizer of MurmurHash3.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// values are some numbers of a draw, spread over all of them, of which few should be the same. They are not equally
// far apart: of a row and the same row from its other end every second number has none in common.
type values struct {
	grain float64
	every uint64 // how far they are apart, on average
	next  int    // how many numbers from here the next one is
	some  []float64
}

// newValues is for so many numbers. So few are kept that three of four must differ.
func newValues(numbers, grain float64) *values {
	most := min(1<<16, math.Floor(1/(4*grain)))
	return &values{grain: grain, every: uint64(max(1, math.Ceil(numbers/most)))}
}

func (d *values) add(v []float64) {
	for d.next < len(v) {
		d.some = append(d.some, math.Abs(v[d.next]))
		d.next += 1 + int(mix(uint64(len(d.some)))%(2*d.every-1))
	}
	d.next -= len(v)
}

// unlikely returns how many different magnitudes there are, and bounds the chance that they are
// so few: each number is one of those before it with a probability of 2 grain for each.
func (d *values) unlikely() (different int, nats float64) {
	n := float64(len(d.some))
	different = len(slices.Compact(slices.Sorted(slices.Values(d.some))))
	return different, atMost(n-float64(different), float64(n*(n-1))*d.grain)
}
