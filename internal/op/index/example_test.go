package index_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/index"
	"github.com/refrun/refrun/tensor"
)

func ExamplePermute() {
	x := tensor.FromFloat32([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	y := tensor.New(fp16.Float32, 3, 2)
	index.Permute(y, x, 1, 0)
	fmt.Println(y.Data)
	// Output: [1 4 2 5 3 6]
}

// Rows of a table. Indices are tensors of whole numbers, below zero from the end.
func ExampleTake() {
	table := tensor.FromFloat32([]float32{0, 1, 10, 11, 20, 21}, 3, 2)
	y := tensor.New(fp16.Float32, 2, 2)
	fmt.Println(index.Take(y, table, 0, tensor.Of(fp16.Int64, []float64{2, -2}, 2)), y.Data)
	fmt.Println(index.Take(y, table, 0, tensor.Of(fp16.Int64, []float64{2, 3}, 2)))
	// Output:
	// <nil> [20 21 10 11]
	// index[1]: 3: want -3 to 2
}

// What comes to one place is added exactly, whatever its order.
func ExampleIndexAdd() {
	x := tensor.New(fp16.Float32, 3)
	from := tensor.FromFloat32([]float32{1e30, 1, -1e30, 5}, 4)
	to := tensor.Of(fp16.Int64, []float64{0, 0, 0, 2}, 4)
	fmt.Println(index.IndexAdd(x, x, 0, to, from, index.Sum, true), x.Data)
	// Output: <nil> [1 0 5]
}
