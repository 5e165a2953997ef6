package quantizer_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/quantize"
	"github.com/refrun/refrun/internal/oracle/quantizer"
	"github.com/refrun/refrun/tensor"
)

// A kernel that takes floor for ceil is told so.
func Example() {
	x := tensor.New(fp16.Float32, 2, 32)
	for i := range x.Data {
		x.Data[i] = float64(i%32)/8 - 1
	}
	wanted, _ := quantize.Parse("mxfp8_e4m3", quantize.Options{Rule: "ceil"})
	made, _ := quantize.Parse("mxfp8_e4m3", quantize.Options{Rule: "floor"})
	got, err := made.Quantize(x, 1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := quantizer.Check(quantizer.Question{Op: "quantize", Spec: wanted, Input: x, Output: got})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Verdict, r.Fault)
	// Output: FAIL scales are by floor
}
