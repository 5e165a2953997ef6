package spectral_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/spectral"
	"github.com/refrun/refrun/tensor"
)

// The transform of four real numbers is half a spectrum: three complex numbers, pairs
// in a last axis of 2. The way back gives the numbers again.
func ExampleRFFT() {
	x := tensor.FromFloat32([]float32{1, 2, 3, 4}, 4)
	s := tensor.New(fp16.Float32, 3, 2)
	spectral.RFFT(s, x, []int{0}, spectral.Backward)
	fmt.Println(s.Data)
	spectral.IRFFT(x, s, []int{0}, spectral.Backward)
	fmt.Println(x.Data)
	// Output:
	// [10 0 -2 2 -2 0]
	// [1 2 3 4]
}
