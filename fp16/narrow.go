package fp16

import (
	"fmt"
	"math"
	"strings"
)

// Narrow is a floating-point format of 8 bits or fewer. Its numbers are kept as codes, one a
// byte, and as float64, which contains them all. An operation's results are no narrow numbers:
// they come from other formats by a [Cast], which is one of several.
type Narrow uint8

// The formats, by their bits of exponent and mantissa: those of the OCP's 8-bit and MX standards,
// AMD's and Graphcore's with one zero and one NaN (FNUZ), and E3M4. E8M0 has the powers of 2 alone, and no sign.
const (
	E4M3 Narrow = iota
	E4M3FNUZ
	E4M3B11FNUZ
	E5M2
	E5M2FNUZ
	E3M4
	E3M2
	E2M3
	E2M1
	E8M0
	narrows
)

// specials is what a narrow format has besides its finite numbers.
type specials uint8

const (
	onlyFinite specials = iota // nothing
	onlyNaN                    // the last code of each sign is NaN
	ieee                       // the last exponent is that of infinity and NaNs
	oneNaN                     // what would be -0 is NaN
	powers                     // no sign, no zero, no subnormals; the last code is NaN
)

// layout describes a narrow format: the codes count its numbers from 0 up, as IEEE 754's do.
type layout struct {
	name, short    string
	exponent, frac int // bits
	bias           int
	has            specials
	top            uint8 // the code of the largest number
	least          int   // exponent of the smallest normal number
	numbers        [256]float64
}

var layouts = func() (l [narrows]layout) {
	l = [narrows]layout{
		E4M3:        {name: "float8_e4m3fn", short: "E4M3", exponent: 4, frac: 3, bias: 7, has: onlyNaN},
		E4M3FNUZ:    {name: "float8_e4m3fnuz", short: "E4M3FNUZ", exponent: 4, frac: 3, bias: 8, has: oneNaN},
		E4M3B11FNUZ: {name: "float8_e4m3b11fnuz", short: "E4M3B11FNUZ", exponent: 4, frac: 3, bias: 11, has: oneNaN},
		E5M2:        {name: "float8_e5m2", short: "E5M2", exponent: 5, frac: 2, bias: 15, has: ieee},
		E5M2FNUZ:    {name: "float8_e5m2fnuz", short: "E5M2FNUZ", exponent: 5, frac: 2, bias: 16, has: oneNaN},
		E3M4:        {name: "float8_e3m4", short: "E3M4", exponent: 3, frac: 4, bias: 3, has: ieee},
		E3M2:        {name: "float6_e3m2fn", short: "E3M2", exponent: 3, frac: 2, bias: 3},
		E2M3:        {name: "float6_e2m3fn", short: "E2M3", exponent: 2, frac: 3, bias: 1},
		E2M1:        {name: "float4_e2m1fn", short: "E2M1", exponent: 2, frac: 1, bias: 1},
		E8M0:        {name: "float8_e8m0fnu", short: "E8M0", exponent: 8, bias: 127, has: powers},
	}
	for n := range l {
		l[n].fill()
	}
	return l
}()

// fill computes what follows from the others.
func (l *layout) fill() {
	last := 1<<(l.exponent+l.frac) - 1
	l.top, l.least = uint8(last), 1-l.bias
	switch l.has {
	case ieee:
		l.top = uint8(last - 1<<l.frac)
	case onlyNaN, powers:
		l.top = uint8(last - 1)
	}
	for code := range l.numbers {
		l.numbers[code] = l.number(code & (2*last + 1))
	}
}

// number returns the number of a code.
func (l *layout) number(code int) float64 {
	sign := 1 << (l.exponent + l.frac)
	if l.has == powers {
		if code&(sign-1) > int(l.top) {
			return NaN
		}
		return math.Ldexp(1, code&(sign-1)-l.bias)
	}
	size, v := code&(sign-1), 0.0
	e, f := size>>l.frac, size&(1<<l.frac-1)
	switch {
	case l.has == oneNaN && code == sign, size > int(l.top) && (l.has == onlyNaN || f != 0):
		return NaN
	case size > int(l.top):
		v = math.Inf(1)
	case e == 0:
		v = math.Ldexp(float64(f), l.least-l.frac)
	default:
		v = math.Ldexp(float64(f+1<<l.frac), e-l.bias-l.frac)
	}
	if code&sign != 0 {
		v = -v
	}
	return v
}

