package sorting

import (
	"cmp"
	"slices"
	"testing"
)

// TestBy: the order is that of slices.SortStableFunc.
func TestBy(t *testing.T) {
	type pair struct{ key, place int }
	var got []pair
	for i := range 1000 {
		got = append(got, pair{i * 7919 % 31, i})
	}
	want := slices.Clone(got)
	by := func(a, b pair) int { return cmp.Compare(b.key, a.key) }
	slices.SortStableFunc(want, by)
	if By(got, by); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got[:40], want[:40])
	}
}
