package quantize_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/quantize"
	"github.com/refrun/refrun/tensor"
)

func Example() {
	x := tensor.New(fp16.Float32, 32)
	for i := range x.Data {
		x.Data[i] = float64(i) / 4
	}
	s, err := quantize.Parse("mxfp4", quantize.Options{Rule: "rceil"})
	if err != nil {
		fmt.Println(err)
		return
	}
	q, err := s.Quantize(x, 1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	y, err := s.Dequantize(q, fp16.Float32)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(q.Scales, q.Codes[:6], y.Data[26:], x.Data[26:])
	// Output: [2] [0 0 0 1 1 1] [6 6 8 8 8 8] [6.5 6.75 7 7.25 7.5 7.75]
}
