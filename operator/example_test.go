package operator_test

import (
	"fmt"
	"log"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// An operator is loaded from a file of weights and applied to a state.
func ExampleLoad() {
	config, err := operator.ReadConfig("config.json", "", []byte(`{"num_layers": 2, "base_channels": 4,
		"normalization": "none"}`))
	if err != nil {
		log.Fatal(err)
	}
	file, err := safetensors.Open("../testdata/rollouts/no_norm_no_noise/weights.safetensors")
	if err != nil {
		log.Fatal(err)
	}
	op, err := operator.Load(config, file)
	if err != nil {
		log.Fatal(err)
	}
	mode, err := graph.ParseMode("float32", "")
	if err != nil {
		log.Fatal(err)
	}
	x := tensor.New(fp16.Float32, 1, 3, 8, 8) // [N,C,H,W]
	y, err := op.Forward(&operator.Pass{Mode: mode}, x)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(y.Dims(), y.Format)
	// Output: [1,3,8,8] float32
}

// What is left out of a Config is Spinlock's default. The weights are those that
// PyTorch draws after torch.manual_seed(1).
func ExampleInit() {
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 16}, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(op.Config.KernelSize, op.Config.Activation, op.Config.Normalization)
	for _, p := range op.Params()[:3] {
		fmt.Println(p.Name, p.Shape)
	}
	// Output:
	// 3 gelu instance
	// conv_blocks.0.block.0.weight [16 3 3 3]
	// conv_blocks.0.block.1.weight [16]
	// conv_blocks.0.block.1.bias [16]
}

// The exact operator as a function: a plan is made once for a shape of input, and applied any
// number of times.
func ExampleOperator_Compile() {
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 16}, 1)
	if err != nil {
		log.Fatal(err)
	}
	mode, err := graph.ParseMode("float16", "cuda")
	if err != nil {
		log.Fatal(err)
	}
	exact := op.Compile(mode, 1, 32, 32)
	x := tensor.New(fp16.Float32, 1, 3, 32, 32) // [N,C,H,W]
	if err := exact.Forward(exact.Result(), x, nil, noise.Time{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(exact.Result().Dims(), exact.Result().Format)
	// Output: [1,3,32,32] float16
}
