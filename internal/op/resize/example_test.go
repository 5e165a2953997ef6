package resize_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/resize"
	"github.com/refrun/refrun/tensor"
)

// PyTorch's interpolate(x, size=4, mode="linear"), with and without aligned corners.
func ExampleLinear() {
	x := tensor.FromFloat32([]float32{0, 3}, 1, 1, 2)
	y := tensor.New(fp16.Float32, 1, 1, 4)
	resize.Linear(y, x, resize.Axis{})
	fmt.Println(y.Data)
	resize.Linear(y, x, resize.Axis{Coordinates: resize.AlignCorners})
	fmt.Println(y.Data)
	// Output:
	// [0 0.75 2.25 3]
	// [0 1 2 3]
}

func ExampleNearest() {
	x := tensor.FromFloat32([]float32{1, 2, 3}, 1, 1, 3)
	y := tensor.New(fp16.Float32, 1, 1, 6)
	resize.Nearest(y, x, resize.Floor, resize.Axis{Coordinates: resize.Asymmetric})
	fmt.Println(y.Data)
	// Output: [1 1 2 2 3 3]
}
