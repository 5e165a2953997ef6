package rollout

import (
	"fmt"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// GraphRun takes the steps of a case's graph, one realization after the other.
type GraphRun struct {
	*StepGraph
	Case *Case
	Mode graph.Mode

	types  string // that the program and the plan are for
	p      *graph.Program
	plan   *plan.Plan // nil if there is none
	values int64      // bytes that a step makes, at most
}

// Apply makes the next states of the inputs.
func (r *GraphRun) Apply(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if err := r.prepare(in); err != nil {
		return nil, err
	}
	if r.plan == nil {
		return r.p.Run(new(graph.Run), in...)
	}
	var out []*tensor.Tensor
	for _, v := range r.Network.Graph.Outputs {
		out = append(out, tensor.New(r.p.Type(v).Format, r.p.Type(v).Shape...))
	}
	return out, r.plan.Run(nil, noise.Time{}, out, in)
}

// prepare infers and compiles for inputs of other types than the last ones: states of half types are float32 at first.
func (r *GraphRun) prepare(in []*tensor.Tensor) (err error) {
	types, g := make([]graph.Type, len(in)), r.Network.Graph
	for i, x := range in {
		types[i] = graph.Type{Shape: x.Shape, Format: x.Format}
	}
	if of := fmt.Sprint(types); of != r.types {
		if r.p, err = g.Infer(r.Mode, types...); err != nil {
			return err
		}
		r.types, r.plan, r.values = of, nil, 0
		for i := range g.Nodes {
			for _, v := range g.Nodes[i].Out {
				r.values += r.p.Type(v).Bytes()
			}
		}
		if r.Mode.Precision != fp16.Float64 {
			if r.plan, err = plan.New(g, r.Mode, types...); err != nil {
				return err
			}
		}
	}
	return nil
}

// Products is how many multiplications the last step had.
func (r *GraphRun) Products() int64 { return r.p.Products() }

// StepInputs are those of step t of realization m, of states that state gives: i at a time, which is negative before
// the first one.
func (r *GraphRun) StepInputs(m, t int, state func(i, t int) ([]float64, error)) ([]*tensor.Tensor, error) {
	in := make([]*tensor.Tensor, len(r.Inputs))
	for k, of := range r.Inputs {
		var err error
		if of.Kind != "state" {
			if in[k], err = r.Given(k, m, t); err != nil {
				return nil, err
			}
			continue
		}
		formats, err := r.Formats(r.Mode, max(0, t-1-of.Age))
		if err != nil {
			return nil, err
		}
		x, err := state(of.State, t-1-of.Age)
		if err != nil {
			return nil, err
		}
		in[k] = tensor.Of(formats[of.State], x, of.Shape...)
	}
	return in, nil
}

// packed is how many numbers a position of the rollout has: of all states, and then of those before them.
func (r *GraphRun) packed() (n int) {
	for _, s := range r.States {
		n += (1 + s.Past) * tensor.Size(s.Shape)
	}
	return n
}

// shown is how many of them are the last states: the first numbers.
func (r *GraphRun) shown() (n int) {
	for _, s := range r.States {
		n += tensor.Size(s.Shape)
	}
	return n
}

// parts are the states that an output has, nil of one without a name.
func (e *Engine) parts() (all []part) {
	if e.Graph == nil || len(e.Graph.States) == 1 && e.Graph.States[0].Name == "" {
		return nil
	}
	for _, s := range e.Graph.States {
		all = append(all, part{strings.TrimSuffix("trajectory."+s.Name, "."), s.Shape})
	}
	return all
}

// each calls f with where the states stand in a position: the last ones first.
func (r *GraphRun) each(f func(state, age, at, n int)) {
	at := 0
	for age, more := 0, true; more; age++ {
		more = false
		for i, s := range r.States {
			if n := tensor.Size(s.Shape); age <= s.Past {
				f(i, age, at, n)
				at, more = at+n, true
			}
		}
	}
}

// start is the position of a realization before the first step.
func (r *GraphRun) start(m int, nonfinite bool) (x *tensor.Tensor, err error) {
	x = tensor.New(fp16.Float64, 1, 1, 1, r.packed())
	r.each(func(i, age, at, n int) {
		of, failed := r.Case.Before(i, m, age)
		if failed != nil {
			err = failed
			return
		}
		r.States[i].Format.RoundSlice(x.Data[at:at+n], of)
	})
	if _, bad := firstNonfinite(x); bad && err == nil && !nonfinite {
		err = &NonfiniteError{Realization: m, Layer: "start"}
	}
	return x, err
}

// advance makes the position after step t.
func (r *GraphRun) advance(m, t int, x *tensor.Tensor, nonfinite bool) (*tensor.Tensor, error) {
	where := map[[2]int]int{}
	r.each(func(i, age, at, _ int) { where[[2]int{i, age}] = at })
	in, err := r.StepInputs(m, t, func(i, of int) ([]float64, error) {
		at, n := where[[2]int{i, t - 1 - of}], tensor.Size(r.States[i].Shape)
		return x.Data[at : at+n : at+n], nil
	})
	if err != nil {
		return nil, err
	}
	out, err := r.Apply(in)
	if err != nil {
		return nil, fmt.Errorf("step %d: %w", t, err)
	}
	next := tensor.New(fp16.Float64, x.Shape...)
	r.each(func(i, age, at, n int) {
		if age == 0 {
			copy(next.Data[at:at+n], out[i].Data)
		} else {
			copy(next.Data[at:at+n], x.Data[where[[2]int{i, age - 1}]:][:n])
		}
	})
	if _, bad := firstNonfinite(next); bad && !nonfinite {
		return nil, &NonfiniteError{Step: t, Realization: m, Layer: r.blame(in)}
	}
	return next, nil
}

// blame is the first operation whose result is not finite.
func (r *GraphRun) blame(in []*tensor.Tensor) string {
	layer := ""
	seen := func(v int, y *tensor.Tensor) {
		for _, u := range y.Data {
			if u-u != 0 && layer == "" {
				layer = r.Network.Graph.Values[v].Name
			}
		}
	}
	if _, err := r.p.Run(&graph.Run{Seen: seen}, in...); err != nil || layer == "" {
		return "the step"
	}
	return strings.TrimSpace(layer)
}
