package onnx

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
)

// DType is the type of a tensor's numbers, by ONNX's number of it.
type DType int32

// The types of numbers that a graph can hold. Complex numbers and strings it cannot.
const (
	Float32       DType = 1
	Uint8         DType = 2
	Int8          DType = 3
	Uint16        DType = 4
	Int16         DType = 5
	Int32         DType = 6
	Int64         DType = 7
	Bool          DType = 9
	Float16       DType = 10
	Float64       DType = 11
	Uint32        DType = 12
	Uint64        DType = 13
	BFloat16      DType = 16
	Float8E4M3    DType = 17
	Float8E4M3UZ  DType = 18
	Float8E5M2    DType = 19
	Float8E5M2UZ  DType = 20
	Uint4         DType = 21
	Int4          DType = 22
	Float4E2M1    DType = 23
	Float8E8M0    DType = 24
	Uint2         DType = 25
	Int2          DType = 26
	stringType    DType = 8
	complex64Type DType = 14
	complexType   DType = 15
)

// dtype is what is known of a type.
type dtype struct {
	name   string
	bits   int         // of a number in raw data
	format fp16.Format // in which a graph holds its numbers
	lo, hi float64     // of whole numbers
}

// dtypes are the types. A graph has whole numbers of one kind, and holds numbers of 8 bits
// and fewer in float32, which contains them.
var dtypes = map[DType]dtype{
	Float32:      {"float32", 32, fp16.Float32, 0, 0},
	Uint8:        {"uint8", 8, fp16.Int64, 0, 1<<8 - 1},
	Int8:         {"int8", 8, fp16.Int64, -1 << 7, 1<<7 - 1},
	Uint16:       {"uint16", 16, fp16.Int64, 0, 1<<16 - 1},
	Int16:        {"int16", 16, fp16.Int64, -1 << 15, 1<<15 - 1},
	Int32:        {"int32", 32, fp16.Int64, -1 << 31, 1<<31 - 1},
	Int64:        {"int64", 64, fp16.Int64, -1 << 63, 1 << 63},
	Bool:         {"bool", 8, fp16.Int64, 0, 1},
	Float16:      {"float16", 16, fp16.Float16, 0, 0},
	Float64:      {"float64", 64, fp16.Float64, 0, 0},
	Uint32:       {"uint32", 32, fp16.Int64, 0, 1<<32 - 1},
	Uint64:       {"uint64", 64, fp16.Int64, 0, 1 << 64},
	BFloat16:     {"bfloat16", 16, fp16.BFloat16, 0, 0},
	Float8E4M3:   {"float8e4m3fn", 8, fp16.Float32, 0, 0},
	Float8E4M3UZ: {"float8e4m3fnuz", 8, fp16.Float32, 0, 0},
	Float8E5M2:   {"float8e5m2", 8, fp16.Float32, 0, 0},
	Float8E5M2UZ: {"float8e5m2fnuz", 8, fp16.Float32, 0, 0},
	Uint4:        {"uint4", 4, fp16.Int64, 0, 15},
	Int4:         {"int4", 4, fp16.Int64, -8, 7},
	Float4E2M1:   {"float4e2m1", 4, fp16.Float32, 0, 0},
	Float8E8M0:   {"float8e8m0", 8, fp16.Float32, 0, 0},
	Uint2:        {"uint2", 2, fp16.Int64, 0, 3},
	Int2:         {"int2", 2, fp16.Int64, -2, 1},
}

// String returns the name, such as float32.
func (d DType) String() string {
	if t, ok := dtypes[d]; ok {
		return t.name
	}
	switch d {
	case stringType:
		return "string"
	case complex64Type:
		return "complex64"
	case complexType:
		return "complex128"
	}
	return fmt.Sprintf("type %d", int32(d))
}

// Format returns the format in which a graph holds numbers of the type. It is false for
// types that it cannot hold.
func (d DType) Format() (fp16.Format, bool) {
	t, ok := dtypes[d]
	return t.format, ok
}

// whole reports whether the numbers are whole ones, or truths.
func (d DType) whole() bool { return dtypes[d].format == fp16.Int64 }

// number returns the number of these bits.
func (d DType) number(bits uint64) float64 {
	switch d {
	case Float32:
		return fp16.Float32.FromBits(bits & math.MaxUint32)
	case Float64:
		return fp16.Float64.FromBits(bits)
	case Float16:
		return fp16.Float16.FromBits(bits & math.MaxUint16)
	case BFloat16:
		return fp16.BFloat16.FromBits(bits & math.MaxUint16)
	case Uint64:
		return float64(bits)
	case Bool:
		if bits != 0 {
			return 1
		}
		return 0
	case Float8E4M3, Float8E4M3UZ, Float8E5M2, Float8E5M2UZ, Float4E2M1, Float8E8M0:
		return minis[d].Decode(uint8(bits))
	}
	t := dtypes[d]
	if t.lo == 0 {
		return float64(bits & (1<<t.bits - 1))
	}
	return float64(int64(bits<<(64-t.bits)) >> (64 - t.bits))
}

// minis are the formats of 8 bits and fewer.
var minis = map[DType]fp16.Narrow{
	Float8E4M3:   fp16.E4M3,
	Float8E4M3UZ: fp16.E4M3FNUZ,
	Float8E5M2:   fp16.E5M2,
	Float8E5M2UZ: fp16.E5M2FNUZ,
	Float4E2M1:   fp16.E2M1,
	Float8E8M0:   fp16.E8M0,
}
