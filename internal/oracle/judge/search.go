package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// withScalars is the graph with the scalars of comparisons in the format of what is compared, and those of
// remainders and the like in that of steps, as [graph.Binary] has them: a little to the other side of an edge they
// give another result altogether. An eps that is not given follows from that format, too.
func (q *Question) withScalars() *graph.Graph {
	g := *q.Graph
	g.Nodes = slices.Clone(g.Nodes)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if norm, is := n.Op.(graph.RMSNorm); is && norm.Eps == nil && q.Double {
			norm.Eps = real(doubleEps)
			n.Op = norm
		}
		op, is := n.Op.(graph.Binary)
		if !is {
			continue
		}
		f := q.steps()
		switch op.Of {
		case pointwise.Add, pointwise.Sub, pointwise.Mul, pointwise.Div, pointwise.Pow, pointwise.Atan2,
			pointwise.Maximum, pointwise.Minimum, pointwise.FMax, pointwise.FMin:
			continue
		case pointwise.Equal, pointwise.NotEqual, pointwise.Less, pointwise.LessEqual, pointwise.Greater,
			pointwise.GreaterEqual:
			if k := slices.Index(g.Inputs, n.In[0]); k >= 0 && k < len(q.Inputs) {
				f = q.Inputs[k].Format
			}
		}
		if f != fp16.Int64 {
			n.Op = withScalars(op, f)
		}
	}
	return &g
}

// search finds the contract under which a piece is right, or fits best.
func (q *Question) search() (*trial, error) {
	types, err := q.types()
	if err != nil {
		return nil, err
	}
	var best *trial
	if q.Claimed != nil {
		best, err = q.claimed(types)
	} else {
		best, err = q.found(types)
		if err == nil {
			best, err = q.inOnePass(types, best)
		}
	}
	if err != nil || best.passes() || q.built.id != "" || q.Brief {
		return best, err
	}
	return q.explain(best)
}

// claimed is the best trial of what is claimed.
func (q *Question) claimed(types []graph.Type) (*trial, error) {
	contracts := q.unclaimed(types)
	if q.Claimed.Operands == "tf32" {
		var err error
		if contracts, err = q.tf32(types, contracts); err != nil {
			return nil, err
		}
	}
	return q.best(types, contracts, nil)
}

// unclaimed are the contracts of a claim with the forms of which it says nothing.
func (q *Question) unclaimed(types []graph.Type) (all []Contract) {
	claimed := *q.Claimed
	claimed.loses = claimed.OnePass
	all = []Contract{claimed}
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		var forms []Form
		switch o := n.Op.(type) {
		case graph.Interpolate:
			forms = resizes(o, types[n.In[0]].Shape[2:], q.Narrow)
		case graph.GridSampler:
			if q.Narrow.Half() {
				forms = []Form{{Sampled: q.Narrow.String()}}
			}
		case graph.Attention:
			if q.Claimed.Operands != "" && !q.Claimed.Online { // which rounds probabilities before they are divided
				forms = append(onlines(keys(n, types)), scaledFirst()...)
			}
		}
		for _, f := range forms {
			c := claimed
			c.Form = c.with(f)
			all = append(all, c)
		}
	}
	return all
}

// best is the best of a trial and those of contracts; the first that passes ends it.
func (q *Question) best(types []graph.Type, contracts []Contract, best *trial) (*trial, error) {
	for _, c := range contracts {
		t, err := q.try(types, c, q.built.id == "")
		if err != nil {
			return nil, err
		}
		if best == nil || t.better(best) {
			best = t
		}
		if t.passes() {
			break
		}
	}
	return best, nil
}

// better reports whether an output fits this contract better than another.
func (t *trial) better(than *trial) bool {
	switch {
	case t.passes() != than.passes():
		return t.passes()
	case t.emulates() != than.emulates():
		return than.emulates() // in which more hides, and which is not the one either
	case (t.along == nil) != (than.along == nil):
		return than.along == nil // one with a name
	case t.along != nil && math.Abs(t.along.left-than.along.left) > leftLess:
		return t.along.left < than.along.left
	case t.violations != than.violations:
		return t.violations < than.violations
	}
	return t.excess < than.excess
}

