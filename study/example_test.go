package study_test

import (
	"fmt"

	"github.com/refrun/refrun/study"
)

// Paths that move apart, and the step from which on a comparison says nothing.
func Example() {
	other := []float64{0.4, 0.9, 1.2, 1.4, 1.4, 1.4, 1.4, 1.4}    // of unrelated noise
	moved := []float64{0.001, 0.01, 0.1, 0.5, 0.8, 1.1, 1.3, 1.4} // started close by
	level, known := study.Saturated(other)
	step, measured := study.Lost(moved, level, known)
	fmt.Println(level, step, measured)
	// Output:
	// 1.4 5 true
}
