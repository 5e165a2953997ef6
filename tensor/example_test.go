package tensor_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Numbers of a program come in, and go out, as float32.
func ExampleFromFloat32() {
	x := tensor.FromFloat32([]float32{0.5, 1, 1.5, 2, 2.5, 3}, 1, 2, 1, 3)
	fmt.Println(x.Dims(), x.Format, x.Plane(0, 1))
	fmt.Println(x.Float32s()[:2])
	// Output:
	// [1,2,1,3] float32 [2 2.5 3]
	// [0.5 1]
}

// What a device's memory holds of float16 numbers.
func ExampleFromBits() {
	x := tensor.FromBits(fp16.Float16, []uint16{0x3c00, 0x3555, 0xfc00}, 3)
	fmt.Println(x.Data)
	fmt.Printf("%#x\n", x.Bits())
	// Output:
	// [1 0.333251953125 -Inf]
	// [0x3c00 0x3555 0xfc00]
}
