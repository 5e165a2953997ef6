package grad_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/grad"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// The force between two points that a spring of length 1 joins.
func Example() {
	g := graph.New(nil)
	x := g.Input("positions")
	a := g.Add(graph.Select{Index: 0}, "a", x)
	b := g.Add(graph.Select{Index: 1}, "b", x)
	d := g.Add(graph.VectorNorm{Order: 2}, "distance", g.Add(graph.Binary{Of: pointwise.Sub}, "difference", a, b))
	one := 1.0
	stretched := g.Add(graph.Binary{Of: pointwise.Sub, Other: &one}, "stretched", d)
	square, _ := pointwise.Parse("square", nil)
	energy := g.Add(graph.Unary{Func: square}, "energy", stretched)
	g.Outputs = []int{energy}

	at := tensor.Of(fp16.Float64, []float64{0, 0, 0, 3, 0, 0}, 2, 3)
	of := graph.Type{Shape: at.Shape, Format: at.Format}
	forces, err := grad.Of(g, graph.Mode{}, energy, []int{x}, of)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := forces.Infer(graph.Mode{}, of)
	if err != nil {
		fmt.Println(err)
		return
	}
	y, err := p.Run(new(graph.Run), at)
	fmt.Println(y[0].Data, y[1].Data, err)
	// Output: [4] [-4 0 0 4 0 0] <nil>
}
