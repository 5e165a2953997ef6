package oracle_test

import (
	"fmt"

	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/tensor"
)

// A softmax that leaves out the last number of each sum.
func ExampleCheckKernel() {
	x := tensor.FromFloat32([]float32{0, 1, 2, 3, 4, 3, 2, 1}, 2, 4)
	y := tensor.FromFloat32([]float32{
		0.09003057, 0.24472848, 0.66524094, 1.8083124, 0.66524094, 0.24472848, 0.09003057, 0.033120397,
	}, 2, 4)
	r, err := oracle.CheckKernel(oracle.Kernel{
		Op: "softmax", Attributes: []byte(`{"dim": -1}`), Inputs: map[string]*tensor.Tensor{"input": x}, Output: y,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Verdict, r.Violations, "of", r.Elements)
	fmt.Println(r.Fault)
	// Output:
	// FAIL 8 of 8
	// the last term of the sums is left out
}
