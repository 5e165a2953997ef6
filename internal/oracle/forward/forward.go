package forward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// Question is one evaluation of a network on a device.
type Question struct {
	Name   string // of the network, for the report
	Graph  *graph.Graph
	Inputs []*tensor.Tensor // of the graph, as the device had them
	Claim  Claim
	// Outputs are the device's outputs, in the order of the graph's, in the format in which it stores
	// them; nil for one that is not known.
	Outputs []*tensor.Tensor
	// Layers are the device's numbers of other values of the graph, by the number of the value.
	Layers map[int]*tensor.Tensor
	// Budget is the time after which no further piece is judged. The report names what is left out.
	// 0 is no limit.
	Budget time.Duration
	// Progress, if not nil, is called after each piece.
	Progress func(done, all int)

	halves []bool // by value, see half
}

// Check judges. Numbers of other shapes than the graph's, and a network that the claim's autocast refuses,
// are errors. It returns early with the context's error when that is done.
func Check(ctx context.Context, q Question) (*report.Report, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	q.Claim.native = q.Claim.Pure && q.recordedIn(q.Claim.Half)
	pieces, err := q.pieces(q.recordings())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	f := &findings{q: &q, r: &report.Report{FirstStep: -1, FirstRealization: -1, Claim: q.Claim.String(),
		Subject: q.subject(), Noise: report.NoiseReport{Stream: "none"}}}
	for i := range pieces {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := &pieces[i]
		switch {
		case p.got == nil:
			f.leave(p, errors.New("the device's numbers are missing"))
		case q.Budget > 0 && f.judged > 0 && time.Since(began) > q.Budget:
			f.leave(p, errors.New("the budget was spent"))
		default:
			f.add(p, q.judge(p))
		}
		if q.Progress != nil {
			q.Progress(i+1, len(pieces))
		}
	}
	return f.conclude(), nil
}

// recordedIn reports whether a network was recorded in a format: an input or a constant is of it.
func (q *Question) recordedIn(f fp16.Format) bool {
	of := func(t *tensor.Tensor) bool { return t != nil && t.Format == f }
	return slices.ContainsFunc(q.Inputs, of) ||
		slices.ContainsFunc(q.Graph.Values, func(v graph.Value) bool { return of(v.Const) })
}

// check refuses numbers that are not the graph's.
func (q *Question) check() error {
	if len(q.Inputs) != len(q.Graph.Inputs) {
		return fmt.Errorf("%d inputs: want %d", len(q.Inputs), len(q.Graph.Inputs))
	}
	types := make([]graph.Type, len(q.Inputs))
	for i, x := range q.Inputs {
		types[i] = graph.Type{Shape: x.Shape, Format: x.Format}
	}
	p, err := q.Graph.Infer(q.Claim.Given(), types...)
	if err != nil {
		return err
	}
	known := 0
	for _, r := range q.recordings() {
		if r.got == nil {
			continue
		}
		want := p.Type(r.value)
		if !slices.Equal(want.Shape, r.got.Shape) {
			return fmt.Errorf("%s: numbers of shape %v: want %v", r.name, r.got.Shape, want.Shape)
		}
		if (want.Format == fp16.Int64) != (r.got.Format == fp16.Int64) {
			return fmt.Errorf("%s: %v numbers: want %v", r.name, r.got.Format, want.Format)
		}
		if double := fp16.Float64; q.Claim.Mode.Precision == double && want.Format == double && r.got.Format != double {
			return fmt.Errorf("%s: %v numbers: want float64, as is claimed", r.name, r.got.Format)
		}
		known++
	}
	if known == 0 {
		return fmt.Errorf("no numbers of the device: want its outputs")
	}
	return nil
}

// subject describes the network by its operations, the most frequent first.
func (q *Question) subject() string {
	count := map[string]int{}
	for i := range q.Graph.Nodes {
		count[q.Graph.Nodes[i].Op.Name()]++
	}
	names := make([]string, 0, len(count))
	for n := range count {
		names = append(names, n)
	}
	slices.SortStableFunc(names, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	var s []string
	for _, n := range names[:min(len(names), mostNames)] {
		s = append(s, fmt.Sprintf("%d %s", count[n], n))
	}
	if len(names) > mostNames {
		s = append(s, "...")
	}
	return fmt.Sprintf("%s: %d operations: %s; one evaluation", q.Name, len(q.Graph.Nodes), strings.Join(s, ", "))
}
