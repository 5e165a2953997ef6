package onnx_test

import (
	"fmt"
	"log"
	"sort"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/tensor"
)

// A network that PyTorch has exported, evaluated in float32.
func ExampleOpen() {
	m, err := onnx.Open("testdata/models/resnet.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Producer, m.Opset, m.Inputs[0].Name, m.Inputs[0].Type, m.Outputs)

	g, _, err := m.Graph(nil) // the file states all sizes
	if err != nil {
		log.Fatal(err)
	}
	x := tensor.New(fp16.Float32, 1, 3, 64, 64) // a black image
	p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, graph.Type{Shape: x.Shape, Format: x.Format})
	if err != nil {
		log.Fatal(err)
	}
	y, err := p.Run(new(graph.Run), x)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(g.Nodes), "nodes,", y[0].Shape)
	// Output:
	// pytorch 20 x float32 [linear]
	// 23 nodes, [1 10]
}

// What operations of ONNX's a file may have.
func ExampleOperations() {
	all := onnx.Operations()
	i := sort.SearchStrings(all, "Softmax")
	fmt.Println(len(all) > 100, all[i])
	// Output:
	// true Softmax
}