// types infers the types of all values in float64. Inputs in float32 of a kernel in float64 keep their type.
func (q *Question) types() ([]graph.Type, error) {
	if len(q.Inputs) != len(q.Graph.Inputs) {
		return nil, fmt.Errorf("%d inputs: want %d", len(q.Inputs), len(q.Graph.Inputs))
	}
	types := make([]graph.Type, len(q.Graph.Values))
	wide := func(t *tensor.Tensor) graph.Type {
		if t.Format == fp16.Int64 {
			return graph.Type{Shape: t.Shape, Format: t.Format}
		}
		return graph.Type{Shape: t.Shape, Format: fp16.Float64}
	}
	for k, v := range q.Graph.Inputs {
		if types[v] = wide(q.Inputs[k]); q.Double && q.Inputs[k].Format == fp16.Float32 {
			types[v].Format = fp16.Float32
		}
	}
	for v := range q.Graph.Values {
		if c := q.Graph.Values[v].Const; c != nil {
			types[v] = wide(c)
		}
	}
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		var in []graph.Type
		for _, v := range n.In {
			in = append(in, types[v])
		}
		out, err := n.Op.Infer(graph.Mode{Precision: fp16.Float64}, in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Op.Name(), err)
		}
		for k, v := range n.Out {
			if types[v] = out.Out[k]; types[v].Format != fp16.Int64 { // of a cast too
				types[v].Format = fp16.Float64
			}
		}
	}
	return types, nil
}

// narrowest returns the narrowest format of an input, or of what the graph casts numbers to, as autocast does; of
// float32 and float64 ones that.
func (q *Question) narrowest() fp16.Format {
	f := q.steps()
	for i := range q.Graph.Nodes {
		if c, is := q.Graph.Nodes[i].Op.(graph.Cast); is {
			if to, err := fp16.ParseFormat(c.Dtype); err == nil && to.Half() {
				f = to
			}
		}
	}
	for _, t := range q.Inputs {
		if t.Format.Half() {
			f = t.Format
		}
	}
	return f
}

