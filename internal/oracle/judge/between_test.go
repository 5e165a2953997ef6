package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestBetween: of evaluations whose errors are of one size three are simulated, and of others more. A wrong one is
// found wherever it is, and all before it are right.
func TestBetween(t *testing.T) {
	const n, width = 33, 256
	single := fp16.Float32.Round
	r := rand.New(rand.NewPCG(5, 8))
	weight := drawn(r, fp16.Float32, 16, 16)
	at := func(i int, grows float64, wrong int) Question {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		in := drawn(r, fp16.Float32, width, 16)
		size := math.Exp2(math.Round(grows * float64(i)))
		out := tensor.New(fp16.Float32, width, 16)
		for k := range in.Data {
			in.Data[k] *= size
		}
		for row := range width {
			for c := range 16 {
				sum := 0.0
				for k := range 16 {
					sum = single(sum + single(in.Data[row*16+k]*weight.Data[k*16+c]))
				}
				if i == wrong {
					sum = single(sum * (1 + 0x1p-17))
				}
				out.Data[row*16+c] = sum
			}
		}
		g := graph.New(new(graph.Kept))
		g.Outputs = []int{g.Add(graph.MatMul{}, "product", g.Input("x"), g.Constant("w", weight))}
		return Question{Graph: g, Inputs: []*tensor.Tensor{in}, Output: out, Written: true, Narrow: fp16.Float32}
	}
	for _, c := range []struct {
		grows          float64
		wrong          int
		fewest, mostOf int
	}{{0, -1, 3, 3}, {0, 5, 4, 6}, {0, 20, 4, 6}, {.5, -1, 9, n}, {.5, 13, 9, n}} {
		m := &Many{N: n, At: func(i int) (Question, error) { return at(i, c.grows, c.wrong), nil }}
		plain, err := m.Plain(0)
		if err != nil {
			t.Fatal(err)
		}
		j, err := m.Under(plain)
		if err != nil {
			t.Fatal(err)
		}
		if simulated := len(j.of.scales); j.First() != c.wrong || simulated < c.fewest || simulated > c.mostOf {
			t.Errorf("%+v: first wrong %d, %d simulated", c, j.First(), simulated)
		}
	}
}
