package judge

import (
	"errors"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestComputedIndex: nothing is held against what computed places choose, where another place is right as well. Where
// no other is, it is judged, although some faults take an index out of its range. The integers themselves are judged,
// wherever they are moved to.
func TestComputedIndex(t *testing.T) {
	table, of := tensor.New(fp16.Float32, 10), tensor.New(fp16.Float32, 4, 8)
	for i := range table.Data {
		table.Data[i] = float64(i) + .5
	}
	for i := range of.Data {
		of.Data[i] = float64(9 - i/8)
	}
	g := graph.New(nil)
	x := g.Input("table")
	mean := g.Add(graph.Reduction{Of: "mean", Axes: graph.Ints{1}}, "mean", g.Input("of"))
	index := g.Add(graph.Cast{Dtype: "int64"}, "index", mean)
	g.Outputs = []int{g.Add(graph.IndexSelect{}, "y", x, index)}
	y := tensor.Of(fp16.Float32, []float64{9.5, 8.5, 7.5, 6.5}, 4)
	_, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{table, of}, Output: y})
	if !errors.Is(err, ErrNotJudged) {
		t.Errorf("what places choose: %v", err)
	}
	for i := range of.Data { // far from another place
		of.Data[i] += .5
	}
	for _, want := range []string{Pass, Fail} {
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{table, of}, Output: y})
		if err != nil || a.Verdict != want {
			t.Errorf("places that are certain: %+v, %v: want %s", a, err, want)
		}
		y.Data[2]++
	}
	for i := range of.Data {
		of.Data[i] -= .5
	}
	g = graph.New(nil)
	mean = g.Add(graph.Reduction{Of: "mean", Axes: graph.Ints{1}}, "mean", g.Input("of"))
	index = g.Add(graph.Cast{Dtype: "int64"}, "index", mean)
	g.Outputs = []int{g.Add(graph.Reshape{Shape: graph.Ints{2, 2}}, "y", index)}
	for _, c := range []struct {
		first float64
		want  string
	}{{9, Pass}, {8, Pass}, {7, Fail}} {
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{of},
			Output: tensor.Of(fp16.Int64, []float64{c.first, 8, 7, 6}, 2, 2)})
		if err != nil || a.Verdict != c.want {
			t.Errorf("%v: %+v, %v", c.first, a, err)
		}
	}
}
