package network_test

import (
	"fmt"
	"log"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/tensor"
)

// A network without weights, of two inputs.
func ExampleParse() {
	n, err := network.Parse("net.json", []byte(`{
	 "inputs": [{"name": "x", "shape": [2, 2]}, {"name": "y", "shape": [2, 2]}],
	 "nodes": [
	  {"op": "mul", "name": "product", "in": ["x", "y"]},
	  {"op": "sum", "name": "total", "in": ["product"], "attributes": {"dim": 1}}],
	 "outputs": ["total"]}`), nil)
	if err != nil {
		log.Fatal(err)
	}
	p, err := n.Graph.Infer(graph.Mode{Precision: fp16.Float32}, n.Types()...)
	if err != nil {
		log.Fatal(err)
	}
	y, err := p.Run(new(graph.Run), tensor.FromFloat32([]float32{1, 2, 3, 4}, 2, 2),
		tensor.FromFloat32([]float32{5, 6, 7, 8}, 2, 2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(y[0].Data)
	// Output: [17 53]
}
