package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestPieces: what follows a product element by element is done with pieces of it, and changes
// no bit: vectors, numbers and other tensors on either side, activations, views between them, in
// every mode, of products with a constant matrix and without one, and of so few columns that
// they become rows.
func TestPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for trial := range 40 {
		batch, rows, k, n := 1+r.IntN(3), 1+r.IntN(60), 1+r.IntN(300), 1+r.IntN(200)
		if trial%4 == 0 {
			n = 1 + r.IntN(10)
		}
		g := graph.New(new(graph.Kept))
		op := func(name, attributes string, in ...int) int {
			return g.Add(bound(name, attributes), fmt.Sprint(name, len(g.Nodes)), in...)
		}
		constant := func(shape ...int) int { return g.Constant("w", random(r, fp16.Float32, shape...)) }
		x, w, skip := g.Input("x"), g.Input("w"), 0
		skip = op("relu", "", op("matmul", "", x, constant(k, n))) // a tensor that is there before
		var y int
		if trial%2 == 0 {
			y = op("linear", "", x, constant(n, k), constant(n))
		} else {
			y = op("matmul", "", x, op("tanh", "", w))
		}
		joined := 2
		for range 1 + r.IntN(4) {
			joined++
			switch r.IntN(7) {
			case 0:
				y = op("add", "", constant(n), y)
			case 1:
				y = op("mul", "", y, constant(1))
			case 2:
				y = op("sub", "", constant(1, 1, n), y)
			case 3:
				y = op("gelu", "", y)
			case 4:
				y = op("add", "", y, skip)
			case 5:
				y = op("div", "", y, constant(n))
			default:
				y = op("reshape", fmt.Sprintf(`{"shape": [%d, %d, %d]}`, batch, rows, n), op("unsqueeze", `{"dim": [0]}`, y))
			}
		}
		g.Outputs = []int{y}
		of := graph.Type{Shape: []int{batch, rows, k}, Format: fp16.Float32}
		ofW := graph.Type{Shape: []int{batch, k, n}, Format: fp16.Float32}
		in := random(r, fp16.Float32, of.Shape...)
		both := []*tensor.Tensor{in, random(r, fp16.Float32, ofW.Shape...)}
		if trial%5 == 0 {
			in.Data[r.IntN(len(in.Data))] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)]
		}
		for _, mode := range []graph.Mode{
			{Precision: fp16.Float32},
			{Precision: fp16.Float32, Fast: true},
			{Precision: fp16.BFloat16, Autocast: graph.CPU2},
			{Precision: fp16.Float16, Autocast: graph.CUDA2},
			{Precision: fp16.TF32},
		} {
			p, err := plan.New(g, mode, of, ofW)
			if err != nil {
				t.Fatal(err)
			}
			program, err := g.Infer(mode, of, ofW)
			if err != nil {
				t.Fatal(err)
			}
			finite := true
			want, err := program.Run(&graph.Run{Seen: func(_ int, t *tensor.Tensor) {
				for _, v := range t.Data {
					finite = finite && v-v == 0
				}
			}}, both...)
			if err != nil {
				t.Fatal(err)
			}
			out := []*tensor.Tensor{tensor.New(p.Type(0).Format, p.Type(0).Shape...)}
			for _, p.Watch = range []bool{false, true} {
				if err := p.Run(nil, noise.Time{}, out, both); err != nil {
					t.Fatal(err)
				}
				for i, v := range want[0].Data {
					if math.Float64bits(out[0].Data[i]) != math.Float64bits(v) {
						t.Fatalf("trial %d, %v: element %d is %v, want %v", trial, mode, i, out[0].Data[i], v)
					}
				}
			}
			if p.Nonfinite() == finite {
				t.Errorf("trial %d, %v: Nonfinite is %v", trial, mode, p.Nonfinite())
			}
			passes := map[int]int{}
			for _, n := range p.Nodes() {
				passes[n.Pass]++
			}
			if most := passes[p.Nodes()[len(p.Nodes())-1].Pass]; mode.Precision == fp16.Float32 && most < 2 {
				t.Errorf("trial %d, %v: %d operations of the last pass, of %d", trial, mode, most, joined)
			}
		}
	}
}
