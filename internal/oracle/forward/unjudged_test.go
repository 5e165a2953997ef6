package forward_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/randgraph"
	"github.com/refrun/refrun/internal/oracle/forward"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// beside is a network of one random node of an operation and, beside it, a layer that is right: what a device
// returned of both.
func beside(t *testing.T, name string, seed uint64) forward.Question {
	t.Helper()
	c := randgraph.Of(name, seed)
	q := forward.Question{Graph: c.Graph, Inputs: c.Inputs(0),
		Claim: forward.Claim{Mode: graph.Mode{Precision: fp16.Float32}}, Layers: map[int]*tensor.Tensor{}}
	outputs := len(c.Graph.Outputs)
	double, err := graph.Bind("mul", []byte(`{"other": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	x := c.Graph.Input("beside")
	q.Inputs = append(q.Inputs, tensor.Of(fp16.Float32, []float64{1, 2, 3.5}, 3))
	layer := c.Graph.Add(double, "layer", x)
	c.Graph.Outputs = append(c.Graph.Outputs, layer)
	types := append(c.Types, graph.Type{Shape: []int{3}, Format: fp16.Float32})
	p, err := c.Graph.Infer(graph.Mode{Precision: fp16.Float32}, types...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(new(graph.Run), q.Inputs...)
	if err != nil {
		t.Fatal(err)
	}
	c.Graph.Outputs = c.Graph.Outputs[:outputs]
	q.Outputs, q.Layers[layer] = out[:outputs], out[outputs]
	return q
}

// wrongs are what a device may return in place of an output: the same number everywhere, and one that is NaN
// or infinite where the right one is finite.
func wrongs(right *tensor.Tensor) (all []*tensor.Tensor) {
	of := func(change func(data []float64) bool) {
		t := right.Clone()
		if change(t.Data) {
			all = append(all, t)
		}
	}
	of(func(data []float64) bool {
		some := slices.ContainsFunc(data, func(v float64) bool { return v != 7 })
		for i := range data {
			data[i] = 7
		}
		return some
	})
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		of(func(data []float64) bool {
			i := slices.IndexFunc(data, func(v float64) bool { return v-v == 0 })
			if i >= 0 {
				data[i] = v
			}
			return i >= 0 && right.Format != fp16.Int64
		})
	}
	return all
}

// TestUnjudged: whatever operation makes an output, and whether or not it is known what right devices return
// of it, the network does not pass with a wrong output, one that is missing, or one that the budget left out,
// because a layer beside it is right. What was left out stands first.
func TestUnjudged(t *testing.T) {
	ask := func(q forward.Question) *report.Report {
		t.Helper()
		r, err := forward.Check(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	right, wrong := 0, 0
	for _, name := range randgraph.Names() {
		q := beside(t, name, 1)
		if r := ask(q); r.Verdict.Failed() || r.Verdict.Passed() && len(r.Unjudged) > 0 {
			t.Errorf("%s: right: %s with %q: %s", name, r.Verdict, r.Unjudged, r.Reason)
		}
		right++
		for k, y := range q.Outputs {
			for _, bad := range wrongs(y) {
				ask := q
				ask.Outputs = slices.Clone(q.Outputs)
				ask.Outputs[k] = bad
				r, err := forward.Check(context.Background(), ask)
				if err != nil || r.Verdict.Passed() {
					t.Errorf("%s: output %d: %s %v: %s", name, k, r.Verdict, err, r.Reason)
				}
				wrong++
			}
			if y.Format != fp16.Int64 && len(y.Shape) > 0 {
				reshaped := q
				reshaped.Outputs = slices.Clone(q.Outputs)
				reshaped.Outputs[k] = tensor.Of(y.Format, y.Data, append([]int{1}, y.Shape...)...)
				reshaped.Layers = map[int]*tensor.Tensor{q.Graph.Outputs[k]: y}
				if r, err := forward.Check(context.Background(), reshaped); err == nil {
					t.Errorf("%s: output %d of another shape: %s: %s", name, k, r.Verdict, r.Reason)
				}
			}
			missing := q
			missing.Outputs = slices.Clone(q.Outputs)
			missing.Outputs[k] = nil
			if r := ask(missing); r.Verdict != report.NoPower || !strings.HasPrefix(r.Reason, "Not judged: ") {
				t.Errorf("%s: output %d is missing: %s: %s", name, k, r.Verdict, r.Reason)
			}
		}
		q.Budget = time.Nanosecond
		if r := ask(q); r.Verdict != report.NoPower || len(r.Unjudged) == 0 {
			t.Errorf("%s: no time: %s: %s", name, r.Verdict, r.Reason)
		}
	}
	t.Logf("%d right, %d wrong", right, wrong)
}

// TestHandedOn: an output that is an input, a constant, or another output again is judged as any other.
func TestHandedOn(t *testing.T) {
	g := graph.New(nil)
	x, c := g.Input("x"), g.Constant("c", tensor.Of(fp16.Float32, []float64{4, 5, 6}, 3))
	sum := g.Add(graph.Addition, "sum", x, c)
	g.Outputs = []int{sum, x, c, sum}
	in := tensor.Of(fp16.Float32, []float64{1, 2, 3.5}, 3)
	y := tensor.Of(fp16.Float32, []float64{5, 7, 9.5}, 3)
	right := []*tensor.Tensor{y, in, tensor.Of(fp16.Float32, []float64{4, 5, 6}, 3), y}
	q := forward.Question{
		Graph: g, Inputs: []*tensor.Tensor{in}, Claim: forward.Claim{Mode: graph.Mode{Precision: fp16.Float32}},
	}
	for k := -1; k < len(right); k++ {
		q.Outputs = slices.Clone(right)
		if k >= 0 {
			q.Outputs[k] = tensor.Of(fp16.Float32, []float64{7, 7, 7}, 3)
		}
		r, err := forward.Check(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict.Passed() != (k < 0) {
			t.Errorf("output %d wrong: %s: %s", k, r.Verdict, r.Reason)
		}
	}
}
