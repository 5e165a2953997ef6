package pool_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/pool"
	"github.com/refrun/refrun/tensor"
)

// PyTorch's max_pool2d(x, 2, return_indices=True).
func ExampleMax() {
	x := tensor.FromFloat32([]float32{1, 5, 2, 0, 3, 4, 8, 7}, 1, 1, 2, 4)
	y, at := tensor.New(fp16.Float32, 1, 1, 1, 2), tensor.New(fp16.Int64, 1, 1, 1, 2)
	pool.Max(y, at, x, pool.Blocks(2, 2), pool.Blocks(4, 2))
	fmt.Println(y.Data, at.Data)
	// Output: [5 8] [1 6]
}

// A global average is the adaptive one to size 1.
func ExampleAverage() {
	x := tensor.FromFloat32([]float32{1, 2, 3, 6}, 1, 1, 4)
	y := tensor.New(fp16.Float32, 1, 1, 1)
	pool.Average(y, x, pool.Count{}, pool.Adaptive(4, 1))
	fmt.Println(y.Data)
	// Output: [3]
}

func ExampleSliding() {
	g := pool.Geometry{Kernel: 3, Stride: 2, Dilation: 1, Before: 1, After: 1}
	for _, w := range pool.Sliding(5, g).Of {
		fmt.Print(w.First, "+", w.Count, " of ", w.Padded, "; ")
	}
	fmt.Println()
	// Output: 0+2 of 3; 1+3 of 3; 3+2 of 3;
}
