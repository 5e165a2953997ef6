package asm

import "unsafe"

// Kernels write and read dozens of streams at once, a page apart or more, and
// walk through weights of many megabytes: with pages of 4 KB much of their time is
// lost to looking up where pages are. Large blocks therefore lie on pages of 2 MB
// where the system gives such pages to those who ask (Linux, with transparent huge
// pages "madvise" or "always").
const (
	cacheLine = 64
	hugePage  = 2 << 20
)

// Aligned returns n numbers, zeros, that begin with a cache line.
//
// From half a page on they begin with a page of 2 MB, but for blocks of so many
// pages that it does not matter if the ends lie on small ones.
func Aligned[T float32 | float64](n int) []T {
	size := int(unsafe.Sizeof(T(0)))
	bytes, align := n*size, cacheLine
	large := bytes >= hugePage/2
	if large && bytes < 4*hugePage {
		align = hugePage
		bytes = (bytes + hugePage - 1) / hugePage * hugePage
	}
	b := make([]T, (bytes+align)/size)
	first := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(align)) / size
	if large {
		whole(b)
	}
	return b[first:][:n:n]
}

// whole asks for large pages where whole ones fit in b.
func whole[T float32 | float64](b []T) {
	size := int(unsafe.Sizeof(T(0)))
	first := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%hugePage) / size
	if pages := (len(b) - first) * size / hugePage; pages > 0 {
		advise(unsafe.Slice((*byte)(unsafe.Pointer(&b[first])), pages*hugePage))
	}
}
