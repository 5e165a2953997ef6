package judge

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// TestSumsOfWholeNumbers: running sums of whole numbers, which say where half numbers are taken from, are exact where a
// kernel keeps its sums in a half type, too. Wrong numbers are a failure, and no error.
func TestSumsOfWholeNumbers(t *testing.T) {
	const n = 600         // more than bfloat16 counts
	const longer = n + 40 // a count that is wrong names a number, too
	g := graph.New(nil)
	mask, x := g.Input("mask"), g.Input("x")
	at := g.Add(graph.CumSum{}, "count", mask)
	one := -1.0
	at = g.Add(graph.Binary{Of: pointwise.Add, Other: &one}, "place", at)
	g.Outputs = []int{g.Add(graph.IndexSelect{}, "taken", x, at)}
	f := fp16.BFloat16
	ones, numbers := tensor.New(fp16.Int64, n), tensor.New(f, longer)
	for i := range longer {
		ones.Data[min(i, n-1)], numbers.Data[i] = 1, f.Round(float64(i%97)/3+1)
	}
	for _, claimed := range []*Contract{nil, {Form: Form{Accumulate: f.String()}}} {
		for _, c := range []struct {
			off  float64
			want string
		}{{0, Pass}, {1, Fail}} {
			out := tensor.Of(f, slices.Clone(numbers.Data[:n]), n)
			out.Data[500] += c.off
			r, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{ones, numbers}, Output: out, Claimed: claimed})
			if err != nil || r.Verdict != c.want {
				t.Errorf("claimed %v, off by %v: %+v, %v", claimed, c.off, r, err)
			}
		}
	}
}
