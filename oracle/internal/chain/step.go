package chain

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// The kinds of a step's inputs.
const (
	kindState   = "state"
	kindNoise   = "noise"
	kindForcing = "forcing"
)

// step is one step of a rollout as a graph: of an operator, with its noise as arithmetic on draws that are an input,
// the policy and the post-processing; or of a step graph what makes one of its states.
type step struct {
	g       *graph.Graph // of the state, and of draws if there is noise
	kinds   []string     // of its inputs
	axes    []string     // names of the state's, nil for those that follow from the graph
	block   *noise.Block // nil if there is none
	added   bool         // whether multiplicative noise is x + x n
	widens  bool         // whether states are kept in a narrower format than the mode's
	before  *graph.Graph // what the noise goes into, of the state
	mode    graph.Mode
	values  []int        // by node of the operator: what it makes; nil of a step graph
	given   []graph.Type // of its inputs, if not those of their numbers
	inexact []bool       // by input, see [judge.Question]
}

// stepOf returns the step of an operator.
func stepOf(op *operator.Operator, c rollout.Config, mode graph.Mode, h, w int) *step {
	return stepWith(op, c, mode, h, w, variant{})
}

// variant is how a step has its noise otherwise.
type variant struct {
	added bool // multiplicative noise is x + x n
	// block, if not nil, changes it, and says whether it is another one.
	block func(b *noise.Block) bool
	// before, if not nil, says of a node whether noise enters in front of it: of the last one before its own place.
	before func(g *graph.Graph, n *graph.Node) bool
	active bool // an activation follows
}

// stepWith is stepOf with noise in another way, nil if that is none.
func stepWith(op *operator.Operator, c rollout.Config, mode graph.Mode, h, w int, as variant) *step {
	from := op.GraphOf(op.HasNoise(), h, w)
	at := -1 // the node before which noise enters
	for i := range from.Nodes {
		if _, is := from.Nodes[i].Op.(graph.Noise); is {
			break
		} else if as.before != nil && as.before(from, &from.Nodes[i]) {
			at = i
		}
	}
	if as.before != nil && at < 0 {
		return nil
	}
	s := &step{g: graph.New(new(graph.Kept)), mode: mode, added: as.added, kinds: []string{kindState},
		axes: []string{"realization", "channel", "image row", "image column"}}
	of := make([]int, len(from.Values))
	for _, v := range from.Inputs {
		of[v] = s.g.Input("state")
		f, err := fp16.ParseFormat(c.State)
		s.widens = err == nil && f.Half() && mode.Wide() == fp16.Float32 && !mode.Precision.Half()
		if s.widens { // the operator is not of the states' type
			of[v] = s.g.Add(graph.Cast{Dtype: mode.Wide().String()}, "state.wide", of[v])
		}
	}
	for v := range from.Values {
		if t := from.Values[v].Const; t != nil {
			of[v] = s.g.Constant(from.Values[v].Name, t)
		}
	}
	for i := range from.Nodes {
		n := &from.Nodes[i]
		in := make([]int, len(n.In))
		for k, v := range n.In {
			in[k] = of[v]
		}
		o, is := n.Op.(graph.Noise)
		if is && as.block != nil && !as.block(&o.Block) {
			return nil
		}
		if i == at {
			j := slices.IndexFunc(from.Nodes, func(n graph.Node) bool { _, is := n.Op.(graph.Noise); return is })
			block := from.Nodes[j].Op.(graph.Noise).Block
			s.block, s.before = &block, until(from, n.In[0], i)
			in[0] = s.noise(from.Name(&from.Nodes[j]), in[0], mode)
		}
		if is {
			if of[n.Out[0]] = in[0]; at < 0 {
				s.block, s.before = &o.Block, until(from, n.In[0], i)
				of[n.Out[0]] = s.noise(from.Name(n), in[0], mode)
			}
			if as.active {
				k := slices.IndexFunc(from.Nodes, isActivation)
				if k < 0 {
					return nil
				}
				of[n.Out[0]] = s.g.Add(from.Nodes[k].Op, from.Name(n)+".activation", of[n.Out[0]])
			}
			s.values = append(s.values, of[n.Out[0]])
			continue
		}
		for k, v := range s.g.AddNode(n.Op, from.Name(n), len(n.Out), in...) {
			of[n.Out[k]] = v
		}
		s.values = append(s.values, of[n.Out[0]])
	}
	made := len(s.g.Nodes)
	s.g.Outputs = []int{s.next(c, of[from.Outputs[0]])}
	for i := range s.g.Nodes[made:] { // products of whose constants may be ties, which decides where they are rounded to
		if op, is := s.g.Nodes[made+i].Op.(graph.Binary); is && op.Other != nil {
			single := mode.Scalar(*op.Other, fp16.Float32)
			op.Other = &single
			s.g.Nodes[made+i].Op = op
		}
	}
	return s
}

