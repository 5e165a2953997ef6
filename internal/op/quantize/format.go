package quantize

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
)

// ScaleKind is what a scale is.
type ScaleKind uint8

// The kinds.
const (
	NoScale   ScaleKind = iota // a cast
	PowerOf2                   // E8M0, of MX
	EightBits                  // E4M3, of NVFP4
	Float32                    // a float32 number
)

// Element is what a tensor's elements are: numbers of a narrow format, or whole ones.
type Element struct {
	Narrow fp16.Narrow
	Whole  bool
	Low    int // of whole numbers, the least
	High   int // and the greatest
}

// Bits returns how many bits a code has.
func (e Element) Bits() int {
	switch {
	case !e.Whole:
		return e.Narrow.Bits()
	case e.High-e.Low < 16:
		return 4
	}
	return 8
}

// Largest returns the largest number.
func (e Element) Largest() float64 {
	if e.Whole {
		return float64(e.High)
	}
	return e.Narrow.Largest()
}

// Decode returns the number of a code.
func (e Element) Decode(code uint8) float64 {
	switch {
	case !e.Whole:
		return e.Narrow.Decode(code)
	case e.Bits() == 4 && e.Low < 0:
		return float64(int8(code<<4) >> 4)
	case e.Bits() == 4:
		return float64(code & 15)
	case e.Low < 0:
		return float64(int8(code))
	}
	return float64(code)
}

// Overflow is what becomes of numbers beyond the largest.
type Overflow uint8

// What there is. A quantizer saturates; the others are casts, and faults.
const (
	Saturate Overflow = iota
	ByMLDtypes
	ByTorch
	Wrap // the bits above are lost
)

// Encode returns the code of v by a rounding and what overflows.
func (e Element) Encode(v float64, r Rounding, o Overflow) uint8 {
	if e.Whole {
		return e.whole(v, r, o)
	}
	by := fp16.Saturated
	switch {
	case o == ByMLDtypes:
		by = fp16.MLDtypes
	case o == ByTorch, v != v: // a NaN, which is not clamped
		by = fp16.Torch
	case o == Wrap && math.Abs(v) > e.Narrow.Largest():
		return e.wrapped(v)
	}
	if r == Truncate && math.Abs(v) < e.Narrow.Largest() {
		toward, _, _ := e.Narrow.Around(v)
		return toward
	}
	return e.Narrow.Encode(v, by)
}

func (e Element) whole(v float64, r Rounding, o Overflow) uint8 {
	if v != v {
		v = 0
	}
	v = rounded(v, r)
	if o == Saturate {
		v = min(max(v, float64(e.Low)), float64(e.High))
	}
	return uint8(int64(math.Mod(v, 256))) & e.mask()
}

// rounded is a whole number.
func rounded(v float64, r Rounding) float64 {
	if r == Truncate {
		return math.Trunc(v)
	}
	return math.RoundToEven(v)
}

func (e Element) mask() uint8 { return uint8(1<<e.Bits() - 1) }

// wrapped is a code without the bits that it has no place for.
func (e Element) wrapped(v float64) uint8 {
	_, exponent := math.Frexp(math.Abs(v))
	_, first := math.Frexp(e.Narrow.SmallestNormal())
	m := e.Narrow.Mantissa()
	size := (exponent-first)<<m + int(math.RoundToEven(math.Ldexp(math.Abs(v), m+1-exponent)))
	sign := uint8(1) << (e.Bits() - 1)
	code := uint8(size) & (sign - 1)
	if v < 0 {
		code |= sign
	}
	return code
}

// Rounding is how an element is rounded.
type Rounding uint8

// The roundings. Truncate is a fault of quantizers.
const (
	NearestEven Rounding = iota
	Stochastic           // to one of two neighbours, by chance
	Truncate             // toward zero
)

// Format is how tensors are held: elements, and scales of a kind.
type Format struct {
	Name    string
	Element Element
	Kind    ScaleKind
	Along   int // how many elements share a scale; 0 if options say it
}

var formats = func() []Format {
	of := func(n fp16.Narrow) Element { return Element{Narrow: n} }
	whole := func(low, high int) Element { return Element{Whole: true, Low: low, High: high} }
	l := []Format{
		{"mxfp8_e4m3", of(fp16.E4M3), PowerOf2, 32},
		{"mxfp8_e5m2", of(fp16.E5M2), PowerOf2, 32},
		{"mxfp6_e3m2", of(fp16.E3M2), PowerOf2, 32},
		{"mxfp6_e2m3", of(fp16.E2M3), PowerOf2, 32},
		{"mxfp4_e2m1", of(fp16.E2M1), PowerOf2, 32},
		{"nvfp4", of(fp16.E2M1), EightBits, 16},
		{"fp8_e4m3", of(fp16.E4M3), Float32, 0},
		{"fp8_e5m2", of(fp16.E5M2), Float32, 0},
		{"fp8_e4m3fnuz", of(fp16.E4M3FNUZ), Float32, 0},
		{"fp8_e5m2fnuz", of(fp16.E5M2FNUZ), Float32, 0},
		{"int8", whole(-128, 127), Float32, 0},
		{"uint8", whole(0, 255), Float32, 0},
		{"int4", whole(-8, 7), Float32, 0},
		{"uint4", whole(0, 15), Float32, 0},
	}
	for n := fp16.E4M3; n <= fp16.E8M0; n++ {
		l = append(l, Format{Name: n.String(), Element: of(n)})
	}
	return l
}()

// Names returns the names of all formats.
func Names() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.Name)
	}
	return names
}

// parseFormat returns the format of a name.
func parseFormat(name string) (Format, error) {
	if name == "mxfp4" {
		name = "mxfp4_e2m1"
	}
	if i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name }); i >= 0 {
		return formats[i], nil
	}
	return Format{}, fmt.Errorf("format: %.40q: want one of %s", name, strings.Join(Names(), ", "))
}
