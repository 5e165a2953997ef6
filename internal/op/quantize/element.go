package quantize

import (
	"math"
	"strconv"
)

func digits(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// QuotientWays returns the ways to x over its scale, before it is rounded.
func (s *Spec) QuotientWays() []Way[quotientOf] {
	switch s.Kind {
	case NoScale:
		return []Way[quotientOf]{{"cast", func(x, _, _ float64, _ stats) float64 { return x }}}
	case PowerOf2:
		return s.powers()
	case EightBits:
		return halves()
	}
	division := func(x, scale, _ float64, _ stats) float64 { return divide(x, scale) }
	product := func(x, scale, _ float64, _ stats) float64 { return times(x, inverse(scale)) }
	l := s.largest()
	all := []Way[quotientOf]{{"division", division}, {"product with the reciprocal", product}}
	if s.Rule == AMax {
		direct := func(x, _, _ float64, t stats) float64 { return times(x, divide(l, max(t.amax, s.Eps))) }
		all = append(all, Way[quotientOf]{"product with " + digits(l) + "/amax", direct})
	}
	exact := func(x, scale, _ float64, _ stats) float64 { return x / scale }
	return append(all, Way[quotientOf]{"exact quotient", exact})
}

// powers are the ways of MX. A quotient by a power of 2 is exact; but the least scale and that of
// NaN are other numbers where float32's subnormal ones are avoided.
func (s *Spec) powers() []Way[quotientOf] {
	exact := func(x, scale, _ float64, _ stats) float64 { return x / scale }
	normal := func(x, scale, _ float64, _ stats) float64 {
		if scale != scale {
			return divide(x, math.Inf(1))
		}
		return x / max(scale, 0x1p-126)
	}
	one := func(x, scale, _ float64, _ stats) float64 {
		switch {
		case scale != scale:
			return times(x, 0x1p-128)
		case scale == 0x1p-127:
			return x
		}
		return x / scale
	}
	all := []Way[quotientOf]{
		{"exact", exact},
		{"a scale of 2^-127 taken for 2^-126", normal},
		{"a scale of 2^-127 taken for 1", one},
	}
	switch s.Rule { // torchao's is the first
	case RCeil:
		all[0], all[2] = all[2], all[0]
	default:
		all[0], all[1] = all[1], all[0]
	}
	return all
}

// halves are the ways of NVFP4.
func halves() []Way[quotientOf] {
	return []Way[quotientOf]{
		{"x / (g scale)", func(x, scale, g float64, _ stats) float64 { return divide(x, times(g, scale)) }},
		{"x * (1/(g scale))", func(x, scale, g float64, _ stats) float64 { return times(x, inverse(times(g, scale))) }},
		{"x * ((1/g)/scale)", func(x, scale, g float64, _ stats) float64 { return times(x, divide(inverse(g), scale)) }},
		{"x * (1/(scale (1/(1/g))))", func(x, scale, g float64, _ stats) float64 {
			return times(x, inverse(times(scale, inverse(inverse(g)))))
		}},
		{"exact x / (g scale)", func(x, scale, g float64, _ stats) float64 { return x / float64(g*scale) }},
		{"x/g/scale", func(x, scale, g float64, _ stats) float64 { return divide(divide(x, g), scale) }},
	}
}

// element returns the code of a quotient.
func (s *Spec) element(q float64, zero int) uint8 {
	e := s.written()
	if !e.Whole || s.NoZero || zero == 0 {
		return e.Encode(q, s.Rounding, s.Overflow)
	}
	return e.Encode(rounded(q, s.Rounding)+float64(zero), NearestEven, s.Overflow)
}
