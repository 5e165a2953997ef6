package judge_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// A softmax that leaves out the last number of each sum.
func Example() {
	g, _, err := judge.Kernel("softmax", []byte(`{"dim": -1}`), []string{"input"})
	if err != nil {
		fmt.Println(err)
		return
	}
	x := tensor.FromFloat32([]float32{0, 1, 2, 3, 4, 3, 2, 1}, 2, 4)
	y := tensor.FromFloat32([]float32{
		0.09003057, 0.24472848, 0.66524094, 1.8083124, 0.66524094, 0.24472848, 0.09003057, 0.033120397,
	}, 2, 4)
	r, err := judge.Check(judge.Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y.Clone()})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Verdict, r.Violations, "of", r.Elements)
	fmt.Println(r.Store == fp16.Float32.String(), r.Fault)
	// Output:
	// FAIL 8 of 8
	// true the last term of the sums is left out
}
