package safetensors

import (
	"sort"
	"strings"

	"github.com/refrun/refrun/fp16"
)

// DType is the element type of a tensor, spelt as in the file.
type DType string

// The element types of the format whose elements are whole bytes. (Its packed
// types F4, F6_E2M3 and F6_E3M2 are refused as unknown.)
const (
	BOOL        DType = "BOOL"
	U8          DType = "U8"
	I8          DType = "I8"
	F8_E5M2     DType = "F8_E5M2"
	F8_E4M3     DType = "F8_E4M3"
	F8_E8M0     DType = "F8_E8M0"
	F8_E4M3FNUZ DType = "F8_E4M3FNUZ"
	F8_E5M2FNUZ DType = "F8_E5M2FNUZ"
	I16         DType = "I16"
	U16         DType = "U16"
	F16         DType = "F16"
	BF16        DType = "BF16"
	I32         DType = "I32"
	U32         DType = "U32"
	F32         DType = "F32"
	C64         DType = "C64"
	F64         DType = "F64"
	I64         DType = "I64"
	U64         DType = "U64"
)

var sizes = map[DType]int{
	BOOL: 1, U8: 1, I8: 1, F8_E5M2: 1, F8_E4M3: 1, F8_E8M0: 1, F8_E4M3FNUZ: 1, F8_E5M2FNUZ: 1,
	I16: 2, U16: 2, F16: 2, BF16: 2,
	I32: 4, U32: 4, F32: 4,
	C64: 8, F64: 8, I64: 8, U64: 8,
}

// Size returns the bytes of one element, or 0 for an unknown type.
func (d DType) Size() int { return sizes[d] }

// DTypeOf returns the type in which numbers of format f are stored: TF32 has
// none of its own and is stored as F32.
func DTypeOf(f fp16.Format) DType {
	switch f {
	case fp16.Float64:
		return F64
	case fp16.Float32, fp16.TF32:
		return F32
	case fp16.Float16:
		return F16
	case fp16.BFloat16:
		return BF16
	}
	panic("safetensors: unknown number format")
}

// Format returns the number format of d's elements; ok is false unless d is
// F64, F32, F16 or BF16.
func (d DType) Format() (f fp16.Format, ok bool) {
	switch d {
	case F64:
		return fp16.Float64, true
	case F32:
		return fp16.Float32, true
	case F16:
		return fp16.Float16, true
	case BF16:
		return fp16.BFloat16, true
	}
	return 0, false
}

// DTypeOfNarrow returns the type in which numbers of a format of 8 bits are stored; ok is false
// unless the file format has it.
func DTypeOfNarrow(n fp16.Narrow) (d DType, ok bool) {
	d, ok = narrow[n]
	return d, ok
}

// Narrow returns the number format of d's elements; ok is false unless they are floating-point numbers of 8 bits.
func (d DType) Narrow() (n fp16.Narrow, ok bool) {
	for n, of := range narrow {
		if of == d {
			return n, true
		}
	}
	return 0, false
}

var narrow = map[fp16.Narrow]DType{
	fp16.E4M3: F8_E4M3, fp16.E5M2: F8_E5M2, fp16.E8M0: F8_E8M0, fp16.E4M3FNUZ: F8_E4M3FNUZ, fp16.E5M2FNUZ: F8_E5M2FNUZ,
}

// dtypeNames lists the known types for an error message.
func dtypeNames() string {
	var names []string
	for d := range sizes {
		names = append(names, string(d))
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}