// next adds what follows an operator in a step. States are stored before they are normalized.
func (s *step) next(c rollout.Config, out int) int {
	if !s.widens {
		return c.Step(s.g, s.g.Inputs[0], out)
	}
	policy, post := c, c
	policy.Normalization, policy.Clamp, post.Policy = rollout.NoNormalization, nil, rollout.Autoregressive
	stored := s.g.Add(graph.Cast{Dtype: c.State}, "next.stored", policy.Step(s.g, s.g.Inputs[0], out))
	return post.Step(s.g, s.g.Inputs[0], stored)
}

// stepTo is what a step graph does to make one of its states.
func stepTo(from *rollout.StepGraph, state int) *step {
	g := *from.Network.Graph
	s := &step{g: &g}
	for _, in := range from.Inputs {
		s.kinds = append(s.kinds, in.Kind)
	}
	g.Outputs, g.Nodes, g.Kept = g.Outputs[state:state+1], nil, new(graph.Kept)
	read := map[int]bool{g.Outputs[0]: true}
	for i := len(from.Network.Graph.Nodes) - 1; i >= 0; i-- {
		n := from.Network.Graph.Nodes[i]
		if !slices.ContainsFunc(n.Out, func(v int) bool { return read[v] }) {
			continue
		}
		for _, v := range n.In {
			read[v] = true
		}
		g.Nodes = append(g.Nodes, n)
	}
	slices.Reverse(g.Nodes)
	if shape := from.States[state].Shape; len(shape) > 2 {
		s.axes = slices.Concat([]string{"sample", "channel"}, []string{"layer", "row", "column"}[max(0, 5-len(shape)):])
	}
	return s
}

func isActivation(n graph.Node) bool {
	a, is := n.Op.(graph.Act)
	return is && a.Func != act.Identity
}

// until is a graph up to a value, which its first nodes make.
func until(g *graph.Graph, value, nodes int) *graph.Graph {
	part := *g
	part.Nodes, part.Outputs = slices.Clip(g.Nodes[:nodes]), []int{value}
	return &part
}

// noise adds a block's arithmetic to a value.
func (s *step) noise(name string, x int, mode graph.Mode) int {
	draws := s.g.Input("draws")
	s.kinds = append(s.kinds, kindNoise)
	if s.block.Type == noise.Dropout {
		return s.g.Add(graph.Binary{Of: pointwise.Mul}, name, x, draws)
	}
	draws = s.g.Add(graph.Act{Func: act.Identity}, name+".draws", draws) // which rounds them, where it is of a half type
	scale := mode.Scalar(s.block.Scale, mode.Precision)
	scaled := s.g.Add(graph.Binary{Of: pointwise.Mul, Other: &scale}, name+".scaled", draws)
	if s.block.Type == noise.Multiplicative && s.added {
		scaled = s.g.Add(graph.Binary{Of: pointwise.Mul}, name+".share", x, scaled)
	} else if s.block.Type == noise.Multiplicative {
		one := 1.0
		return s.g.Add(graph.Binary{Of: pointwise.Mul}, name, x,
			s.g.Add(graph.Binary{Of: pointwise.Add, Other: &one}, name+".factor", scaled))
	}
	return s.g.Add(graph.Addition, name, x, scaled)
}

