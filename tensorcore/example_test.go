package tensorcore_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensorcore"
)

// One sum on three devices: beside 2^25, a 1 is lost on a V100 and on an A100, and stays on
// an H100.
func Example() {
	a, b := []float64{0x1p12, 1, -0x1p12}, []float64{0x1p13, 1, 0x1p13}
	for _, name := range []string{"v100", "a100", "h100"} {
		m, err := tensorcore.Lookup(name)
		if err != nil {
			panic(err)
		}
		u, err := m.Unit(tensorcore.FP16, fp16.Float32)
		if err != nil {
			panic(err)
		}
		fmt.Println(m.Title(), u.Dot(a, b, 0))
	}
	// Output:
	// NVIDIA V100 0
	// NVIDIA A100 0
	// NVIDIA H100 1
}