// String returns the name that ml_dtypes, JAX and PyTorch have for the format, such as float8_e4m3fn.
func (n Narrow) String() string {
	if n < narrows {
		return layouts[n].name
	}
	return fmt.Sprintf("Narrow(%d)", uint8(n))
}

// ParseNarrow returns the format of that name, as String returns it, or in short, as in E4M3.
// Any other name is an error that lists them.
func ParseNarrow(name string) (Narrow, error) {
	var names []string
	for n := range layouts {
		l := &layouts[n]
		if name == l.name || strings.EqualFold(name, l.short) {
			return Narrow(n), nil
		}
		names = append(names, l.name)
	}
	return 0, fmt.Errorf("narrow format %.60q: want one of %s", name, strings.Join(names, ", "))
}

// Bits returns how many bits a code has: the others of its byte are 0.
func (n Narrow) Bits() int {
	l := &layouts[n]
	if l.has == powers {
		return l.exponent
	}
	return 1 + l.exponent + l.frac
}

// Mantissa returns how many bits of a code are of the mantissa.
func (n Narrow) Mantissa() int { return layouts[n].frac }

// Decode returns the number of a code, exactly, and [NaN] of every code that is one. Bits beyond the
// format's are ignored.
func (n Narrow) Decode(code uint8) float64 { return layouts[n].numbers[code] }

// Largest returns the greatest finite number, and Smallest the least one above 0.
func (n Narrow) Largest() float64 { return n.Decode(layouts[n].top) }

// Smallest returns the least number above 0.
func (n Narrow) Smallest() float64 {
	if n == E8M0 {
		return n.Decode(0)
	}
	return n.Decode(1)
}

// SmallestNormal returns the least number of all bits of the mantissa.
func (n Narrow) SmallestNormal() float64 { return n.Decode(uint8(1) << n.Mantissa()) }

// Holds reports whether v is a number of the format. NaN and infinities are, if it has such.
func (n Narrow) Holds(v float64) bool {
	if v != v {
		return layouts[n].has != onlyFinite
	}
	return n.Decode(n.Encode(v, MLDtypes)) == v
}

// Cast is a convention of conversion. All round once, to nearest, ties to even, and what lies
// between they do not differ in; they do in overflow, in NaN, and in what E8M0 makes of numbers that are not positive.
//
// Of E8M0 a tie goes up, and all above 2^-127 goes to 2^-126 up to 1.5 times that: in both libraries,
// which round a subnormal float32 number by its first bit.
type Cast uint8

// The conventions.
const (
	// MLDtypes is what ml_dtypes and JAX do. Beyond the largest number is infinity; without one,
	// NaN; without that, the largest. A NaN keeps its sign; of a format without NaN it
	// is a zero of the other sign. Of E8M0, 0 and what is negative is NaN.
	MLDtypes Cast = iota

	// Torch is what PyTorch's casts do. It differs from MLDtypes in the bits of E5M2's NaN (all
	// ones), and in E8M0, which takes magnitudes, and 2^-127 of 0. A format without NaN, to which it has no cast,
	// makes of NaN what the integer arithmetic of torchao's does.
	Torch

	// Saturated is what quantizers do: beyond the largest number, infinities among it, is the
	// largest. Of E8M0 0 is 2^-127, and what is negative NaN. NaN is as in MLDtypes.
	Saturated
	casts
)

var castNames = [casts]string{"ml_dtypes", "torch", "saturated"}

// String returns ml_dtypes, torch or saturated.
func (c Cast) String() string {
	if c < casts {
		return castNames[c]
	}
	return fmt.Sprintf("Cast(%d)", uint8(c))
}

// ParseCast returns the convention of that name. Any other is an error that lists them.
func ParseCast(name string) (Cast, error) {
	for c, n := range castNames {
		if n == name {
			return Cast(c), nil
		}
	}
	return 0, fmt.Errorf("cast %.60q: want one of %s", name, strings.Join(castNames[:], ", "))
}

