// Package lower writes the roundings of a claim into a graph, as casts: the operands that autocast casts, and the
// results that it stores. What comes of it is exact arithmetic with those roundings alone.
package lower

import (
	"maps"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// Claim is the arithmetic that a device says it has.
type Claim struct {
	Mode graph.Mode
	// Pure is a half precision without autocast: weights, inputs and all results are of it. The mode is then
	// float32, and Half the format.
	Pure bool
	Half fp16.Format
	// Native is set for a graph that was recorded in that half itself, whose casts are its own.
	Native bool
	// Halves is set for an autocast from inputs of its half type, as which a module in that type is claimed.
	Halves bool
	// Unrounded are the inputs of a graph, by their place, whose type is that of the claim and whose numbers a device has
	// kept as they were: products round them. Nil is none.
	Unrounded []bool
}

// Narrow returns the half format of a claim; ok is false if it has none.
func (c Claim) Narrow() (f fp16.Format, ok bool) {
	f = c.Mode.Precision
	if c.Pure {
		f = c.Half
	}
	return f, f.Half()
}

// windowed reports whether an operation reads each number several times, at other places than its own, so
// that what it reads lies in memory.
func windowed(op graph.Op) bool {
	return strings.Contains(op.Name(), "pool") || op.Name() == "interpolate"
}

// lowering writes a contract's roundings into a graph.
type lowering struct {
	claim Claim
	Contract
	p    *graph.Program
	from *graph.Graph
	to   *graph.Graph
	of   []int // by value of from, as it is stored
	made []int // and as its kernel has it
	// kernel numbers the kernels of a compiler that fuses what lies between products: how many products
	// there are on the longest way to a value.
	kernel  []int
	wide    []bool // values that are not rounded as they were made
	cast    map[castKey]int
	folds   []*fold
	folded  map[int]bool // batch norms that are in weights
	joins   map[int]bool // layers that may be one operation with what reads them
	late    []bool       // values that are stored where they are read
	gates   map[int]gates
	biases  map[int]int // of the layers of gates, by node, as their products read them
	choices []Choice    // so far
}

type castKey struct {
	value int
	f     fp16.Format
}

// Lower returns a graph with the roundings of a contract as casts. types are those of its inputs. A last
// rounding to the format in which the output is stored is left out, since storing rounds.
func (c Claim) Lower(g *graph.Graph, types []graph.Type, k Contract, stored fp16.Format) (*graph.Graph, error) {
	l, err := c.lower(g, types, k, stored)
	if err != nil {
		return nil, err
	}
	return l.to, nil
}

// Choices are those that a contract has in a graph.
func (c Claim) Choices(g *graph.Graph, types []graph.Type, k Contract, stored fp16.Format) ([]Choice, error) {
	l, err := c.lower(g, types, k, stored)
	if err != nil {
		return nil, err
	}
	return l.choices, nil
}

func (c Claim) lower(g *graph.Graph, types []graph.Type, k Contract, stored fp16.Format) (*lowering, error) {
	if k.pure {
		c = Claim{Mode: graph.Mode{Precision: fp16.Float32}, Pure: true, Half: c.Mode.Precision, Native: true}
		g = constantsIn(c.Half, g)
	}
	l := &lowering{claim: c, Contract: k, to: graph.New(new(graph.Kept)), cast: map[castKey]int{}, folded: map[int]bool{}}
	g = l.fold(c.Stored(g))
	if k.inPlace {
		var err error
		if g, err = inPlace(g, c.Mode, types); err != nil {
			return nil, err
		}
	}
	if k.steps && k.pure {
		types = inHalf(types, c.Half)
	}
	p, err := g.Infer(c.Mode, types...)
	if err != nil {
		return nil, err
	}
	n := len(g.Values)
	l.p, l.from, l.of, l.made, l.kernel, l.wide = p, g, make([]int, n), make([]int, n), make([]int, n), make([]bool, n)
	l.late = make([]bool, n)
	if k.joins {
		l.joins = projections(g)
	}
	if l.biases = map[int]int{}; k.steps {
		l.gates = recurrences(g)
		for _, of := range l.gates {
			l.biases[of.state], l.biases[of.input] = -1, -1 // until they are made
		}
	}
	for k, v := range g.Inputs {
		if l.of[v] = l.to.Input(g.Values[v].Name); l.steps && l.pure && p.Type(v).Format.Half() {
			l.of[v] = l.to.Add(graph.Cast{Dtype: c.Half.String()}, g.Values[v].Name+".narrow", l.of[v])
		}
		l.wide[v] = k < len(c.Unrounded) && c.Unrounded[k]
	}
	for v := range g.Values {
		if t := g.Values[v].Const; t != nil {
			l.of[v] = l.to.Constant(g.Values[v].Name, t)
		}
	}
	for _, f := range l.folds {
		f.into(l)
	}
	for i := range g.Nodes {
		l.node(i, stored)
	}
	for _, v := range g.Outputs {
		l.to.Outputs = append(l.to.Outputs, l.of[v])
	}
	return l, nil
}

// Stored returns a graph with constants as the claim stores them, and casts to float32 as to its format: that
// is what x.to(y.dtype) has left in a recording of float32. A recording in that half has its own casts and constants,
// such as the angles of rotary positions in float32.
func (c Claim) Stored(g *graph.Graph) *graph.Graph {
	if !c.Pure || c.Native {
		return g
	}
	n := constantsIn(c.Half, g)
	n.Nodes = slices.Clone(g.Nodes)
	for i := range n.Nodes {
		if cast, is := n.Nodes[i].Op.(graph.Cast); is && cast.Dtype == fp16.Float32.String() {
			n.Nodes[i].Op = graph.Cast{Dtype: c.Half.String()}
		}
	}
	return n
}

// constantsIn returns a graph with constants in a format.
func constantsIn(f fp16.Format, g *graph.Graph) *graph.Graph {
	n := *g
	n.Values = slices.Clone(g.Values)
	for v := range n.Values {
		if t := n.Values[v].Const; t != nil && t.Format != fp16.Int64 && t.Format != f {
			n.Values[v].Const = Rounded(t, f)
		}
	}
	n.Kept = new(graph.Kept)
	return &n
}

// Rounded returns a tensor's numbers in a format.
func Rounded(t *tensor.Tensor, f fp16.Format) *tensor.Tensor {
	r := tensor.New(f, t.Shape...)
	f.RoundSlice(r.Data, t.Data)
	return r
}

// chooses notes a choice of a contract and says whether it is done; done is what the contract does if nothing else is
// said.
func (l *lowering) chooses(of kind, node, value int, name string, done bool, reads ...int) bool {
	c := Choice{choice: choice{of, node, value}, Name: name, reads: reads}
	if node >= 0 {
		c.op = l.from.Nodes[node].Op.Name()
	}
	c.Done = (done || of != result && of == l.also) != l.turned[c.choice]
	l.choices = append(l.choices, c)
	return c.Done
}

// fold takes the batch norms of a graph into weights that the contract has there.
func (l *lowering) fold(g *graph.Graph) *graph.Graph {
	l.from = g
	if _, half := l.claim.Narrow(); !half {
		return g
	}
	to := *g
	to.Values, to.Nodes, to.Kept = slices.Clone(g.Values), slices.Clone(g.Nodes), new(graph.Kept)
	norms := folds(g)
	for _, i := range slices.Sorted(maps.Keys(norms)) {
		conv, norm := &to.Nodes[i], &to.Nodes[norms[i]]
		if !l.chooses(weights, norms[i], norm.Out[0], g.Name(norm), l.constants, norm.In[0]) {
			continue
		}
		f := &fold{conv: *conv, norm: *norm}
		w, name := g.Values[conv.In[1]].Const, g.Name(conv)
		f.weight = to.Constant(name+".folded.weight", w)
		f.bias = to.Constant(name+".folded.bias", tensor.New(w.Format, w.Shape[0]))
		l.folds = append(l.folds, f)
		conv.In = []int{conv.In[0], f.weight, f.bias}
		norm.Op, norm.In = graph.Act{Func: act.Identity}, norm.In[:1]
		l.folded[norms[i]] = true
	}
	return &to
}

// node adds a node with its roundings.
func (l *lowering) node(i int, stored fp16.Format) {
	n := &l.from.Nodes[i]
	at := l.next(n)
	if l.folded[i] || l.keeps(i) {
		out, in := n.Out[0], n.In[0]
		l.of[out], l.made[out], l.kernel[out] = l.of[in], l.made[in], at
		l.wide[out] = l.wide[in] || !l.folded[i]
		return
	}
	in := make([]int, len(n.In))
	for k, v := range n.In {
		in[k] = l.of[v]
		if l.kernels && l.kernel[v] == at && l.made[v] > 0 && !windowed(n.Op) && l.reads(v) {
			in[k] = l.made[v]
		}
		if f := l.p.Operand(i, k); f.Half() && l.operand(i, v, f) {
			in[k] = l.round(v, f)
		}
	}
	name := l.from.Name(n)
	if l.joins[i] {
		l.project(n, name, at, in)
		return
	}
	if _, is := l.biases[i]; is {
		l.addend(i, at, name)
		return
	}
	if of, is := l.gates[i]; is {
		y, out := l.gate(n, of, name, in), n.Out[0]
		l.of[out], l.made[out], l.kernel[out] = l.store(i, y, out, stored), y, at
		return
	}
	if carries(n.Op) && l.late[n.In[0]] {
		l.carry(n, name, at)
		return
	}
	if l.biased(i) && l.chooses(bare, i, n.Out[0], name, l.peeled || l.biasApart(n) && l.stores(n.Op), n.In...) {
		b := in[2]
		if !l.chooses(shift, i, n.Out[0], name, !l.peeled, n.In[2]) {
			b = l.of[n.In[2]]
		}
		bias := l.to.Add(l.channelwise(n.In[0]), name+".bias", b)
		f := l.p.Type(n.Out[0]).Format
		y := l.to.Add(graph.Cast{Dtype: f.String()}, name+".product.stored", l.to.Add(n.Op, name+".product", in[:2]...))
		y = l.to.Add(graph.Addition, name, y, bias)
		l.of[n.Out[0]], l.made[n.Out[0]], l.kernel[n.Out[0]] = l.store(i, y, n.Out[0], stored), y, at
		return
	}
	if l.scales(i) && l.chooses(scaled, i, n.Out[0], name, false, n.In...) {
		of := l.scaled(i, name, in)
		l.of[n.Out[0]], l.made[n.Out[0]], l.kernel[n.Out[0]] = l.store(i, of, n.Out[0], stored), of, at
		return
	}
	if l.constants && foldable(l.from, n) {
		y, out := l.loaded(n, name, in), n.Out[0]
		l.of[out], l.made[out], l.kernel[out] = l.store(i, y, out, stored), y, at
		return
	}
	out := l.operation(n, l.reading(n, l.narrowed(i), name, in), name, in)
	for k, v := range n.Out {
		l.of[v] = l.store(i, out[k], v, stored)
		if l.kernel[v] = at; !isProduct(n.Op) {
			l.made[v] = out[k]
		}
	}
}

// channelwise spreads parameters over the channels of a value.
func (l *lowering) channelwise(v int) graph.Op {
	shape := graph.Ints(slices.Repeat([]int{1}, len(l.p.Type(v).Shape)))
	shape[1] = -1
	return graph.Reshape{Shape: shape}
}

// scales reports whether a node is a norm of images of a half type that has a scale and a shift.
func (l *lowering) scales(i int) bool {
	n := &l.from.Nodes[i]
	switch n.Op.(type) {
	case graph.GroupNorm, graph.InstanceNorm:
		return len(n.In) == 3 && l.p.Type(n.Out[0]).Format.Half()
	}
	return false
}

// scaled adds such a norm as three operations, and rounds what is normalized.
func (l *lowering) scaled(i int, name string, in []int) int {
	n := &l.from.Nodes[i]
	y := l.to.Add(n.Op, name+".normalized", in[0])
	y = l.to.Add(graph.Cast{Dtype: l.p.Type(n.Out[0]).Format.String()}, name+".normalized.stored", y)
	weight := l.to.Add(l.channelwise(n.In[0]), name+".weight", in[1])
	y = l.to.Add(graph.Binary{Of: pointwise.Mul}, name+".scaled", y, weight)
	return l.to.Add(graph.Addition, name, y, l.to.Add(l.channelwise(n.In[0]), name+".bias", in[2]))
}

// operand reports whether node i rounds a value to a format before it uses it. Of one that is stored in that format the
// rounding is idle.
func (l *lowering) operand(i, v int, f fp16.Format) bool {
	same := l.p.Type(v).Format == f
	if l.from.Values[v].Const != nil || same && !isProduct(l.from.Nodes[i].Op) {
		return l.operands && !same
	}
	for _, c := range l.choices { // which is one for all that read it
		if c.of == operand && c.value == v {
			return c.Done && !c.Idle
		}
	}
	done := l.chooses(operand, -1, v, l.from.Values[v].Name, l.operands && !l.Contract.wide, v)
	idle := same && !l.wide[v]
	l.choices[len(l.choices)-1].Idle = idle
	return done && !idle
}

// reads reports whether what a kernel has made is read within it before it is stored. Of what is not stored there is
// nothing to choose.
func (l *lowering) reads(v int) bool {
	if l.made[v] == l.of[v] {
		return true
	}
	for _, c := range l.choices { // which is one for all that read it
		if c.of == within && c.value == v {
			return c.Done
		}
	}
	return l.chooses(within, -1, v, l.from.Values[v].Name, true, v)
}

// narrowed is the operation of node i, with a number of its own in the type of the half numbers beside it where the
// contract has it so.
func (l *lowering) narrowed(i int) graph.Op {
	n := &l.from.Nodes[i]
	op, is := n.Op.(graph.Binary)
	if !is || op.Other == nil || !l.p.Type(n.In[0]).Format.Half() {
		return n.Op
	}
	other := l.p.Type(n.In[0]).Format.Round(*op.Other)
	if other == *op.Other || !l.chooses(number, i, n.Out[0], l.from.Name(n), false) {
		return n.Op
	}
	op.Other = &other
	return op
}

// keeps reports whether a node is a cast to a half precision that a contract leaves out: its numbers are kept as
// they are.
func (l *lowering) keeps(i int) bool {
	n := &l.from.Nodes[i]
	cast, is := n.Op.(graph.Cast)
	if !is || l.p.Type(n.In[0]).Format == fp16.Int64 {
		return false
	}
	f, err := fp16.ParseFormat(cast.Dtype)
	return err == nil && f.Half() && !l.chooses(result, i, n.Out[0], l.from.Name(n), l.stores(n.Op), n.In...)
}

// next is the kernel that a node belongs to.
func (l *lowering) next(n *graph.Node) (at int) {
	for _, v := range n.In {
		at = max(at, l.kernel[v])
	}
	if isProduct(n.Op) {
		at++
	}
	return at
}

// biased reports whether a node is a convolution of half numbers with a bias.
func (l *lowering) biased(i int) bool {
	n := &l.from.Nodes[i]
	return len(n.In) == 3 && strings.HasPrefix(n.Op.Name(), "conv") && l.p.Operand(i, 0).Half() && l.operands
}

// biasApart reports whether a convolution's bias is added by an operation of its own, which rounds once more. Under
// autocast on CUDA all are. On the CPU transposed ones may be: PyTorch has those of one half type in oneDNN, as one
// operation, and those of the other in a loop of its own.
func (l *lowering) biasApart(n *graph.Node) bool {
	return l.claim.Mode.BiasApart() || l.Contract.apart && transposed(n)
}

// transposed reports whether a node is a transposed convolution with a bias.
func transposed(n *graph.Node) bool {
	return len(n.In) == 3 && strings.HasPrefix(n.Op.Name(), "conv_transpose")
}

// round returns a value rounded to a format of operands.
func (l *lowering) round(v int, f fp16.Format) int {
	key := castKey{v, f}
	if made, ok := l.cast[key]; ok {
		return made
	}
	name := l.from.Values[v].Name + "." + f.String()
	if t := l.to.Values[l.of[v]].Const; t != nil {
		l.cast[key] = l.to.Constant(name, Rounded(t, f))
	} else {
		l.cast[key] = l.to.Add(graph.Cast{Dtype: f.String()}, name, l.of[v])
	}
	return l.cast[key]
}

// store returns what node i has made, for value v, as the contract stores it.
func (l *lowering) store(i, made, v int, stored fp16.Format) int {
	f := l.p.Type(v).Format
	last := f == stored && slices.Contains(l.from.Outputs, v) && !l.read(v)
	if !f.Half() || last {
		return made
	}
	n := &l.from.Nodes[i]
	if _, is := n.Op.(graph.Cast); is { // which has rounded
		return made
	}
	if !l.chooses(result, i, v, l.to.Values[made].Name, l.stores(n.Op) && !(l.chained && l.passes(v)), n.In...) {
		l.wide[v] = true
		return made
	}
	return l.to.Add(graph.Cast{Dtype: f.String()}, l.from.Values[v].Name+".stored", made)
}

// passes reports whether one operation alone reads a value, and is no product and reads it as it is.
func (l *lowering) passes(v int) bool {
	readers := 0
	for i := range l.from.Nodes {
		if n := &l.from.Nodes[i]; slices.Contains(n.In, v) {
			if readers++; isProduct(n.Op) || windowed(n.Op) {
				return false
			}
		}
	}
	return readers == 1 && !slices.Contains(l.from.Outputs, v)
}

// read reports whether a node reads a value.
func (l *lowering) read(v int) bool {
	return slices.ContainsFunc(l.from.Nodes, func(n graph.Node) bool { return slices.Contains(n.In, v) })
}
