package safetensors_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// A file is written and read in memory; Open, ParseAt and WriteFile are for disks.
func ExampleParse() {
	bias, err := safetensors.OfFloat64s("layer.bias", safetensors.F16, []int{2}, []float64{0.5, -1})
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if err := safetensors.Write(&file, []*safetensors.Tensor{bias}, map[string]string{"made": "here"}); err != nil {
		log.Fatal(err)
	}
	f, err := safetensors.Parse("weights", file.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Names(), f.Metadata)
	t, err := f.Tensor("layer.bias")
	if err != nil {
		log.Fatal(err)
	}
	data, err := t.Float64s()
	if err != nil {
		log.Fatal(err)
	}
	format, _ := t.DType.Format()
	x := tensor.Of(format, data, t.Shape...)
	fmt.Println(x.Format, x.Data)
	_, err = f.Tensor("layer.weight")
	fmt.Println(err)
	// Output:
	// [layer.bias] map[made:here]
	// float16 [0.5 -1]
	// weights: tensor: "layer.weight": want one of "layer.bias"
}
