package attention_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/attention"
	"github.com/refrun/refrun/tensor"
)

// A query that is twice as much like one key as the other, and one that may see the first key
// only.
func ExampleForward() {
	query := &tensor.Tensor{Shape: []int{2, 1}, Format: fp16.Float32, Data: []float64{1, 5}}
	key := &tensor.Tensor{Shape: []int{2, 1}, Format: fp16.Float32, Data: []float64{1, 2}}
	value := &tensor.Tensor{Shape: []int{2, 1}, Format: fp16.Float32, Data: []float64{10, 20}}
	mask := &tensor.Tensor{Shape: []int{2, 2}, Format: fp16.Int64, Data: []float64{1, 1, 1, 0}}
	y := tensor.New(fp16.Float32, 2, 1)
	attention.Forward(y, query, key, value, attention.Params{Mask: mask})
	fmt.Println(float32(y.Data[0]), y.Data[1])
	// Output: 17.310585 10
}
