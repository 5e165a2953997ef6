package kernel_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/kernel"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

// The three products 2^25, 1 and -2^25 add up to 1 on an H100, and to 0 on an A100.
func ExampleCheck() {
	q := kernel.Question{
		Op:       "matmul",
		A:        tensor.Of(fp16.Float16, []float64{0x1p12, 1, -0x1p12, 0, 3, 0}, 2, 3),
		B:        tensor.Of(fp16.Float16, []float64{0x1p13, 1, 0x1p13}, 3, 1),
		Output:   tensor.Of(fp16.Float32, []float64{1, 3}, 2, 1),
		Operands: tensorcore.FP16,
		Store:    fp16.Float32,
		Device:   "a100",
	}
	r, err := kernel.Check(q)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Verdict, r.Worst.Index, r.Worst.Text)
	fmt.Println("fits", r.Fits[0].Device)
	// Output:
	// FAIL [0 0] 1 where the device gives 0
	// fits h100
}
