// Package hdf5 writes and reads the part of HDF5 in which trajectories are
// exchanged: named arrays of IEEE numbers in groups, contiguous or in
// compressed chunks, and small attributes. The structures are those of the
// HDF5 File Format Specification, version 3.0
// (https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html).
//
// A [Writer] produces the oldest dialect, which every HDF5 library since 1.8
// reads: superblock 0, version-1 object headers, symbol-table groups,
// version-1 B-trees. It streams: chunks go to the file as they come, in any
// order, and memory holds only where each one lies. What a reader needs to find
// them is written by [Writer.Finish], the superblock last, so that a run that
// was killed leaves a file that does not open instead of one that lies. Such a
// file can be continued: see [Writer.Checkpoint] and [Resume].
//
// A [File] is read in that dialect and in the newer ones that h5py writes on
// request, as far as trajectories need: see [Open]. Files may come from
// anywhere, so reading trusts nothing: what a file claims is compared with what
// it holds before it is used, and memory and time stay within a multiple of the
// file's size.
package hdf5

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
)

// Type is the type of a dataset's elements.
type Type uint8

// The types: IEEE 754 numbers, two's-complement integers, bytes, and truth values, 0 or 1,
// which h5py has as bool. They are written little-endian and read in either byte order.
const (
	Float16 Type = iota + 1
	Float32
	Float64
	Int32
	Int64
	Uint8
	Bool
)

// String returns the type's name in numpy.
func (t Type) String() string {
	switch t {
	case Float16:
		return "float16"
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	case Int32:
		return "int32"
	case Int64:
		return "int64"
	case Uint8:
		return "uint8"
	case Bool:
		return "bool"
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// Size returns the bytes of one element, or 0 for an unknown type.
func (t Type) Size() int {
	switch t {
	case Float16:
		return 2
	case Float32, Int32:
		return 4
	case Float64, Int64:
		return 8
	case Uint8, Bool:
		return 1
	}
	return 0
}

// TypeOf returns the type that stores numbers of format f without loss. TF32
// and BFloat16 have none of their own and are stored as Float32.
func TypeOf(f fp16.Format) Type {
	switch f {
	case fp16.Float64:
		return Float64
	case fp16.Float16:
		return Float16
	case fp16.Float32, fp16.TF32, fp16.BFloat16:
		return Float32
	}
	panic("hdf5: unknown number format")
}

// format returns the number format of a floating-point type.
func (t Type) format() fp16.Format {
	switch t {
	case Float16:
		return fp16.Float16
	case Float32:
		return fp16.Float32
	}
	return fp16.Float64
}

// holds reports whether the type contains v exactly.
func (t Type) holds(v float64) bool {
	switch t {
	case Int32:
		return v == math.Trunc(v) && -0x1p31 <= v && v < 0x1p31
	case Int64:
		return v == math.Trunc(v) && -0x1p63 <= v && v < 0x1p63
	case Uint8:
		return v == math.Trunc(v) && 0 <= v && v < 0x1p8
	case Bool:
		return v == 0 || v == 1
	}
	return t.format().Holds(v)
}
