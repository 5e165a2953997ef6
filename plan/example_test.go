package plan_test

import (
	"fmt"
	"log"
	"slices"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// A graph is compiled once and run any number of times, to the bits of its definition.
func ExampleNew() {
	g := graph.New(new(graph.Kept))
	x := g.Input("x")
	w := tensor.New(fp16.Float32, 8, 8, 3, 3)
	for i := range w.Data {
		w.Data[i] = float64(i%7-3) / 8
	}
	y := g.Add(graph.Conv{Params: conv.Square(1, 1, conv.Zeros)}, "conv", x, g.Constant("conv.weight", w))
	g.Outputs = []int{g.Add(graph.Act{Func: act.GELU}, "gelu", y)}

	mode, in := graph.Mode{Precision: fp16.Float32}, graph.Type{Shape: []int{1, 8, 16, 16}, Format: fp16.Float32}
	p, err := plan.New(g, mode, in)
	if err != nil {
		log.Fatal(err)
	}
	a, fast := tensor.New(fp16.Float32, in.Shape...), tensor.New(p.Type(0).Format, p.Type(0).Shape...)
	for i := range a.Data {
		a.Data[i] = float64(i%11-5) / 4
	}
	if err := p.Run(nil, noise.Time{}, []*tensor.Tensor{fast}, []*tensor.Tensor{a}); err != nil {
		log.Fatal(err)
	}
	program, err := g.Infer(mode, in)
	if err != nil {
		log.Fatal(err)
	}
	defined, err := program.Run(new(graph.Run), a)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same bits:", slices.Equal(fast.Data, defined[0].Data))
	fmt.Println(len(p.Nodes()), "operations, the first is a", p.Nodes()[0].Op)
	// Output:
	// the same bits: true
	// 2 operations, the first is a conv 3x3, 8 to 8
}
