package graph_test

import (
	"fmt"
	"log"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// A network of one convolution with a bias, ReLU, and a sum with the input, in float16
// as PyTorch's autocast on CUDA computes it.
func ExampleGraph() {
	g := graph.New(nil)
	x := g.Input("x")
	w := g.Constant("conv.weight", tensor.FromFloat32([]float32{2}, 1, 1, 1, 1))
	b := g.Constant("conv.bias", tensor.FromFloat32([]float32{-1}, 1))
	y := g.Add(graph.Conv{Params: conv.Square(1, 0, conv.Zeros)}, "conv", x, w, b)
	y = g.Add(graph.Act{Func: act.ReLU}, "relu", y)
	g.Outputs = []int{g.Add(graph.Addition, "sum", y, x)}

	mode, err := graph.ParseMode("float16", "cuda")
	if err != nil {
		log.Fatal(err)
	}
	in := tensor.FromFloat32([]float32{-1, 0, 1, 0.1}, 1, 1, 2, 2)
	p, err := g.Infer(mode, graph.Type{Shape: in.Shape, Format: in.Format})
	if err != nil {
		log.Fatal(err)
	}
	out, err := p.Run(&graph.Run{Seen: func(v int, t *tensor.Tensor) { fmt.Println(g.Values[v].Name, t.Format) }}, in)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out[0].Data)
	// Output:
	// conv float16
	// relu float16
	// sum float32
	// [-1 0 2 0.10000000149011612]
}

// Every registered operation is bound by its name and the attributes that PyTorch or
// ONNX gives it.
func ExampleBind() {
	op, err := graph.Bind("max_pool2d", []byte(`{"kernel_size": 2, "stride": [1, 2]}`))
	if err != nil {
		log.Fatal(err)
	}
	of, err := op.Infer(graph.Mode{Precision: fp16.Float32},
		[]graph.Type{{Shape: []int{1, 8, 5, 6}, Format: fp16.Float32}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(op.Name(), of.Out[0].Shape)
	// Output: max_pool2d [1 8 4 3]
}

// Functions and operations on numbers go by their names.
func ExampleBind_functions() {
	leaky, err := graph.Bind("leaky_relu", []byte(`{"negative_slope": 0.5}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	sub, err := graph.Bind("sub", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	g := graph.New(nil)
	x, y := g.Input("x"), g.Input("y")
	g.Outputs = []int{g.Add(leaky, "leaky", g.Add(sub, "difference", x, y))}
	of := graph.Type{Shape: []int{2}, Format: fp16.Float32}
	p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, of, of)
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := p.Run(new(graph.Run), tensor.FromFloat32([]float32{1, 5}, 2), tensor.FromFloat32([]float32{4, 3}, 2))
	fmt.Println(leaky, out[0].Data, err)
	// Output: leaky_relu(negative_slope=0.5) [-1.5 2] <nil>
}
