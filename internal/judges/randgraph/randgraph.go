// Package randgraph makes random graphs of every registered operation, for tests that hold
// one way of evaluating them against another. A graph depends on its seed alone; one of a
// single operation does not change when other operations are added.
package randgraph

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Case is a graph, its inputs, and the operations that its nodes have.
type Case struct {
	Graph *graph.Graph
	Types []graph.Type // of the inputs
	Names []string     // of the nodes' operations
	seed  uint64
}

// most bounds the numbers of a value.
const most = 6000

// inferred is the mode in which shapes are found, which depend on no mode.
var inferred = graph.Mode{Precision: fp16.Float32}

// New returns a graph of some nodes of any operations.
func New(seed uint64) *Case {
	r := rand.New(rand.NewPCG(seed, 1))
	names := Names()
	var of []string
	for range 1 + r.IntN(10) {
		of = append(of, names[r.IntN(len(names))])
	}
	return build(seed, r, of)
}

// Of returns a graph with one node of an operation.
func Of(name string, seed uint64) *Case {
	h := fnv.New64a()
	h.Write([]byte(name))
	seed ^= h.Sum64()
	return build(seed, rand.New(rand.NewPCG(seed, 2)), []string{name})
}

// Names returns the operations that graphs have, sorted.
func Names() []string {
	var names []string
	for _, name := range graph.Names() {
		if makers[name] != nil {
			names = append(names, name)
		}
	}
	return names
}

// Missing returns the registered operations that graphs have not.
func Missing() []string {
	var names []string
	for _, name := range graph.Names() {
		if _, known := makers[name]; !known {
			names = append(names, name)
		}
	}
	return names
}

func build(seed uint64, r *rand.Rand, names []string) *Case {
	b := &builder{Rand: r, g: graph.New(new(graph.Kept))}
	c := &Case{Graph: b.g, seed: seed}
	for _, name := range names {
		for range 40 {
			if b.node(name) {
				c.Names = append(c.Names, name)
				break
			}
		}
	}
	read := make([]bool, len(b.g.Values))
	for _, n := range b.g.Nodes {
		for _, v := range n.In {
			read[v] = true
		}
	}
	for _, n := range b.g.Nodes {
		for _, v := range n.Out {
			if !read[v] || r.IntN(4) == 0 {
				b.g.Outputs = append(b.g.Outputs, v)
			}
		}
	}
	for _, v := range b.g.Inputs {
		c.Types = append(c.Types, b.types[v])
	}
	return c
}

// Inputs returns the k-th inputs of the graph.
func (c *Case) Inputs(k int) []*tensor.Tensor {
	r := rand.New(rand.NewPCG(c.seed, 3+uint64(k)))
	var in []*tensor.Tensor
	for _, t := range c.Types {
		in = append(in, numbers(r, t.Shape))
	}
	return in
}

// numbers returns float32 numbers of one sort or another: some with infinities, NaN and
// subnormal numbers.
func numbers(r *rand.Rand, shape []int) *tensor.Tensor {
	t := tensor.New(fp16.Float32, shape...)
	sort, hard := r.IntN(8), r.IntN(6) == 0
	for i := range t.Data {
		v := r.NormFloat64()
		switch sort {
		case 0:
			v = float64(r.IntN(7) - 3)
		case 1:
			v = math.Abs(v)
		case 2:
			v = math.Ldexp(v, r.IntN(60)-30)
		case 3:
			v *= 30
		case 4: // ties of zeros
			v = []float64{math.Copysign(0, -1), 0, -1}[r.IntN(3)]
		}
		if hard && r.IntN(12) == 0 {
			v = []float64{math.Inf(1), math.Inf(-1), fp16.NaN, math.Copysign(0, -1), 0, 0x1p-149, -0x1p-140,
				math.MaxFloat32, 65520, 0x1p-24}[r.IntN(10)]
		}
		t.Data[i] = fp16.Float32.Round(v)
	}
	return t
}

// builder adds nodes to a graph.
type builder struct {
	*rand.Rand
	g     *graph.Graph
	types []graph.Type // by value
}

// node adds a node of an operation, or reports that what was drawn does not fit.
func (b *builder) node(name string) bool {
	made := makers[name](b)
	attributes, err := json.Marshal(made.attributes)
	if err != nil {
		panic(err)
	}
	op, err := graph.Bind(name, attributes)
	if err != nil {
		return false
	}
	var in []graph.Type
	for _, v := range made.in {
		in = append(in, b.types[v])
	}
	inf, err := op.Infer(inferred, in)
	if err != nil {
		return false
	}
	for _, t := range inf.Out {
		if tensor.Size(t.Shape) > most || slices.Contains(t.Shape, 0) {
			return false
		}
	}
	out := b.g.AddNode(op, fmt.Sprintf("%s%d", name, len(b.g.Nodes)), len(inf.Out), made.in...)
	for k, v := range out {
		b.types = append(b.types, inf.Out[k])
		if v != len(b.types)-1 {
			panic("randgraph: values are not in order")
		}
	}
	return true
}

