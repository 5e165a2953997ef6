package act_test

import (
	"fmt"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// GELU of float32 numbers, each the exact value rounded once to float16.
func ExampleForward() {
	f, err := act.Parse("gelu")
	if err != nil {
		fmt.Println(err)
		return
	}
	x := tensor.FromFloat32([]float32{-1, 0, 1, 2}, 4)
	y := tensor.New(fp16.Float16, 4)
	act.Forward(y, x, f)
	fmt.Println(f, y.Data)
	// Output: gelu [-0.15869140625 0 0.84130859375 1.9541015625]
}
