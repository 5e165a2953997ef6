package conv_test

import (
	"fmt"

	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// A 3x3 convolution with a bias, zeros around the image: PyTorch's
// conv2d(x, w, b, padding=1).
func ExampleForward() {
	x := tensor.FromFloat32([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9}, 1, 1, 3, 3)
	w := tensor.FromFloat32([]float32{0, 1, 0, 1, -4, 1, 0, 1, 0}, 1, 1, 3, 3)
	k := conv.NewKernel(w, []float64{100}, 1)
	p := conv.Square(1, 1, conv.Zeros)
	h, wide := p.OutSize(3, 3, 3, 3)
	y := tensor.New(fp16.Float32, 1, 1, h, wide)
	conv.Forward(y, x, k, p)
	fmt.Println(y.Data)
	// Output: [102 101 96 97 100 93 84 89 78]
}

// The order of a sum does not show: 1 stays between numbers that cancel.
func ExampleForward_exact() {
	x := tensor.FromFloat32([]float32{1e30, 1, -1e30}, 1, 3, 1, 1)
	w := tensor.FromFloat32([]float32{1, 1, 1}, 1, 3, 1, 1)
	y := tensor.New(fp16.BFloat16, 1, 1, 1, 1)
	conv.Forward(y, x, conv.NewKernel(w, nil, 1), conv.Params{})
	fmt.Println(y.Data)
	// Output: [1]
}

func ExampleTransposed() {
	x := tensor.FromFloat32([]float32{1, 2}, 1, 1, 1, 2)
	k := conv.NewTransposedKernel(tensor.FromFloat32([]float32{1, 10}, 1, 1, 1, 2), nil, 1)
	y := tensor.New(fp16.Float32, 1, 1, 1, 4)
	conv.Transposed(y, x, k, conv.Params{Stride: [2]int{1, 2}})
	fmt.Println(y.Data)
	// Output: [1 10 2 20]
}
