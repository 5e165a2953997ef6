package lower

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// PyTorch's nn.MultiheadAttention has an attention with its projection in one function of its own where no gradients
// are wanted, _native_multi_head_attention. It stores the product of the projection before its bias, adds the bias and
// scales the query in one kernel, and stores query, key and value then. Under a mask, its softmax on a CPU stores each
// difference from the maximum, each exp, and the reciprocal of their sum.

// projected are contracts with that function in place of an attention with its projection.
func (c Claim) projected(all []Contract, masked bool) (more []Contract) {
	if c.Mode.Autocast != graph.NoAutocast {
		k := all[0]
		k.Name, k.inPlace = "additions in place", true
		all = append(slices.Clone(all), k)
	}
	for _, k := range all {
		k.joins, k.Name = true, named(k.Name, "an attention is one operation with its projection")
		if more = append(more, k); masked {
			k.inSteps, k.Name = true, named(k.Name, "its softmax in elementary operations")
			more = append(more, k)
		}
	}
	return more
}

// masked reports whether an attention has a mask, or may have: one in several operations has a softmax.
func masked(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n graph.Node) bool {
		a, is := n.Op.(graph.Attention)
		return is && (a.Causal || len(n.In) > 3) || n.Op.Name() == "softmax"
	})
}

// divisions are moves that take one part of a value.
var divisions = []string{"select", "slice", "split", "chunk", "unbind"}

