package quantize

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// f32 rounds to float32.
func f32(v float64) float64 { return float64(float32(v)) }

// divide is a float32 division. 0/0 is the NaN that processors of x86 make, whose sign is set; a NaN stays as it is.
func divide(a, b float64) float64 { return settled(a, b, float64(float32(a)/float32(b))) }

// times is a float32 product.
func times(a, b float64) float64 { return settled(a, b, float64(float32(a)*float32(b))) }

// settled is the result of an operation, the same NaN on every processor.
func settled(a, b, y float64) float64 {
	switch {
	case a != a:
		return a
	case b != b:
		return b
	case y != y:
		return math.Copysign(math.NaN(), -1)
	}
	return y
}

// inverse is a float32 reciprocal.
func inverse(v float64) float64 { return divide(1, v) }

// Way is one way in which float32 arithmetic evaluates a formula: they are all right.
type Way[F any] struct {
	Name string
	of   F
}

type (
	scaleOf    = func(t stats, g float64) float64
	quotientOf = func(x, scale, g float64, t stats) float64
)

// largest is the number that a block's amax becomes.
func (s *Spec) largest() float64 { return s.Element.Largest() }

// ScaleWays returns the ways to the scale of a block; none of scales that are given.
func (s *Spec) ScaleWays() []Way[scaleOf] {
	l := s.largest()
	switch {
	case s.Rule == Given || s.Kind == NoScale:
		return nil
	case s.Kind == PowerOf2 && s.Rule != RCeil:
		return []Way[scaleOf]{{"exact", func(t stats, _ float64) float64 { return s.power(t.amax) }}}
	case s.Kind == PowerOf2:
		return s.ceilings()
	case s.Kind == EightBits:
		return s.eights()
	case s.Rule == MinMax:
		span := float64(s.Element.High - s.Element.Low)
		return []Way[scaleOf]{
			{"(max - min) / " + digits(span),
				func(t stats, _ float64) float64 { return s.stored(divide(f32(t.high-t.low), span)) }},
			{"(max - min) * (1/" + digits(span) + ")",
				func(t stats, _ float64) float64 { return s.stored(times(f32(t.high-t.low), inverse(span))) }},
		}
	}
	least := func(t stats) float64 { return max(t.amax, s.Eps) }
	return []Way[scaleOf]{
		{"amax / " + digits(l), func(t stats, _ float64) float64 { return s.stored(divide(least(t), l)) }},
		{"amax * (1/" + digits(l) + ")", func(t stats, _ float64) float64 { return s.stored(times(least(t), inverse(l))) }},
		{"1 / (" + digits(l) + "/amax)", func(t stats, _ float64) float64 { return s.stored(inverse(divide(l, least(t)))) }},
	}
}

// stored is a float32 scale as the rule wants it.
func (s *Spec) stored(v float64) float64 {
	if s.Rule == Pow2 && v > 0 && v < 0x1p127 {
		return f32(math.Ldexp(1, ceilLog2(v)))
	}
	return v
}

// power is a scale of MX by floor, ceil or even.
func (s *Spec) power(amax float64) float64 {
	if amax != amax {
		return math.NaN()
	}
	bits := math.Float32bits(float32(amax))
	if s.Rule == Even {
		bits = (bits + 1<<(22-s.Element.Narrow.Mantissa())) &^ (1<<23 - 1)
	}
	e := int(bits>>23&0xff) - 127
	if s.Rule == Ceil && bits&(1<<23-1) != 0 {
		e++
	}
	return scalePower(e - s.exponent())
}

// scalePower is 2^e within E8M0's range.
func scalePower(e int) float64 { return math.Ldexp(1, min(max(e, -127), 127)) }

// exponent is that of the element's largest number.
func (s *Spec) exponent() int {
	_, e := math.Frexp(s.largest())
	return e - 1
}

