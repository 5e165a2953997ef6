package molecule

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// powers is a network whose energy is the sum of powers of coordinates, most of which are below 0.
type powers struct{ exponent func(g *graph.Graph) int }

func (n powers) Problem(mode graph.Mode, all ...*Molecule) (*Problem, error) {
	m := all[0]
	g := graph.New(nil)
	x, by := g.Input("positions"), 1.3
	base := g.Add(graph.Binary{Of: pointwise.Mul, Other: &by}, "base", x)
	g.Outputs = []int{g.Add(graph.Reduction{Of: "sum"}, "energy",
		g.Add(graph.Binary{Of: pointwise.Pow}, "power", base, n.exponent(g)))}
	of := graph.Type{Shape: []int{len(m.Numbers), 3}, Format: mode.Wide()}
	in := tensor.New(of.Format, of.Shape...)
	of.Format.RoundSlice(in.Data, m.Positions)
	g, err := WithForces(g, mode, g.Outputs[0], x, of)
	return &Problem{Graph: g, Mode: mode, Inputs: []*tensor.Tensor{in}, Energies: 0, Forces: 1}, err
}

// TestPowersOfNegativeBases: right forces pass where a whole power of a negative number makes the energy, however its
// exponent is written, and forces that are a little off do not.
func TestPowersOfNegativeBases(t *testing.T) {
	number := func(v float64) *tensor.Tensor { return tensor.Of(fp16.Float32, []float64{v}, 1) }
	of := map[string]func(g *graph.Graph, n float64) int{
		"constant": func(g *graph.Graph, n float64) int { return g.Constant("n", number(n)) },
		"computed": func(g *graph.Graph, n float64) int {
			return g.Add(graph.Binary{Of: pointwise.Sub}, "less", g.Constant("more", number(n+1)), g.Constant("one", number(1)))
		},
		"a table's": func(g *graph.Graph, n float64) int {
			row := g.Constant("rows", tensor.Of(fp16.Int64, []float64{1, 0, 1, 1, 0, 1, 1, 0, 1, 1}, 10))
			return g.Add(graph.Embedding{}, "exponents",
				g.Constant("table", tensor.Of(fp16.Float32, []float64{n, n, n, n + 1, n + 1, n + 1}, 2, 3)), row)
		},
	}
	for how, exponent := range of {
		for _, n := range []float64{2, 3, -2} {
			network := powers{func(g *graph.Graph) int { return exponent(g, n) }}
			m := acetone()
			for i := range m.Positions {
				m.Positions[i] -= 4
			}
			right, err := answer(network, graph.Mode{}, m)
			if err != nil {
				t.Fatal(err)
			}
			m.Energy, m.Forces = &right.Energies[0], right.Forces
			for _, by := range []float64{1, 1 + 0x1p-16} {
				for i, f := range m.Forces {
					m.Forces[i] = f * by
				}
				r, err := Check(network, graph.Mode{}, []*Molecule{m})
				if err != nil || (r.Verdict == Pass) != (by == 1) {
					t.Errorf("%s exponent %v, forces times %v: %+v, %v", how, n, by, r, err)
				}
			}
		}
	}
}
