package diff

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"

	"github.com/refrun/refrun/fp16"
)

// UlpScale numbers the values of a format in their order, so that the
// distance of two of them is a difference of integers.
type UlpScale struct {
	f      fp16.Format
	least  float64 // least subnormal
	normal float64 // least normal number
	drop   uint    // bits of a float64's mantissa that the format lacks
}

// NewUlpScale returns the scale of a format.
func NewUlpScale(f fp16.Format) UlpScale {
	eps := f.Ulp(1)
	return UlpScale{f, f.Ulp(0), f.Ulp(0) / eps, uint(52 + math.Ilogb(eps))}
}

// ordinal returns the number of steps from 0 to x, a number >= 0 of the
// format: multiples of the least subnormal, then the bits of x, which go up by
// one (above the dropped ones) from each number to the next, over the binades
// too.
func (u UlpScale) ordinal(x float64) uint64 {
	if x < u.normal {
		return uint64(x / u.least)
	}
	return (math.Float64bits(x)-math.Float64bits(u.normal))>>u.drop + uint64(u.normal/u.least)
}

// Steps returns how many steps on the format's grid lead from g to w, both
// finite, after rounding to it. If that makes one of them an infinity, and not
// the other the same, it is +Inf. Above 2^53 the count is rounded.
func (u UlpScale) Steps(g, w float64) float64 {
	g, w = u.f.Round(g), u.f.Round(w)
	switch {
	case g == w:
		return 0
	case !finite(g) || !finite(w):
		return math.Inf(1)
	}
	a, b := u.ordinal(math.Abs(g)), u.ordinal(math.Abs(w))
	if math.Signbit(g) != math.Signbit(w) {
		return float64(a + b)
	}
	return float64(max(a, b) - min(a, b))
}

const lastBucket = 18

// Histogram counts elements by their distance in ulps: 0, 1, 2, 3-4, 5-8 and
// so on in powers of two to 65536, and all beyond. In JSON it is an object of
// the counts that are not zero, such as {"0":1000,"1":20,"3-4":1,"65537+":2}.
type Histogram [lastBucket + 1]int

// Add counts a distance, which is an integer or infinite.
func (h *Histogram) Add(steps float64) {
	k := lastBucket
	switch {
	case steps == 0:
		k = 0
	case steps <= 1<<16:
		k = 1 + bits.Len(uint(steps)-1)
	}
	h[k]++
}

// Label names bucket k as in JSON.
func (h *Histogram) Label(k int) string {
	switch {
	case k < 3:
		return fmt.Sprint(k)
	case k == lastBucket:
		return fmt.Sprintf("%d+", 1<<(lastBucket-2)+1)
	}
	return fmt.Sprintf("%d-%d", 1<<(k-2)+1, 1<<(k-1))
}

// MarshalJSON implements json.Marshaler.
func (h Histogram) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for k, n := range h {
		if n > 0 {
			fmt.Fprintf(&b, ",%q:%d", h.Label(k), n)
		}
	}
	return []byte("{" + string(bytes.TrimPrefix(b.Bytes(), []byte(","))) + "}"), nil
}
