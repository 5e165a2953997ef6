package npy

import (
	"fmt"
	"strings"
	"testing"
)

// TestRowMajor: an array in Fortran order is the same one in the other order.
func TestRowMajor(t *testing.T) {
	for _, rank := range []int{2, 3, 4, 5} {
		a, err := Open(fmt.Sprintf("testdata/fortran_%d.npy", rank))
		if err != nil {
			t.Fatal(err)
		}
		want, err := a.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		b, err := a.RowMajor()
		if err != nil || b.FortranOrder || !a.FortranOrder {
			t.Fatal(b, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		for n := 1; n <= len(want); n++ {
			got := make([]float64, n)
			if err := b.ReadFloat64s(got, len(want)-n); err != nil {
				t.Fatal(err)
			}
			same(t, "in order", got, want[len(want)-n:])
		}
		if again, err := b.RowMajor(); again != b || err != nil {
			t.Error("what is in order is copied")
		}
	}
	a := &Array{Shape: []int{1 << 13, 1<<10 + 1}, FortranOrder: true, element: element{'f', 8, false},
		count: 1 << 13 * (1<<10 + 1), source: source{path: "x"}}
	if _, err := a.RowMajor(); err == nil ||
		!strings.HasPrefix(err.Error(), "x: fortran_order: True: want False for 64 MiB and more") {
		t.Error(err)
	}
}
