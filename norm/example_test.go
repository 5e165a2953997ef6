package norm_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/norm"
	"github.com/refrun/refrun/tensor"
)

func ExampleLayer() {
	x := tensor.Of(fp16.Float32, []float64{1, 2, 3, 6, 0, 0, 0, 4}, 2, 4)
	norm.Layer(x, x, 4, nil, []float64{10, 10, 10, 10}, 0.5)
	fmt.Println(x.Data[:4]) // mean 3, variance 3.5
	// Output: [9 9.5 10 11.5]
}

func ExampleRMS() {
	x := tensor.Of(fp16.Float32, []float64{3, 4, 0, 0}, 4)
	norm.RMS(x, x, 4, []float64{1, 1, 1, 1}, 0)
	fmt.Println(x.Data) // the mean square is 25/4
	// Output: [1.2000000476837158 1.600000023841858 0 0]
}
