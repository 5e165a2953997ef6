package fault

import (
	"slices"
	"testing"
)

// TestTurned: numbers some places on, of rings that are shorter than that too.
func TestTurned(t *testing.T) {
	ring := []float64{1, 2, 3}
	for k, want := range map[int][]float64{1: {2, 3, 1}, -1: {3, 1, 2}, 8: {3, 1, 2}, -8: {2, 3, 1}, 3: nil, -6: nil} {
		if got := turned(ring, k); !slices.Equal(got, want) {
			t.Errorf("%v turned by %d is %v, want %v", ring, k, got, want)
		}
	}
}
