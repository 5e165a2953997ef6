package plan_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestMaxPool: windows of all kinds, at borders too, of numbers with NaN, infinities and
// zeros of both signs, as the definition has them.
func TestMaxPool(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	specials := []float64{0, math.Copysign(0, -1), fp16.NaN, math.Inf(1), math.Inf(-1), 1, -1}
	for _, attributes := range []string{
		`{"kernel_size": 3, "stride": 2, "padding": 1}`, `{"kernel_size": 2, "stride": 2}`,
		`{"kernel_size": 3, "stride": 1, "padding": 1}`,
		`{"kernel_size": [5, 2], "stride": [1, 3], "padding": [2, 1], "ceil_mode": true}`,
		`{"kernel_size": 3, "stride": 2, "dilation": 2, "padding": 1}`,
		`{"kernel_size": 1, "stride": 1}`, `{"kernel_size": 7, "stride": 4, "padding": 3, "ceil_mode": true}`,
	} {
		op, err := graph.Bind("max_pool2d", []byte(attributes))
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range [][2]int{{9, 11}, {7, 8}, {16, 30}} {
			g := graph.New(new(graph.Kept))
			g.Outputs = []int{g.Add(op, "pool", g.Input("x"))}
			x := tensor.New(fp16.Float32, 2, 11, size[0], size[1])
			for i := range x.Data {
				if x.Data[i] = fp16.Float32.Round(r.NormFloat64()); r.IntN(3) == 0 {
					x.Data[i] = specials[r.IntN(len(specials))]
				}
			}
			mode := graph.Mode{Precision: fp16.Float32}
			p, err := plan.New(g, mode, graph.Type{Shape: x.Shape, Format: x.Format})
			if err != nil {
				t.Fatal(err)
			}
			program, err := g.Infer(mode, graph.Type{Shape: x.Shape, Format: x.Format})
			if err != nil {
				t.Fatal(err)
			}
			got := tensor.New(fp16.Float32, p.Type(0).Shape...)
			if err := p.Run(nil, noise.Time{}, []*tensor.Tensor{got}, []*tensor.Tensor{x}); err != nil {
				t.Fatal(err)
			}
			want, err := program.Run(new(graph.Run), x)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range want[0].Data {
				if math.Float64bits(got.Data[i]) != math.Float64bits(v) {
					t.Fatalf("%s of %v: element %d is %v, want %v", attributes, size, i, got.Data[i], v)
				}
			}
		}
	}
}
