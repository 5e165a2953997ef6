package diff_test

import (
	"fmt"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
)

// How far numbers of a half format lie from their reference.
func Example() {
	want := []float64{-2, 2, -2, 2}
	got := []float64{-2, 2.001953125, -2, 2}
	d := diff.Compare(got, want, fp16.Float16)
	fmt.Printf("largest %v at %d, %v ulp, RMS %.5f of the std\n", d.MaxAbs, d.At, d.MaxUlp, d.RMSOverStd)
	// Output:
	// largest 0.001953125 at 1, 1 ulp, RMS 0.00049 of the std
}