// carriers are moves that take a value as it is.
var carriers = []string{"reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "permute", "transpose", "flip"}

// projections are the linear layers, by node, that make query, key and value: operands of products, read by nothing
// else, of which one is scaled.
func projections(g *graph.Graph) map[int]bool {
	all := map[int]bool{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if _, is := n.Op.(graph.Linear); !is || len(n.In) < 3 {
			continue
		}
		r, only, scaled := readersOf(g, i), true, false
		for _, k := range r.nodes {
			of := &g.Nodes[k]
			_, attends := of.Op.(graph.Attention)
			only = only && (isProduct(of.Op) || scalar(of.Op) != 0)
			scaled = scaled || scalar(of.Op) != 0 || attends && r.values[of.In[0]]
		}
		if r.divided && only && scaled && !r.output {
			all[i] = true
		}
	}
	return all
}

// readers are the nodes that read a node's value, moved as it is or in parts, and the values that are it.
type readers struct {
	nodes           []int
	values          map[int]bool
	divided, output bool // whether there are parts, and one is the graph's
}

// readersOf are those of a node's first value.
func readersOf(g *graph.Graph, node int) readers {
	r := readers{values: map[int]bool{g.Nodes[node].Out[0]: true}}
	for k := node + 1; k < len(g.Nodes); k++ {
		n := &g.Nodes[k]
		switch {
		case !slices.ContainsFunc(n.In, func(v int) bool { return r.values[v] }):
		case carries(n.Op):
			r.divided = r.divided || slices.Contains(divisions, n.Op.Name())
			for _, v := range n.Out {
				r.values[v] = true
			}
		default:
			r.nodes = append(r.nodes, k)
		}
	}
	r.output = slices.ContainsFunc(g.Outputs, func(v int) bool { return r.values[v] })
	return r
}

func carries(op graph.Op) bool {
	return slices.Contains(divisions, op.Name()) || slices.Contains(carriers, op.Name())
}

// scalar is the number by which an operation multiplies, 0 of others.
func scalar(op graph.Op) float64 {
	if b, is := op.(graph.Binary); is && b.Of == pointwise.Mul && b.Other != nil {
		return *b.Other
	}
	return 0
}

// project adds such a layer: the product, stored, and its bias. What is made of it is stored where it is read.
func (l *lowering) project(n *graph.Node, name string, at int, in []int) {
	f := l.p.Type(n.Out[0]).Format
	y := l.to.Add(graph.Cast{Dtype: f.String()}, name+".product.stored", l.to.Add(n.Op, name+".product", in[:2]...))
	l.of[n.Out[0]] = l.to.Add(graph.Addition, name, y, in[2])
	l.made[n.Out[0]], l.late[n.Out[0]], l.kernel[n.Out[0]] = l.of[n.Out[0]], true, at
}

// carry moves a value that is not stored yet.
func (l *lowering) carry(n *graph.Node, name string, at int) {
	for k, made := range l.to.AddNode(n.Op, name, len(n.Out), l.of[n.In[0]]) {
		l.of[n.Out[k]], l.made[n.Out[k]], l.late[n.Out[k]] = made, made, true
		l.kernel[n.Out[k]] = at
	}
}

// reading stores the parts of a projection that an operation reads, the query once it is scaled, and returns the
// operation that is left.
func (l *lowering) reading(n *graph.Node, op graph.Op, name string, in []int) graph.Op {
	if scalar(op) != 0 {
		return op
	}
	for k, v := range n.In {
		if !l.late[v] {
			continue
		}
		f := l.p.Type(v).Format
		of, is := op.(graph.Attention)
		if !is || k > 0 {
			in[k] = l.round(v, f)
			continue
		}
		shape := l.p.Type(v).Shape
		scale := 1 / math.Sqrt(float64(shape[len(shape)-1]))
		if of.Scale != nil {
			scale = *of.Scale
		}
		in[0] = l.to.Add(graph.Binary{Of: pointwise.Mul, Other: &scale}, name+".query", l.of[v])
		in[0] = l.to.Add(graph.Cast{Dtype: f.String()}, name+".query.stored", in[0])
		one := 1.0
		of.Scale = &one
		op = of
	}
	return op
}

// softmax adds a softmax along the last axis that stores what it makes of each number.
func (l *lowering) softmax(name string, x int, f fp16.Format) int {
	along := func(of string, v int) int {
		return l.to.Add(graph.Reduction{Of: of, Axes: graph.Ints{-1}, Keep: true}, name+"."+of, v)
	}
	stored := func(name string, v int) int {
		return l.to.Add(graph.Cast{Dtype: f.String()}, name+".stored", v)
	}
	x = stored(name+".shifted", l.to.Add(graph.Binary{Of: pointwise.Sub}, name+".shifted", x, along("amax", x)))
	x = stored(name+".exp", l.to.Add(exp, name+".exp", x))
	over := stored(name+".reciprocal", l.to.Add(reciprocal, name+".reciprocal", along("sum", x)))
	return l.to.Add(graph.Binary{Of: pointwise.Mul}, name+".softmax", x, over)
}

var (
	exp, _        = graph.Bind("exp", nil)
	reciprocal, _ = graph.Bind("reciprocal", nil)
)

// attention adds an attention whose scores and probabilities are stored.
func (l *lowering) attention(n *graph.Node, op graph.Attention, name string, in []int) int {
	f := l.p.Type(n.Out[0]).Format
	stored := func(name string, v int) int { return l.to.Add(graph.Cast{Dtype: f.String()}, name+".stored", v) }
	key := l.to.Add(graph.Transpose{A: -2, B: -1}, name+".key", in[1])
	x := stored(name+".scores", l.to.Add(graph.MatMul{}, name+".scores", in[0], key))
	least := l.to.Constant("", tensor.Of(fp16.Float64, []float64{math.Inf(-1)}, 1))
	if op.Causal {
		q, k := l.p.Type(n.In[0]).Shape, l.p.Type(n.In[1]).Shape
		rows, columns := q[len(q)-2], k[len(k)-2]
		seen := tensor.New(fp16.Int64, rows, columns)
		for i := range seen.Data {
			if i%columns <= i/columns {
				seen.Data[i] = 1
			}
		}
		x = l.to.Add(graph.Where{}, name+".causal", l.to.Constant("", seen), x, least)
	}
	if len(in) > 3 && l.p.Type(n.In[3]).Format == fp16.Int64 {
		x = l.to.Add(graph.Where{}, name+".masked", in[3], x, least)
	} else if len(in) > 3 {
		x = l.to.Add(graph.Addition, name+".masked", x, in[3])
	}
	if l.inSteps && (op.Causal || len(in) > 3) {
		x = l.softmax(name, x, f)
	} else {
		x = l.to.Add(graph.Softmax{Axis: -1}, name+".softmax", x)
	}
	return l.to.Add(graph.MatMul{}, name, stored(name+".probabilities", x), in[2])
}

// inPlace is a graph whose sums of a half number and a float32 one are cast to the half type, as PyTorch's
// _transformer_encoder_layer_fwd has them under autocast: it adds in place.
func inPlace(g *graph.Graph, m graph.Mode, types []graph.Type) (*graph.Graph, error) {
	sums := map[int]bool{} // that are cast
	for {
		p, err := g.Infer(m, types...)
		if err != nil {
			return nil, err
		}
		to, some := *g, false
		to.Values, to.Nodes, to.Kept = slices.Clone(g.Values), nil, new(graph.Kept)
		for _, n := range g.Nodes {
			of := n.Out[0]
			wide := n.Op.Name() == "add" && len(n.In) == 2 && !sums[of] && p.Type(of).Format == fp16.Float32
			if !wide || !slices.ContainsFunc(n.In, func(v int) bool { return p.Type(v).Format.Half() }) {
				to.Nodes = append(to.Nodes, n)
				continue
			}
			some = true
			to.Values = append(to.Values, graph.Value{Name: g.Values[of].Name + ".sum"})
			sum := n
			sum.Out = []int{len(to.Values) - 1}
			sums[sum.Out[0]] = true
			to.Nodes = append(to.Nodes, sum, graph.Node{Op: graph.Cast{Dtype: m.Precision.String()}, In: sum.Out, Out: n.Out})
		}
		if g = &to; !some {
			return g, nil
		}
	}
}

// operation adds an operation. An attention after its projection, and a softmax, are the steps that are stored.
func (l *lowering) operation(n *graph.Node, op graph.Op, name string, in []int) []int {
	switch op := op.(type) {
	case graph.Attention:
		if l.late[n.In[0]] && !op.Grouped {
			return []int{l.attention(n, op, name, in)}
		}
	case graph.Softmax:
		shape, f := l.p.Type(n.In[0]).Shape, l.p.Type(n.In[0]).Format
		if last := op.Axis == -1 || op.Axis == len(shape)-1; l.inSteps && last && !op.Log && f.Half() {
			return []int{l.softmax(name, in[0], f)}
		}
	}
	return l.to.AddNode(op, name, len(n.Out), in...)
}