// forms are those in which right kernels compute the operations of a graph: the one table of them.
func (q *Question) forms(types []graph.Type) []Form {
	forms := []Form{{}}
	wide := q.WideSums && slices.ContainsFunc(q.Graph.Nodes, func(n graph.Node) bool { return scatters(n.Op) })
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		if q.Narrow.Half() && q.hasScalars(n, q.Narrow) {
			if forms = append(forms, Form{Scalars: q.Narrow.String()}); n.Op.Name() != "mul" && n.Op.Name() != "div" {
				forms = append(forms, Form{Scalars: q.Narrow.String() + butOf + "products"})
			}
		}
		if b, is := n.Op.(graph.Binary); is && b.Of == pointwise.Div && b.Other != nil && q.Narrow.Half() {
			forms = append(forms, Form{Scalars: q.Narrow.String(), Reciprocal: true})
		}
		if q.Narrow.Half() && stepwise(n.Op) && !wide {
			forms = append(forms, Form{Atomic: q.Narrow.String()})
		}
		switch op := n.Op.(type) {
		case graph.Binary:
			forms = append(forms, quotients(op, q.Narrow)...)
			if factors(op, n.In, q.Graph.Values) != 0 && q.Narrow.Half() {
				forms = append(forms, Form{Powers: oneByOne}, Form{Powers: bySquares})
			}
		case graph.Unary, graph.Act:
			if kernels["symmetric "+op.Name()].off != nil && (op.Name() != "log" || q.Narrow.Half()) {
				forms = append(forms, Form{Symmetric: true})
			}
			// asin's angle, half of it, may be flushed in float32, and -inf times a share of 0 is NaN
			if !q.Narrow.Half() && (op.Name() == "asin" && !q.Double || sharing[nameOf(op)] && q.infinite()) {
				forms = append(forms, Form{Composed: true})
			}
			if q.Narrow.Half() && composes(op) {
				forms = append(forms, q.composedForms(Form{})...)
				if op.Name() == "log2" {
					forms = append(forms, Form{Composed: true, Scalars: q.Narrow.String(), Reciprocal: true})
				}
				if q.Narrow == fp16.Float16 && hasExpm1(op) {
					forms = append(forms, q.composedForms(Form{Expanded: true})...)
					forms = append(forms, Form{Composed: true, Expanded: true, Scalars: q.Narrow.String(), Reciprocal: true})
				}
			}
		case graph.GLU:
			if q.Narrow.Half() {
				forms = append(forms, Form{Composed: true})
			}
		case graph.Softmax:
			if q.Narrow.Half() {
				forms = append(forms, Form{Composed: true})
			}
			if q.Narrow == fp16.Float16 {
				forms = append(forms, Form{Composed: true, Reciprocal: true})
			}
		case graph.VectorNorm:
			if q.Narrow == fp16.BFloat16 && op.Order == 2 {
				forms = append(forms, Form{Composed: true})
			}
			if q.Narrow.Half() && ofTwoNumbers(op, types[n.In[0]].Shape) {
				forms = append(forms, Form{ByGreater: true})
			}
		case graph.Var:
			if q.Narrow.Half() && op.Root {
				forms = append(forms, Form{Composed: true})
			}
		case graph.Conv, graph.Convolution, graph.ConvTranspose, graph.Linear:
			if !q.Narrow.Half() {
				if tiled(op, types[n.In[1]].Shape) {
					forms = append(forms, Form{Winograd: 2}, Form{Winograd: 4})
				}
				break
			}
			if len(n.In) > 2 {
				forms = append(forms, Form{BiasAfter: true})
			}
			if q.losesOperands(n) {
				forms = append(forms, Form{Operands: flushedOperands})
			}
			if isTransposed(op) {
				forms = append(forms, Form{Taps: true}, Form{Taps: true, Backwards: true})
			}
		case graph.Interpolate:
			forms = append(forms, resizes(op, types[n.In[0]].Shape[2:], q.Narrow)...)
		case graph.GridSampler:
			if q.Narrow.Half() {
				forms = append(forms, Form{Sampled: q.Narrow.String()})
			}
		case graph.LayerNorm, graph.GroupNorm, graph.InstanceNorm, graph.BatchNorm:
			forms = append(forms, Form{Affine: true})
			if _, is := op.(graph.InstanceNorm); q.Narrow.Half() && (is || n.Op.Name() == "batch_norm") {
				forms = append(forms, Form{StoredMean: true})
			}
		case graph.Reduction:
			if shape := types[n.In[0]].Shape; op.Of == "logsumexp" && q.Attends && q.Narrow.Half() && len(shape) > 0 {
				forms = append(forms, coarse(0, shape[len(shape)-1])...)
			}
		case graph.Attention:
			keys := keys(n, types)
			if !q.Narrow.Half() && q.Operands == "" { // where blocks change next to nothing
				way := q.attentionInParts()
				forms = append(forms, onlines(min(keys, 1))...)
				forms = append(forms, Form{Operands: way}, Form{Operands: way, Online: true})
				break
			}
			forms = append(forms, scaledFirst()...)
			forms = append(forms, onlines(keys)...)
			if !q.Narrow.Half() {
				break
			}
			for _, block := range []int{0, 512} {
				if block < keys {
					forms = append(forms, coarse(block, keys)...)
				}
			}
		}
	}
	if q.Double {
		forms = slices.DeleteFunc(forms, func(f Form) bool { return f.Operands != "" })
	}
	if !q.Written {
		return distinct(forms)
	}
	if !q.Narrow.Half() { // where it is not looked for which of them go together
		all := Form{}
		for _, f := range forms {
			if f.Scaled == "" {
				all = all.with(f)
			}
		}
		forms = append(forms, all)
	}
	return distinct(written(forms, q.Operands))
}

