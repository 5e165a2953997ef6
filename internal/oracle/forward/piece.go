package forward

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/internal/oracle/part"
	"github.com/refrun/refrun/tensor"
)

// piece is a part of a network that ends with a value of which a device's numbers are known, and
// begins with such values, or inputs.
type piece struct {
	recording
	graph  *graph.Graph
	from   []int // the values of the network that are its inputs
	inputs []*tensor.Tensor
}

// recording is what a device returned of a value of the network.
type recording struct {
	value  int
	name   string
	output bool           // of the network
	got    *tensor.Tensor // nil of an output that is not known
}

// recordings are all that has to be judged, in the order in which the network makes it: each of its outputs,
// whether it is known or not, and each layer.
func (q *Question) recordings() (all []recording) {
	at := make([]int, len(q.Graph.Values))
	for i := range q.Graph.Nodes {
		for _, v := range q.Graph.Nodes[i].Out {
			at[v] = i + 1
		}
	}
	for v, t := range q.Layers {
		all = append(all, recording{v, q.Graph.Values[v].Name, slices.Contains(q.Graph.Outputs, v), t})
	}
	for k, v := range q.Graph.Outputs {
		r := recording{v, q.Graph.Values[v].Name, true, nil}
		if k < len(q.Outputs) {
			r.got = q.Outputs[k]
		}
		layer := q.Layers[v]
		if layer == nil || r.got != nil && !(slices.Equal(r.got.Shape, layer.Shape) && slices.Equal(r.got.Data, layer.Data)) {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b recording) int { return cmp.Or(at[a.value]-at[b.value], a.value-b.value) })
	return all
}

// pieces cuts a network at the values of which numbers are known, one piece for each recording. Outputs
// may lie on the way to each other: without layers each is judged from the inputs on.
func (q *Question) pieces(all []recording) ([]piece, error) {
	known := map[int]*tensor.Tensor{}
	for _, r := range all {
		if r.got != nil && len(q.Layers) > 0 {
			known[r.value] = r.got
		}
	}
	for k, v := range q.Graph.Inputs {
		known[v] = q.Inputs[k]
	}
	pieces := make([]piece, len(all))
	for i, r := range all {
		p, err := q.piece(r, known)
		if err != nil {
			return nil, err
		}
		pieces[i] = *p
	}
	return pieces, nil
}

// piece returns the part of the network that makes a value of known ones.
func (q *Question) piece(r recording, known map[int]*tensor.Tensor) (*piece, error) {
	of, err := part.To(q.Graph, r.value, func(v int) bool { return known[v] != nil })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	p := &piece{recording: r, graph: of.Graph, from: of.From}
	for _, v := range p.from {
		p.inputs = append(p.inputs, known[v])
	}
	return p, nil
}

// answer is what was found of a piece.
type answer struct {
	*judge.Report
	contract lower.Contract
	err      error // why nothing is held against the device's numbers; with a report, their errors are known
}

// judge holds a piece against the contracts of a claim: the claim's own, and others if it does not keep
// that, or if it is not near it. Why it fails is asked once, under the claim's own, if it keeps none.
func (q *Question) judge(p *piece) answer {
	if p.got.Format == fp16.Int64 {
		equal, unknown := p.equal(), func(n graph.Node) bool { return !judge.Knows(n.Op) }
		if equal.err != nil || equal.Verdict == judge.Pass || slices.ContainsFunc(p.graph.Nodes, unknown) {
			return equal
		}
	}
	var best answer
	contracts := q.Claim.rules().Contracts(p.graph)
	for i, k := range contracts {
		r, err := q.under(p, k, len(contracts) > 1)
		if err != nil {
			if i == 0 {
				return answer{err: err}
			}
			continue
		}
		a := answer{Report: r, contract: k}
		if best.Report == nil || better(a, best) {
			best = a
		}
		if best.Verdict != judge.Fail && !(q.whole(p) && 2*best.Flips > best.Elements) {
			break
		}
	}
	if best.Verdict != judge.Fail || len(contracts) == 1 {
		return best
	}
	if errors, is := q.usual(p, contracts[0]); is {
		return answer{Report: &judge.Report{Verdict: judge.NoPower, Errors: errors}, err: errUsual}
	}
	best.Report, best.err = q.under(p, best.contract, false)
	return best
}

var errUsual = errors.New("it was not found which results the device rounds, and its errors are no larger " +
	"than the claim's: record its layers")

