package pointwise_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

func ExampleUnary() {
	f, err := pointwise.Parse("leaky_relu", map[string]float64{"negative_slope": 0.1})
	if err != nil {
		fmt.Println(err)
		return
	}
	x := tensor.Of(fp16.Float32, []float64{-2, 0.5, 3}, 3)
	y := tensor.New(fp16.Float16, 3)
	pointwise.Unary(y, x, f)
	fmt.Println(f, y.Data)
	// Output: leaky_relu(negative_slope=0.1) [-0.199951171875 0.5 3]
}

// A bias for each of two channels.
func ExampleBinary() {
	x := tensor.Of(fp16.Float32, []float64{1, 2, 3, 4, 5, 6}, 1, 2, 3)
	bias := tensor.Of(fp16.Float32, []float64{10, 20}, 2, 1)
	pointwise.Binary(x, x, bias, pointwise.Add)
	fmt.Println(x.Data)
	// Output: [11 12 13 24 25 26]
}

func ExampleWhere() {
	x := tensor.Of(fp16.Float32, []float64{-4, 9, 16}, 3)
	zero := tensor.New(fp16.Float32)
	positive := tensor.New(fp16.Float32, 3)
	pointwise.Binary(positive, x, zero, pointwise.Greater)
	pointwise.Where(x, positive, x, zero)
	fmt.Println(x.Data)
	// Output: [0 9 16]
}

func ExampleBroadcast() {
	fmt.Println(pointwise.Broadcast([]int{8, 1, 32}, []int{16, 1}))
	fmt.Println(pointwise.Broadcast([]int{2, 3}, []int{2}))
	// Output:
	// [8 16 32] <nil>
	// [] shapes [[2 3] [2]]: want dimensions that are equal, or 1, from the last one on
}