// Encode returns the code of the number nearest to v, by a convention. The sign of a NaN counts.
func (n Narrow) Encode(v float64, c Cast) uint8 {
	l := &layouts[n]
	if l.has == powers {
		return l.power(v, c)
	}
	sign := uint8(0)
	if math.Signbit(v) {
		sign = 1 << (l.exponent + l.frac)
	}
	if v != v {
		return l.nan(v, sign, c)
	}
	size, part := l.floor(math.Abs(v))
	if part > 0.5 || part == 0.5 && size&1 == 1 {
		size++
	}
	if size <= int(l.top) {
		return l.signed(uint8(size), sign)
	}
	switch {
	case c == Saturated || l.has == onlyFinite:
		return l.top | sign
	case l.has == ieee:
		return l.top + 1 | sign
	}
	return l.nan(v, sign, c)
}

// signed is a code with its sign; there may be one zero.
func (l *layout) signed(size, sign uint8) uint8 {
	if size == 0 && l.has == oneNaN {
		return 0
	}
	return size | sign
}

// floor counts the numbers from 0 to the greatest one that is no more than a, as if the exponent
// had no end, and returns how far a is from there to the next.
func (l *layout) floor(a float64) (size int, part float64) {
	switch {
	case a == 0:
		return 0, 0
	case a > 0x1p200: // beyond all of them
		return 1 << 16, 0
	}
	_, e := math.Frexp(a)
	e = max(e-1, l.least)
	places := math.Ldexp(a, l.frac-e)
	whole := math.Floor(places)
	return (e-l.least)<<l.frac + int(whole), places - whole
}

// nan returns the code of v, which is NaN unless the format has one.
func (l *layout) nan(v float64, sign uint8, c Cast) uint8 {
	last := uint8(1)<<(l.exponent+l.frac) - 1
	switch l.has {
	case oneNaN:
		return last + 1
	case onlyNaN:
		return last | sign
	case ieee:
		if c == Torch {
			return last | sign
		}
		return l.top + 1 + 1<<(l.frac-1) | sign
	}
	if c != Torch {
		return (last + 1) ^ sign
	}
	// The bits of the float32 NaN with the bias changed, to nearest even, cut to a byte.
	bits := math.Float32bits(float32(v))&^(1<<31) + uint32(l.bias-127)<<23
	bits += 1<<(22-l.frac) - 1 + bits>>(23-l.frac)&1
	return uint8(bits>>(23-l.frac))&last | sign
}

// power is Encode of E8M0.
func (l *layout) power(v float64, c Cast) uint8 {
	const none = 0xff
	switch {
	case v != v, v < 0 && c != Torch, v == 0 && c == MLDtypes:
		return none
	}
	a := math.Abs(v)
	switch {
	case a <= 0x1p-127:
		return 0
	case a < 0x1p-126:
		return 1
	case a >= 1.5*0x1p127 && c != Saturated:
		return none
	case a >= 0x1p127:
		return l.top
	}
	f, e := math.Frexp(a) // f from 1/2 on
	if f >= 0.75 {
		e++
	}
	return uint8(e - 1 + l.bias)
}

// Around returns the codes of the two numbers around v, the first the one nearer to zero, and
// how far v is from the first to the second, from 0 to below 1: the chance with which stochastic rounding takes the
// second. Beyond the largest number, and where v is one of the format, both are one. NaN has that
// of [MLDtypes]. Of E8M0 numbers below 2^-127 have it.
func (n Narrow) Around(v float64) (toward, away uint8, part float64) {
	l := &layouts[n]
	if v != v || l.has == powers && v <= 0x1p-127 {
		code := n.Encode(v, Saturated)
		return code, code, 0
	}
	if l.has == powers {
		f, e := math.Frexp(min(v, 0x1p127))
		code := uint8(e - 1 + l.bias)
		if f == 0.5 {
			return code, code, 0
		}
		return code, code + 1, 2*f - 1
	}
	sign := uint8(0)
	if math.Signbit(v) {
		sign = 1 << (l.exponent + l.frac)
	}
	size, part := l.floor(math.Abs(v))
	switch {
	case size >= int(l.top):
		return l.top | sign, l.top | sign, 0
	case part == 0:
		code := l.signed(uint8(size), sign)
		return code, code, 0
	}
	return l.signed(uint8(size), sign), uint8(size+1) | sign, part
}