// usual reports whether a device that keeps no contract may be right all the same: right devices round different
// results of many operations, so that its contract may not have been tried, and its errors are no larger than those of
// the claim's own. It returns their mean square over what is expected.
func (q *Question) usual(p *piece, own lower.Contract) (float64, bool) {
	if len(p.graph.Nodes) <= mostSearched {
		return 0, false
	}
	m := judge.Many{N: 1, At: func(int) (judge.Question, error) {
		ask, err := q.ask(p, own)
		ask.Truth = p.exact
		return ask, err
	}}
	plain, err := m.Plain(0)
	if err != nil {
		return 0, false
	}
	j, err := m.Under(plain)
	if err != nil {
		return 0, false
	}
	return j.Each[0].Squares, j.Each[0].Usual()
}

// equal holds whole numbers and truths to what exact arithmetic makes of the device's own numbers.
func (p *piece) equal() answer {
	want, err := lower.Exact(p.graph, p.inputs, nil)
	if err != nil {
		return answer{err: err}
	}
	r := &judge.Report{Verdict: judge.Pass, Store: p.got.Format.String(), Elements: len(want)}
	for i, v := range want {
		if p.got.Data[i] != v {
			r.Violations++
		}
	}
	if r.Flips = r.Violations; r.Violations > 0 {
		r.Verdict, r.Reason = judge.Fail, fmt.Sprintf("%d of %d whole numbers are others", r.Violations, r.Elements)
	}
	return answer{Report: r}
}

// better reports whether an answer under a later contract is better than one under an earlier one: the
// earlier one fails, or the device is far nearer to the later one's numbers.
func better(a, than answer) bool {
	if (a.Verdict == judge.Fail) != (than.Verdict == judge.Fail) {
		return a.Verdict != judge.Fail
	}
	return a.Verdict != judge.Fail && a.Off < farNearer*than.Off
}

// whole reports whether a piece is the network and not a layer of it.
func (q *Question) whole(*piece) bool { return len(q.Layers) == 0 }

// under judges a piece under a contract; briefly is without causes.
func (q *Question) under(p *piece, k lower.Contract, briefly bool) (*judge.Report, error) {
	ask, err := q.ask(p, k)
	if err != nil {
		return nil, err
	}
	ask.Brief = briefly
	if _, half := q.Claim.rules().Narrow(); half && len(ask.Graph.Nodes) <= 2 && k.Name == "" {
		ask.Written = false // what else kernels round is looked for
	} else if q.Claim.Mode.Precision == fp16.TF32 {
		ask.Operands = "tf32"
	}
	return judge.Check(ask)
}

// ask asks whether a device has of a piece what a contract makes of its inputs.
func (q *Question) ask(p *piece, k lower.Contract) (judge.Question, error) {
	types := make([]graph.Type, len(p.inputs))
	inputs := slices.Clone(p.inputs)
	for i, x := range inputs {
		if f, half := q.Claim.rules().Narrow(); half && x.Format != fp16.Int64 && x.Format != f && (q.Claim.Pure &&
			!q.Claim.native || !slices.Contains(q.Graph.Inputs, p.from[i]) && q.half(p.from[i]) && holds(f, x.Data)) {
			x = lower.Rounded(x, f)
			inputs[i] = x
		}
		types[i] = graph.Type{Shape: x.Shape, Format: x.Format}
	}
	got := p.got
	if f, half := q.Claim.rules().Narrow(); half && got.Format == fp16.Float32 && q.half(p.value) && holds(f, got.Data) {
		got = lower.Rounded(got, f) // a file without such numbers
	}
	g, err := q.Claim.rules().Lower(p.graph, types, k, got.Format)
	if err != nil {
		return judge.Question{}, err
	}
	ask := judge.Question{Graph: g, Inputs: inputs, Output: got, Narrow: fp16.Float32, Written: true,
		Shallow: len(g.Nodes) > mostSearched}
	if f, half := q.Claim.rules().Narrow(); half {
		ask.Narrow = f
	}
	ask.Double = q.Claim.Mode.Precision == fp16.Float64
	return ask, nil
}

// half reports whether the claim has a value in its half precision: then numbers of it that a file has in float32 are
// that device's. Others may happen to be numbers of it, and are not.
func (q *Question) half(v int) bool {
	if q.halves == nil {
		g, types := q.Claim.rules().Stored(q.Graph), make([]graph.Type, len(q.Inputs))
		for i, x := range q.Inputs {
			types[i] = graph.Type{Shape: x.Shape, Format: x.Format}
			if q.Claim.Pure && !q.Claim.native && x.Format != fp16.Int64 {
				types[i].Format = q.Claim.Half
			}
		}
		q.halves = make([]bool, len(g.Values))
		p, err := g.Infer(q.Claim.Mode, types...)
		for v := range q.halves {
			q.halves[v] = err == nil && p.Type(v).Format.Half()
		}
	}
	return q.halves[v]
}

// holds reports whether numbers are all of a format.
func holds(f fp16.Format, v []float64) bool {
	for _, x := range v {
		if !f.Holds(x) {
			return false
		}
	}
	return true
}