// made is what a maker chooses: attributes, of JSON, and inputs.
type made struct {
	attributes map[string]any
	in         []int
}

// shape returns a random shape of a rank.
func (b *builder) shape(rank int) []int {
	s := make([]int, rank)
	for i := range s {
		s[i] = 1 + b.IntN(7)
	}
	if rank > 0 && b.IntN(4) == 0 {
		s[b.IntN(rank)] = 1 + b.IntN(24)
	}
	return s
}

// like returns a value of floating-point numbers of that shape: one that is there, an input
// or a constant.
func (b *builder) like(shape ...int) int {
	if v, ok := b.there(func(t graph.Type) bool { return t.Format != fp16.Int64 && slices.Equal(t.Shape, shape) }); ok {
		return v
	}
	b.types = append(b.types, graph.Type{Shape: slices.Clone(shape), Format: fp16.Float32})
	if b.IntN(3) == 0 {
		return b.g.Constant("constant", numbers(b.Rand, shape))
	}
	return b.g.Input(fmt.Sprintf("x%d", len(b.g.Inputs)))
}

// there returns one of the values that are there and fit, most of the time.
func (b *builder) there(fits func(t graph.Type) bool) (int, bool) {
	var of []int
	for v, t := range b.types {
		if fits(t) {
			of = append(of, v)
		}
	}
	if len(of) == 0 || b.IntN(5) == 0 {
		return 0, false
	}
	return of[b.IntN(len(of))], true
}

// ranked returns a value of floating-point numbers of one of those ranks, and its shape.
func (b *builder) ranked(ranks ...int) (int, []int) {
	if v, ok := b.there(func(t graph.Type) bool {
		return t.Format != fp16.Int64 && slices.Contains(ranks, len(t.Shape))
	}); ok {
		return v, b.types[v].Shape
	}
	s := b.shape(ranks[b.IntN(len(ranks))])
	return b.like(s...), s
}

// any returns a value, of whole numbers too, of rank 1 to 5.
func (b *builder) any() (int, []int) {
	if v, ok := b.there(func(t graph.Type) bool { return len(t.Shape) > 0 && len(t.Shape) < 6 }); ok {
		return v, b.types[v].Shape
	}
	return b.ranked(1, 2, 3, 4, 5)
}

// constant returns a constant of floating-point numbers.
func (b *builder) constant(shape ...int) int {
	b.types = append(b.types, graph.Type{Shape: slices.Clone(shape), Format: fp16.Float32})
	return b.g.Constant("constant", numbers(b.Rand, shape))
}

// parameter returns a constant, or now and then any value.
func (b *builder) parameter(shape ...int) int {
	if b.IntN(5) == 0 {
		return b.like(shape...)
	}
	return b.constant(shape...)
}

// weight returns a constant of a rank that is there, as another node's weight, if there is one.
func (b *builder) weight(rank int) (int, []int, bool) {
	v, ok := b.there(func(t graph.Type) bool { return t.Format == fp16.Float32 && len(t.Shape) == rank })
	if !ok || b.g.Values[v].Const == nil {
		return 0, nil, false
	}
	return v, b.types[v].Shape, true
}

// whole returns a constant of whole numbers from lo to hi-1.
func (b *builder) whole(lo, hi int, shape ...int) int {
	t := tensor.New(fp16.Int64, shape...)
	for i := range t.Data {
		t.Data[i] = float64(lo + b.IntN(hi-lo))
	}
	b.types = append(b.types, graph.Type{Shape: slices.Clone(shape), Format: fp16.Int64})
	return b.g.Constant("whole", t)
}

// axis returns an axis of a rank, from the end at times.
func (b *builder) axis(rank int) int {
	a := b.IntN(max(rank, 1))
	if b.IntN(3) == 0 {
		a -= rank
	}
	return a
}

// axes returns some axes of a rank.
func (b *builder) axes(rank int) []int {
	return b.Perm(rank)[:1+b.IntN(rank)]
}

func (b *builder) flip() bool { return b.IntN(2) == 0 }

// some returns n numbers from lo to hi-1.
func (b *builder) some(n, lo, hi int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = lo + b.IntN(hi-lo)
	}
	return s
}