// types are those of the inputs of a step with noise, for a state of a type.
func (s *step) types(state graph.Type) ([]graph.Type, error) {
	wide := state
	if s.widens {
		wide.Format = s.mode.Wide()
	}
	p, err := s.before.Infer(s.mode, wide)
	if err != nil {
		return nil, err
	}
	t := p.Type(s.before.Outputs[0])
	draws := graph.Type{Shape: t.Shape, Format: s.block.Format(t.Format)}
	if s.block.Type == noise.Dropout {
		draws.Shape = []int{t.Shape[0], t.Shape[1], 1, 1}
	}
	return []graph.Type{state, draws}, nil
}

// drawn are the numbers that a step's noise scales, or of dropout multiplies by.
func (s *step) drawn(t graph.Type, d noise.Draws) (*tensor.Tensor, error) {
	x, b := tensor.New(fp16.Float64, t.Shape...), *s.block
	switch b.Type {
	case noise.Dropout:
		for i := range x.Data {
			x.Data[i] = 1
		}
	case noise.Multiplicative:
		b.Type = noise.Gaussian
	}
	if b.Type != noise.Dropout {
		b.Scale = 1
	}
	if d != nil {
		if b.Type == noise.Laplace {
			d = signs{d, t.Format}
		}
		if err := b.Apply(x, x, noise.Time{}, d); err != nil {
			return nil, err
		}
	}
	f := t.Format
	if b.Type != noise.Dropout {
		f = fp16.Float32
	}
	y := tensor.New(f, t.Shape...)
	f.RoundSlice(y.Data, x.Data)
	return y, nil
}

// signs are draws whose normal numbers, of which a Laplace block takes the signs, are of a format: in float16 some of
// them are 0, and have none.
type signs struct {
	noise.Draws
	f fp16.Format
}

func (s signs) Draw(kind noise.Kind, p float64, shape []int, dst []float64) error {
	err := s.Draws.Draw(kind, p, shape, dst)
	if kind == noise.Normal {
		s.f.RoundSlice(dst, dst)
	}
	return err
}

// typesOf are the types of a step's inputs, as the claim has them.
func (s *step) typesOf(in []*tensor.Tensor) (types []graph.Type, err error) {
	if s.given != nil {
		return s.given, nil
	}
	for _, x := range in {
		types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	if s.block != nil {
		return s.types(types[0])
	}
	return types, nil
}

// question asks whether a step is what a contract of a claim makes of its inputs.
func (s *step) question(
	c lower.Claim, k lower.Contract, in []*tensor.Tensor, got *tensor.Tensor,
) (judge.Question, error) {
	types, err := s.typesOf(in)
	if err != nil {
		return judge.Question{}, err
	}
	g, err := c.Lower(s.g, types, k, got.Format)
	if err != nil {
		return judge.Question{}, fmt.Errorf("step: %w", err)
	}
	q := judge.Question{Graph: g, Inputs: in, Inexact: s.inexact, Output: got, Written: true, Narrow: fp16.Float32,
		Axes: s.axes}
	if f, half := c.Narrow(); half {
		q.Narrow = f
	}
	if q.Double = c.Mode.Precision == fp16.Float64; q.Double { // the start is too, whatever a file holds it in
		q.Inputs = slices.Clone(in)
		for k, x := range in {
			if s.kinds[k] == kindState {
				q.Inputs[k] = tensor.Of(fp16.Float64, x.Data, x.Shape...)
			}
		}
	}
	if c.Mode.Precision == fp16.TF32 {
		q.Operands = map[fp16.Rounding]string{
			fp16.NearestEven: "tf32", fp16.NearestAway: "tf32 ties away", fp16.TowardZero: "tf32 truncated",
		}[c.Mode.TF32]
	}
	q.Truth = func() ([]float64, error) {
		if q.Double {
			return lower.Exact(s.g, in, nil)
		}
		return judge.Wide(s.g, in)
	}
	return q, nil
}
