package asm

import (
	"testing"
	"unsafe"
)

func TestAligned(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 1000, hugePage/16 - 1, hugePage / 16, hugePage / 8, hugePage/8 + 1,
		3 * hugePage / 8, 5*hugePage/8 + 3} {
		d, s := Aligned[float64](n), Aligned[float32](n)
		if len(d) != n || cap(d) != n || len(s) != n || cap(s) != n {
			t.Fatalf("%d numbers: lengths %d, %d, capacities %d, %d", n, len(d), len(s), cap(d), cap(s))
		}
		if n == 0 {
			continue
		}
		if at := uintptr(unsafe.Pointer(&d[0])); at%cacheLine != 0 {
			t.Errorf("%d float64 numbers at %#x: want a multiple of %d", n, at, cacheLine)
		}
		want, p := uintptr(cacheLine), Paged[float64](n)
		if 8*n >= hugePage/2 {
			want = hugePage
		}
		if at := uintptr(unsafe.Pointer(&p[0])); at%want != 0 || len(p) != n || cap(p) != n {
			t.Errorf("%d numbers of pages at %#x, length %d: want a multiple of %d", n, at, len(p), want)
		}
		if at := uintptr(unsafe.Pointer(&s[0])); at%cacheLine != 0 {
			t.Errorf("%d float32 numbers at %#x: want a multiple of %d", n, at, cacheLine)
		}
		for i := range d {
			if d[i] != 0 || s[i] != 0 {
				t.Fatalf("%d numbers: number %d is not zero", n, i)
			}
			d[i], s[i] = 1, 1
		}
	}
}
