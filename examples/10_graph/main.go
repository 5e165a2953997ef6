// 10_graph builds a network of its own from registered operations: a convolution with
// weights from a file, a norm, SiLU, an average over the image and a linear layer.
package main

import (
	"fmt"
	"log"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

func main() {
	weights, err := safetensors.Open("../../testdata/rollouts/no_norm_no_noise/weights.safetensors")
	check(err)
	g := graph.New(nil)
	constant := func(name string) int {
		t, err := weights.Tensor(name)
		check(err)
		data, err := t.Float64s()
		check(err)
		return g.Constant(name, tensor.Of(fp16.Float32, data, t.Shape...))
	}
	op := func(name, attributes string, in ...int) int {
		op, err := graph.Bind(name, []byte(attributes))
		check(err)
		return g.Add(op, name, in...)
	}
	x := g.Input("x")
	y := op("conv2d", `{"padding": 1}`, x, constant("conv_blocks.0.block.0.weight"),
		constant("conv_blocks.0.block.0.bias"))
	y = op("group_norm", `{"num_groups": 2}`, y)
	y = op("silu", ``, y)
	y = op("flatten", `{"start_dim": 1}`, op("adaptive_avg_pool2d", `{"output_size": 1}`, y))
	classes := g.Constant("classes", tensor.FromFloat32([]float32{1, -1, 0.5, 0, 0, 0.25, -1, 1}, 2, 4))
	g.Outputs = []int{op("linear", ``, y, classes)}

	in := tensor.New(fp16.Float32, 2, 3, 12, 12)
	for i := range in.Data {
		in.Data[i] = float64(i%17-8) / 8
	}
	mode, of := graph.Mode{Precision: fp16.Float32}, graph.Type{Shape: in.Shape, Format: in.Format}
	program, err := g.Infer(mode, of)
	check(err)
	defined, err := program.Run(new(graph.Run), in)
	check(err)
	fmt.Println(defined[0].Dims(), defined[0].Float32s())

	// The plan is a faster way to the same bits.
	p, err := plan.New(g, mode, of)
	check(err)
	fast := tensor.New(p.Type(0).Format, p.Type(0).Shape...)
	check(p.Run(nil, noise.Time{}, []*tensor.Tensor{fast}, []*tensor.Tensor{in}))
	fmt.Println("the same bits:", slices.Equal(fast.Data, defined[0].Data))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
