// Package gradient holds what backward kernels return to what right ones may: the gradients of an operation, or of a
// graph of them, by its inputs.
//
//	g, order, err := gradient.Kernel("layer_norm", []byte(`{"normalized_shape": [256]}`),
//		[]string{"input", "weight", "bias"})
//	r, err := gradient.Check(gradient.Question{Graph: g, Inputs: in, GradOutputs: []*tensor.Tensor{dy},
//		Grads: map[string]*tensor.Tensor{"input": dx, "weight": dw, "bias": db}})
//
// A gradient is a graph of ordinary operations, which package grad makes of the forward's, in each of the forms that
// kernels have. All gradients are the outputs of that graph, judged as several outputs of one kernel.
package gradient

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/grad"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// Question is what a backward kernel was given, and the gradients that it returned.
type Question struct {
	Graph       *graph.Graph              // of the forward pass
	Inputs      []*tensor.Tensor          // of it, as the kernel had them
	GradOutputs []*tensor.Tensor          // by output of the graph
	Grads       map[string]*tensor.Tensor // by the name of an input
	// Saved is what the kernel read of the forward pass and did not compute again: values of the graph by their names,
	// mean and rstd of a norm, lse of an attention. See [grad.Backward].
	Saved   map[string]*tensor.Tensor
	Claimed *judge.Contract // nil to find out
	Double  bool            // whether the kernel computes in float64
}

// Check answers. An operation without a gradient that is known is NO-POWER, in one line.
func Check(q Question) (*judge.SeveralReport, error) {
	names, err := q.names()
	if err != nil {
		return nil, err
	}
	s := judge.Several{Names: names, Claimed: q.Claimed, WideSums: true, Attends: true, Double: q.Double}
	for _, n := range names {
		s.Outputs = append(s.Outputs, q.Grads[n])
	}
	if s.Graphs, err = q.graphs(names); err != nil {
		var refused grad.Unsupported
		if errors.As(err, &refused) {
			return q.unjudged(names, err), nil
		}
		return nil, err
	}
	s.Inputs, s.Wrong = q.given(), q.wrong(names)
	return judge.CheckSeveral(s)
}

// given are the inputs of the graph of the gradients.
func (q *Question) given() []*tensor.Tensor {
	all := slices.Concat(q.Inputs, q.GradOutputs)
	for _, name := range slices.Sorted(maps.Keys(q.Saved)) {
		all = append(all, q.Saved[name])
	}
	return all
}

// unjudged is the report where a gradient is not known.
func (q *Question) unjudged(names []string, why error) *judge.SeveralReport {
	r := &judge.SeveralReport{Verdict: judge.NoPower, Reason: why.Error()}
	for _, n := range names {
		y := q.Grads[n]
		r.Outputs = append(r.Outputs, judge.Row{Name: n, Report: &judge.Report{Verdict: judge.NoPower,
			Store: y.Format.String(), Elements: len(y.Data), Reason: why.Error(), Unjudged: why.Error()}})
	}
	return r
}

// names are the inputs whose gradients were returned, in their order, after all that was given fits.
func (q *Question) names() (names []string, err error) {
	if len(q.Inputs) != len(q.Graph.Inputs) {
		return nil, fmt.Errorf("%d inputs: want %d", len(q.Inputs), len(q.Graph.Inputs))
	}
	var known []string
	for k, v := range q.Graph.Inputs {
		name := q.Graph.Values[v].Name
		known = append(known, name)
		d := q.Grads[name]
		if d == nil {
			continue
		}
		switch x := q.Inputs[k]; {
		case x.Format == fp16.Int64:
			return nil, fmt.Errorf("grad.%s: %s has whole numbers: they have no gradient", name, name)
		case !slices.Equal(d.Shape, x.Shape):
			return nil, fmt.Errorf("grad.%s of shape %v: want %v, that of %s", name, d.Shape, x.Shape, name)
		}
		names = append(names, name)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Grads)) {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("grad.%.60s: no input has that name: want one of %.200s", name, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no gradient: want grad.NAME of one or more of %.200s", strings.Join(known, ", "))
	}
	return names, nil
}

// graphs are those of the gradients, in each form.
func (q *Question) graphs(names []string) (all []*graph.Graph, err error) {
	types := typesOf(q.Inputs)
	m := graph.Mode{Precision: fp16.Float64}
	p, err := q.Graph.Infer(m, types...)
	if err != nil {
		return nil, err
	}
	if len(q.GradOutputs) != len(q.Graph.Outputs) {
		return nil, fmt.Errorf("%d gradients by outputs: want %d", len(q.GradOutputs), len(q.Graph.Outputs))
	}
	for k, v := range q.Graph.Outputs {
		name, d := grad.OutputName(k, len(q.GradOutputs)), q.GradOutputs[k]
		if d == nil {
			return nil, fmt.Errorf("no %s: want the gradient by the output", name)
		}
		if want := p.Type(v).Shape; !slices.Equal(d.Shape, want) {
			return nil, fmt.Errorf("%s of shape %v: want %v, that of the output", name, d.Shape, want)
		}
	}
	a := grad.Ask{Of: q.Graph.Outputs}
	for _, v := range q.Graph.Inputs {
		if slices.Contains(names, q.Graph.Values[v].Name) {
			a.By = append(a.By, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Saved)) {
		a.Saved = append(a.Saved, grad.Saved{Name: name, Shape: q.Saved[name].Shape})
	}
	for _, a.Form = range grad.Forms(q.Graph) {
		d, err := grad.Backward(q.Graph, m, a, types...)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(o *graph.Graph) bool { return reflect.DeepEqual(o, d) }) {
			all = append(all, d)
		}
	}
	return all, nil
}

// typesOf are the types of tensors in exact arithmetic.
func typesOf(in []*tensor.Tensor) (types []graph.Type) {
	for _, x := range in {
		f := fp16.Float64
		if x.Format == fp16.Int64 {
			f = fp16.Int64
		}
		types = append(types, graph.Type{Shape: x.Shape, Format: f})
	}
	return types
}
