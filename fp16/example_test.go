package fp16_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
)

// Every operation ends with one rounding.
func ExampleFormat_Round() {
	third := 1.0 / 3
	for _, f := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
		fmt.Println(f, f.Text(third))
	}
	fmt.Println(fp16.Float16.Round(65520), fp16.Float16.Largest())
	// Output:
	// float32 0.3333333432674408 (0x3eaaaaab)
	// tf32 0.333251953125 (0x3eaaa000)
	// float16 0.333251953125 (0x3555)
	// bfloat16 0.333984375 (0x3eab)
	// +Inf 65504
}

// The guard: an evaluation and the bound of its error decide most roundings.
func ExampleFormat_Decide() {
	fmt.Println(fp16.Float16.Decide(1.0001, 1e-6))
	_, known := fp16.Float16.Decide(1+0x1p-11, 1e-6) // too near to the middle of two numbers
	fmt.Println(known)
	// Output:
	// 1 true
	// false
}

func ExamplePack() {
	bits := make([]uint16, 3)
	fp16.Pack(fp16.BFloat16, bits, []float32{1, -2, 0.1})
	fmt.Printf("%#x\n", bits)
	// Output: [0x3f80 0xc000 0x3dcd]
}
