package matmul_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/tensor"
)

func ExampleForward() {
	a := tensor.FromFloat32([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	b := tensor.FromFloat32([]float32{1, 0, 0, 1, 1, 1}, 3, 2)
	shape, err := matmul.Shape(a.Shape, b.Shape, matmul.Params{})
	if err != nil {
		fmt.Println(err)
		return
	}
	y := tensor.New(fp16.Float32, shape...)
	matmul.Forward(y, a, b, matmul.Params{})
	fmt.Println(y.Dims(), y.Data)
	// Output: [2,2] [4 5 10 11]
}

// A linear layer: its weight [N,K] and its bias are prepared once.
func ExampleKernel() {
	weight := tensor.FromFloat32([]float32{1, -1, 0.5, 0.5}, 2, 2)
	k := matmul.NewKernel(weight, true, []float64{0, 10})
	x := tensor.FromFloat32([]float32{3, 1}, 1, 2)
	y := tensor.New(fp16.Float32, 1, 2)
	k.Forward(y, x)
	fmt.Println(y.Data)
	// Output: [2 12]
}

func ExampleEinsum() {
	a := tensor.FromFloat32([]float32{1, 2, 3, 4}, 2, 2)
	trace := tensor.New(fp16.Float32)
	if err := matmul.Einsum(trace, "ii->", a); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(trace.Data)
	// Output: [5]
}