// infinite reports whether a kernel is given -inf.
func (q *Question) infinite() bool {
	least := func(t *tensor.Tensor) bool { return t != nil && slices.Contains(t.Data, math.Inf(-1)) }
	return slices.ContainsFunc(q.Inputs, least) ||
		slices.ContainsFunc(q.Graph.Values, func(v graph.Value) bool { return least(v.Const) })
}

// attentionInParts is how PyTorch's attention of float32 numbers on GPUs, that of CUTLASS, multiplies, whether TF32 is
// allowed or not: other operations do not.
func (q *Question) attentionInParts() string {
	way := "3xtf32"
	for _, name := range q.multiplying() {
		if !slices.Contains([]string{scores, weighted, probabilities}, name) {
			way = but(way, name)
		}
	}
	return way
}

// keys is how many an attention has.
func keys(n *graph.Node, types []graph.Type) int {
	k := types[n.In[1]].Shape
	return k[len(k)-2]
}

// coarse are those whose exp is a cubic polynomial, of so many keys, in blocks.
func coarse(block, keys int) (all []Form) {
	for _, lanes := range []int{0, 8, 16} {
		if lanes == 0 || keys%lanes > 0 {
			all = append(all, Form{Online: true, BlockKeys: block, CoarseExp: true, Lanes: lanes})
		}
	}
	return all
}

// onlines are the forms of an attention of so many keys that divides last, by how many it takes at a time.
func onlines(keys int) (all []Form) {
	for _, block := range []int{0, 16, 32, 64, 128, 256, 512} {
		if block < keys { // or it is all of them
			all = append(all, Form{Online: true, BlockKeys: block})
		}
	}
	return all
}

// written are the forms in a written graph, with the operands of products in each of the ways of devices.
func written(forms []Form, to string) (all []Form) {
	ways := []string{to}
	if to == "tf32" {
		ways = tf32Ways
	}
	for _, way := range ways {
		for _, f := range forms {
			f.written, f.Operands = true, cmp.Or(way, f.Operands)
			all = append(all, f)
		}
	}
	return all
}

// candidates are the contracts that the search begins with, those of the fewest roundings first.
func (q *Question) candidates(types []graph.Type) (all []Contract) {
	forms := q.forms(types)
	for _, f := range forms {
		if f.BlockKeys == 0 || f.Operands != "" {
			all = append(all, Contract{Form: f})
		}
	}
	if !q.Narrow.Half() {
		return all
	}
	plain := expand(q.Graph, types, Form{written: q.Written}, q.built).names()
	for _, f := range forms {
		b := expand(q.Graph, types, f, q.built)
		names := b.names()
		if f.BlockKeys > 0 || f.CoarseExp { // which change little but where they are rounded
			for _, name := range names {
				if strings.HasSuffix(name, "probabilities_unnormalized") { // of a chain, with its operation's name
					all = append(all, Contract{f, []string{name}})
				}
			}
			continue
		}
		if !f.written {
			for _, p := range q.patterns(b) {
				all = append(all, Contract{f, p})
			}
			if inner := b.inner; len(q.Graph.Nodes) == 1 && len(inner) > 1 && len(inner) < len(names) {
				all = append(all, Contract{f, inner})
			}
		}
		few := len(names) <= pairedNames
		if few {
			for _, n := range names {
				all = append(all, Contract{f, []string{n}})
			}
		}
		if len(names) > 1 {
			all = append(all, Contract{f, names})
		}
		if own := besides(names, plain); len(own) > 1 && len(own) < len(names) {
			all = append(all, Contract{f, own})
		}
		if few {
			all = append(all, ofTwo(f, names)...)
		}
	}
	return all
}

// besides are names that are not among others.
func besides(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(others, n) })
}

// ofTwo are the contracts of two roundings.
func ofTwo(f Form, names []string) (all []Contract) {
	for i, a := range names {
		for _, b := range names[i+1:] {
			if len(names) > 2 {
				all = append(all, Contract{f, []string{a, b}})
			}
		}
	}
	return all
}

// distinct leaves out what was there before.
func distinct(forms []Form) (all []Form) {
	for _, f := range forms {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}
