package tensorcore

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// Unit is a matrix unit for operands and results of given formats.
type Unit struct {
	Rule
	Input  Input
	Output fp16.Format // Float32 or Float16, of accumulators too
	Source Source
}

// operand is a number as a unit sees it: its value, and the exponent of its first digit, of
// the smallest normal number for subnormal ones.
type operand struct {
	v float64
	e int
}

// Exponents of zero and of what is not finite: below and above all sums of two others.
const (
	none = -1 << 20
	over = 1 << 22
)

// operand returns a number of the unit's input format.
func (u *Unit) operand(v float64) operand {
	if u.Input == TF32 {
		v = fp16.RoundTF32(v, fp16.TowardZero)
	}
	if u.Kind == Pairs && math.Abs(v) < math.Ldexp(1, u.Input.lowest()) {
		v = 0
	}
	return operand{v, exponent(v, u.Input.lowest())}
}

// exponent returns the exponent of a number, at least lowest.
func exponent(v float64, lowest int) int {
	bits := math.Float64bits(v) &^ (1 << 63)
	switch {
	case bits == 0:
		return none
	case bits >= 0x7ff<<52:
		return over
	}
	return max(int(bits>>52)-1023, lowest)
}

// Dot returns c and the sum of all a[k] b[k], the blocks in order. a and b, of one length, hold
// numbers of the input format, c is rounded to the output format.
func (u *Unit) Dot(a, b []float64, c float64) float64 {
	if len(a) != len(b) {
		panic("tensorcore: operands of different lengths")
	}
	x, y := make([]operand, len(a)), make([]operand, len(b))
	for i := range a {
		x[i], y[i] = u.operand(a[i]), u.operand(b[i])
	}
	u.arrange(x)
	u.arrange(y)
	return u.chain(x, y, u.Output.Round(c))
}

// chain adds blocks, arranged, to an accumulator.
func (u *Unit) chain(a, b []operand, c float64) float64 {
	for len(a) > 0 {
		n := min(u.Terms, len(a))
		c = u.block(a[:n], b[:n], c)
		a, b = a[n:], b[n:]
	}
	return c
}

// block adds one.
func (u *Unit) block(a, b []operand, c float64) float64 {
	switch u.Kind {
	case NVIDIA:
		return u.truncated(a, b, c)
	case Exact:
		return exactly(a, b, c)
	case Pairs:
		return pairs(a, b, c)
	case Converted:
		return u.converted(a, b, c)
	default:
		return u.floored(a, b, c)
	}
}

// truncated is NVIDIA's rule.
func (u *Unit) truncated(a, b []operand, c float64) float64 {
	half, low := 0, -126
	if u.Output == fp16.Float16 {
		half, low = 1, -14
	}
	top := max(u.Lowest[half], exponent(c, low), greatest(a, b))
	if top > over/2 {
		return special(a, b, c)
	}
	// All terms are whole multiples of the last place of the sum's 64 bits: a product has 22
	// bits, and moving its point is exact.
	to := power(u.Fraction - top)
	y := float64(int64(c*to)+cut(a, b, to)) * power(top-u.Fraction)
	if u.Output == fp16.Float16 {
		return fp16.Float16.Round(y)
	}
	if u.Keep > 0 {
		y = kept(y, uint(u.Keep))
	}
	return towardZero(y)
}

// converted is the rule of FP8 where mma instructions are made of those of float16. A register holds four numbers,
// of which the first two and the last two are converted to registers of float16: the products of k = 0, 1, 4, 5, 8,
// 9, ... are added from zero, those of k = 2, 3, 6, 7, ... to that, each by the unit of float16, and their sum is
// added to the accumulator, to nearest even. Of all rules that were tried, those of this order alone give every bit
// of what was recorded. (That E4M3's subnormal numbers are normal ones of float16 is no matter: their products are
// whole multiples of 2^-18, which no cut reaches where they are the greatest.)
func (u *Unit) converted(a, b []operand, c float64) float64 {
	n := len(a)/4*2 + min(len(a)%4, 2)
	sum := u.truncated(a[:n], b[:n], 0)
	if n < len(a) {
		sum = u.truncated(a[n:], b[n:], sum)
	}
	return u.Output.Round(nearest(sum + c))
}

// arrange brings the numbers of each block in the order in which they are added: the first two of every four to the
// front, where they are converted.
func (u *Unit) arrange(x []operand) {
	if u.Kind != Converted {
		return
	}
	for ; len(x) > 0; x = x[min(u.Terms, len(x)):] {
		var last [16]operand
		first, n := 0, 0
		for k, v := range x[:min(u.Terms, len(x))] {
			if k&2 == 0 {
				x[first] = v
				first++
			} else {
				last[n] = v
				n++
			}
		}
		copy(x[first:], last[:n])
	}
}

// greatest returns the greatest exponent of the products.
func greatest(a, b []operand) int {
	top := none
	b = b[:len(a)]
	for i := range a {
		top = max(top, a[i].e+b[i].e)
	}
	return top
}

// cut returns the sum of the products, each truncated to a whole number of parts of which to makes 1.
func cut(a, b []operand, to float64) (sum int64) {
	b = b[:len(a)]
	for i := range a {
		sum += int64(float64(a[i].v*b[i].v) * to)
	}
	return sum
}

// power returns 2^n for |n| < 1022.
func power(n int) float64 { return math.Float64frombits(uint64(1023+n) << 52) }

// kept drops what is below so many bits of the fraction.
func kept(y float64, bits uint) float64 {
	return math.Float64frombits(math.Float64bits(y) &^ (1<<((52-bits)&63) - 1))
}

// towardZero rounds to float32 toward zero, but to infinity from 2^128 on.
func towardZero(y float64) float64 {
	a := math.Abs(y)
	if a >= 0x1p-126 && a < 0x1p128 {
		return kept(y, 23)
	}
	if a >= 0x1p128 {
		return math.Inf(int(math.Copysign(1, y)))
	}
	return math.Trunc(y*0x1p149) * 0x1p-149
}

// nearest rounds to float32, ties to even.
func nearest(y float64) float64 {
	if y != y {
		return fp16.NaN
	}
	return float64(float32(y))
}

// special is a sum in which something is not finite.
func special(a, b []operand, c float64) float64 {
	sum := c
	if c-c == 0 {
		sum = 0
	}
	for i := range a {
		if p := float64(a[i].v * b[i].v); p-p != 0 || a[i].e == over || b[i].e == over {
			sum += p
		}
	}
	if sum != sum {
		return fp16.NaN
	}
	return sum
}
