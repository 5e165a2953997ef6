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

// Aligned returns n numbers, zeros, that begin with a cache line. What of them fills
// pages of 2 MB lies on such pages.
func Aligned[T float32 | float64](n int) []T { return aligned[T](n, cacheLine) }

// Paged is Aligned for memory that is worth the rest of its pages: from half a page
// on it begins with one and has whole ones.
func Paged[T float32 | float64](n int) []T {
	if n*int(unsafe.Sizeof(T(0))) < hugePage/2 {
		return Aligned[T](n)
	}
	return aligned[T](n, hugePage)
}

// aligned returns n numbers that begin at a multiple of align bytes, in memory of
// a multiple of it.
func aligned[T float32 | float64](n, align int) []T {
	size := int(unsafe.Sizeof(T(0)))
	bytes := (n*size + align - 1) / align * align
	b := make([]T, (bytes+align)/size)
	first := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(align)) / size
	whole(b)
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
