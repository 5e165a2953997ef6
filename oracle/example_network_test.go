package oracle_test

import (
	"context"
	"fmt"
	"log"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/tensor"
)

// A softmax on a device that says it computes in float32, and rounds its result to bfloat16.
func ExampleCheckNetwork() {
	op, err := graph.Bind("softmax", nil)
	if err != nil {
		log.Fatal(err)
	}
	g := graph.New(nil)
	x := g.Input("x")
	g.Outputs = []int{g.Add(op, "y", x)}

	in := tensor.New(fp16.Float32, 8, 32)
	for i := range in.Data {
		in.Data[i] = float64(i*i%29) / 8
	}
	p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, graph.Type{Shape: in.Shape, Format: in.Format})
	if err != nil {
		log.Fatal(err)
	}
	out, err := p.Run(new(graph.Run), in)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		r, err := oracle.CheckNetwork(context.Background(),
			oracle.Network{Name: "a softmax", Graph: g, Inputs: []*tensor.Tensor{in}, Precision: "float32", Outputs: out})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Verdict)
		fp16.BFloat16.RoundSlice(out[0].Data, out[0].Data)
	}
	// Output:
	// PASS-CONFORMING
	// FAIL-PRECISION
}
