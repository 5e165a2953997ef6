package judge

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestTermsAddUp: the terms of a product of whole numbers add up to it, whatever lies in which order in memory.
func TestTermsAddUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op, attributes string
		x              [][]int
	}{
		{"mm", "", [][]int{{3, 5}, {5, 4}}},
		{"bmm", "", [][]int{{2, 3, 5}, {2, 5, 4}}},
		{"matmul", "", [][]int{{2, 1, 3, 5}, {4, 5, 2}}},
		{"matmul", "", [][]int{{5}, {2, 5, 3}}},
		{"matmul", "", [][]int{{2, 3, 5}, {5}}},
		{"linear", "", [][]int{{2, 3, 5}, {4, 5}, {4}}},
		{"addmm", `{"beta": 2, "alpha": 1}`, [][]int{{4}, {3, 5}, {5, 4}}},
		{"addmm", `{"beta": 1, "alpha": 4}`, [][]int{{4}, {3, 5}, {5, 4}}},
		{"gemm", `{"alpha": 1, "beta": 1, "transA": true, "transB": true}`, [][]int{{5, 3}, {4, 5}, {4}}},
		{"conv2d", `{"stride": 2, "padding": 1}`, [][]int{{2, 3, 5, 6}, {4, 3, 3, 2}, {4}}},
		{"conv2d", `{"groups": 2, "dilation": 2}`, [][]int{{2, 4, 5, 6}, {6, 2, 2, 2}}},
		{"conv1d", `{"groups": 4, "padding": 1}`, [][]int{{2, 4, 7}, {4, 1, 3}}},
		{"conv_transpose2d", `{"groups": 2, "stride": 2}`, [][]int{{2, 4, 3, 4}, {4, 3, 2, 3}, {6}}},
	} {
		op, err := graph.Bind(c.op, []byte(c.attributes))
		if err != nil {
			t.Fatal(err)
		}
		r, x := rand.New(rand.NewPCG(1, 2)), []*tensor.Tensor(nil)
		for _, shape := range c.x {
			y := tensor.New(fp16.Float64, shape...)
			for i := range y.Data {
				y.Data[i] = float64(r.IntN(19) - 9)
			}
			x = append(x, y)
		}
		want, err := one(op, x...)
		if err != nil {
			t.Fatalf("%s: %v", c.op, err)
		}
		a := summandsOf(op, x, want.Shape)
		got, err := a.sum(x, fp16.Float64, order(a.n, 1, nil), 1)
		if err != nil || a.n < 2 || !slices.Equal(got.Data, want.Data) {
			t.Errorf("%s %s: %d terms add up to %v, %v: want %v", c.op, c.attributes, a.n, got, err, want)
		}
	}
}
