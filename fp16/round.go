package fp16

import "math"

const (
	signBit  = 1 << 63
	infinite = 0x7ff << 52  // the bits of +Inf
	quiet    = 0x7ff8 << 48 // the bits of [NaN]
)

// How a float64 finds its place on a coarser grid. Let |y| lie in the binade
// 2^e (in the least normal one if it is smaller), where the grid's numbers are
// multiples of q = 2^(e-p+1). The float64s from B = 2^52 q to 2B are the
// multiples of q there, so the one addition |y| + B rounds |y| to a multiple of
// q, to nearest even, and subtracting B is exact. The bits of the sum above B's
// own count the multiples: they are the significand of the result.
//
// A walk holds the constants of this for one format. Of the exponents above the
// format's, the first stands for all of them: what it makes of larger numbers
// is wrong, but large enough to become the infinity.
type walk struct {
	low, high uint64 // exponent fields of the least normal number and of 2^(emax+1)
	lift      uint64 // from the exponent field of |y| to that of B: 53-p
	frac      uint64 // mantissa bits, p-1
	inf       uint64 // the format's bits of +Inf

	// Where |y| is zero, or normal and below top, rounding is integer
	// arithmetic on y's own bits, see RoundSlice.
	drop       uint64 // mantissa bits that float64 has more
	last       uint64 // those bits set
	subnormals uint64 // bits of the least normal number, less 1
	top        uint64 // bits of 2^(emax+1), less last
}

var walks = func() (w [len(grids)]walk) {
	for f, g := range grids {
		low, high, drop := uint64(g.emin+1023), uint64(g.emax+1024), uint64(53-g.p)
		last := uint64(1)<<drop - 1
		w[f] = walk{
			low: low, high: high, lift: drop, frac: uint64(g.p - 1), inf: (high - low + 1) << (g.p - 1),
			drop: drop, last: last, subnormals: low<<52 - 1, top: high<<52 - last,
		}
	}
	return w
}()

// base returns the exponent field of |y|, kept within the walk, and the bits of
// B. The argument is the bits of |y|.
func (w *walk) base(a uint64) (e, b uint64) {
	e = min(max(a>>52, w.low), w.high)
	return e, (e + w.lift) << 52
}

// nearest rounds the number with these bits, and returns bits.
func (w *walk) nearest(bits uint64) uint64 {
	a, sign := bits&^signBit, bits&signBit
	if a > infinite {
		return quiet
	}
	_, b := w.base(a)
	big := math.Float64frombits(b)
	r := math.Float64bits((math.Float64frombits(a) + big) - big)
	if r >= w.high<<52 {
		r = infinite
	}
	return r | sign
}

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
	case f == Int64:
		return math.RoundToEven(y)
	}
	return math.Float64frombits(walks[f].nearest(math.Float64bits(y)))
}

// RoundSlice sets dst[i] to Round(src[i]). The slices are of one length, and
// may be the same.
func (f Format) RoundSlice(dst, src []float64) {
	mustMatch(len(dst), len(src))
	dst = dst[:len(src)]
	switch f {
	case Float64:
		for i, y := range src {
			if y != y {
				y = math.Float64frombits(quiet)
			}
			dst[i] = y
		}
	case Float32:
		for i, y := range src {
			r := float64(float32(y))
			if y != y {
				r = math.Float64frombits(quiet)
			}
			dst[i] = r
		}
	case Int64:
		for i, y := range src {
			dst[i] = f.Round(y)
		}
	default:
		w := &walks[f]
		for i, y := range src {
			bits := math.Float64bits(y)
			if a := bits &^ signBit; a-1 < w.subnormals || a >= w.top {
				dst[i] = math.Float64frombits(w.nearest(bits)) // rare: subnormal, too large, NaN
				continue
			}
			// To nearest even by a carry: add just below half of the last bit
			// that stays, and the rest of the half if that bit is odd. Zero
			// stays zero; the carry may go on into the exponent.
			odd := bits >> (w.drop & 63) & 1
			dst[i] = math.Float64frombits((bits + w.last>>1 + odd) &^ w.last)
		}
	}
}

func mustMatch(dst, src int) {
	if dst != src {
		panic("fp16: dst and src differ in length")
	}
}