// ceilings are the ways of rceil. A logarithm in float32 takes a number just above a power of 2 for it.
func (s *Spec) ceilings() []Way[scaleOf] {
	l := s.largest()
	by := func(quotient func(amax float64) float64, log bool) scaleOf {
		return func(t stats, _ float64) float64 {
			v := quotient(t.amax)
			switch {
			case v != v:
				return math.NaN()
			case v == 0:
				return 0x1p-127
			case v > 0x1p127:
				return 0x1p127
			}
			e := ceilLog2(v)
			if log && nearPower(v, e-1) {
				e--
			}
			return scalePower(e)
		}
	}
	division := func(amax float64) float64 { return divide(amax, l) }
	product := func(amax float64) float64 { return times(amax, inverse(l)) }
	return []Way[scaleOf]{
		{"amax / " + digits(l) + ", log2 in float32", by(division, true)},
		{"amax / " + digits(l), by(division, false)},
		{"amax * (1/" + digits(l) + ")", by(product, false)},
		{"amax * (1/" + digits(l) + "), log2 in float32", by(product, true)},
	}
}

// ceilLog2 returns the least e for which v <= 2^e. v is above 0.
func ceilLog2(v float64) int {
	f, e := math.Frexp(v)
	if f == 0.5 {
		e--
	}
	return e
}

// nearPower reports whether log2 v rounds to e in float32, v being above 2^e: the logarithm of
// 1 + d is within d^2 of d log2(e), and d as small as this.
func nearPower(v float64, e int) bool {
	if e == 0 {
		return false
	}
	const log2e = 1.4426950408889634
	d := math.Ldexp(v, -e) - 1
	_, of := math.Frexp(math.Abs(float64(e)))
	half := math.Ldexp(1, of-25) // of the last place of e in float32
	if e < 0 && math.Abs(float64(e)) == math.Ldexp(1, of-1) {
		half /= 2 // the neighbour toward zero is nearer
	}
	return d < 0x1p-10 && float64(d*log2e) <= half
}

// eight is a scale of NVFP4, clamped and rounded.
func (s *Spec) eight(v, least float64) float64 {
	if v == v {
		v = min(max(v, least), fp16.E4M3.Largest())
	}
	switch {
	case v != v: // as PyTorch converts E4M3's to float32
		return math.Copysign(float64(math.Float32frombits(0x7ff00000)), v)
	case s.Cut:
		code, _, _ := fp16.E4M3.Around(v)
		return fp16.E4M3.Decode(code)
	}
	return fp16.E4M3.Decode(fp16.E4M3.Encode(v, fp16.Torch))
}

// eights are the ways to a scale of NVFP4. Where there is no global scale g is 1.
func (s *Spec) eights() []Way[scaleOf] {
	l := s.largest()
	apart := func(over func(t stats, g float64) float64, least float64) scaleOf {
		return func(t stats, g float64) float64 { return s.eight(over(t, g), least) }
	}
	over := []Way[func(t stats, g float64) float64]{
		{"amax/6/g", func(t stats, g float64) float64 { return divide(divide(t.amax, l), g) }},
		{"(amax * (1/6)) * (1/g)", func(t stats, g float64) float64 { return times(times(t.amax, inverse(l)), inverse(g)) }},
		{"amax/6 * (1/g)", func(t stats, g float64) float64 { return times(divide(t.amax, l), inverse(g)) }},
		{"(amax * (1/6)) / g", func(t stats, g float64) float64 { return divide(times(t.amax, inverse(l)), g) }},
		{"exact amax / (6 g)", func(t stats, g float64) float64 { return t.amax / float64(l*g) }},
		{"amax / (6 g)", func(t stats, g float64) float64 { return divide(t.amax, times(l, g)) }},
	}
	lowest := []float64{0x1p-6, 0x1p-9}
	if s.NoLeast {
		lowest = []float64{0}
	}
	var all []Way[scaleOf]
	for _, least := range lowest {
		for _, w := range over {
			all = append(all, Way[scaleOf]{w.Name + ", at least " + digits(least), apart(w.of, least)})
		}
	}
	return all
}

// Zero returns the zero point that goes with a scale by minmax.
func (s *Spec) zero(t stats, scale float64) int {
	if s.Rule != MinMax || scale == 0 {
		return 0
	}
	z := math.RoundToEven(f32(float64(s.Element.Low) - divide(t.low, scale)))
	return int(min(max(z, float64(s.Element.Low)), float64(s.Element.High)))
}
