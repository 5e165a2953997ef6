package reduce_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/reduce"
	"github.com/refrun/refrun/tensor"
)

// A sum is exact, rounded once: no order shows in it.
func ExampleSum() {
	x := tensor.FromFloat32([]float32{1e30, 1, -1e30, 2, 3, 4}, 2, 3)
	y := tensor.New(fp16.Float32, 2)
	reduce.Sum(y, x, 1)
	fmt.Println(y.Data)
	// Output: [1 9]
}

func ExampleSoftmax() {
	x := tensor.FromFloat32([]float32{0, 0, 1000, 1000}, 2, 2)
	reduce.Softmax(x, x, 0)
	fmt.Println(x.Data)
	reduce.Softmax(x, x, -1)
	fmt.Println(x.Data)
	// Output:
	// [0 0 1 1]
	// [0.5 0.5 0.5 0.5]
}
