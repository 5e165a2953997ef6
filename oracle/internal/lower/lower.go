// Package lower writes the roundings of a claim into a graph, as casts: the operands that autocast casts, and the
// results that it stores. What comes of it is exact arithmetic with those roundings alone.
package lower

import (
	"maps"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
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
}

// Narrow returns the half format of a claim; ok is false if it has none.
func (c Claim) Narrow() (f fp16.Format, ok bool) {
	f = c.Mode.Precision
	if c.Pure {
		f = c.Half
	}
	return f, f.Half()
}

// Contract says which of a claim's roundings a device has.
type Contract struct {
	Name     string // "" for all
	operands bool   // those of the operands of products, by autocast
	stores   func(op graph.Op) bool
	kernels  bool         // what is made and read within one kernel is read before it is stored
	pure     bool         // without autocast: weights, inputs and all results are of the half type
	apart    bool         // biases of transposed convolutions are added to sums that are stored
	without  map[int]bool // the numbers of roundings that are left out
}

// Rounding is the rounding of a result that a contract stores.
type Rounding struct {
	Name   string // of the result
	number int    // of those of a contract, in the order of its graph
	node   int
	value  int
	reads  []int // the values that its node reads
}

// Follows reports whether a rounding is the next after another one: its node reads that result, or adds a bias to it.
func (r Rounding) Follows(other Rounding) bool {
	return other.node == r.node && other.number < r.number || other.node != r.node && slices.Contains(r.reads, other.value)
}

// Without returns a contract that leaves out some roundings more, as a compiler does that keeps results in registers.
func (k Contract) Without(some ...Rounding) Contract {
	without := maps.Clone(k.without)
	if without == nil {
		without = map[int]bool{}
	}
	for _, r := range some {
		without[r.number] = true
	}
	k.without = without
	return k
}

// Lacks reports whether a contract leaves out a rounding.
func (k Contract) Lacks(r Rounding) bool { return k.without[r.number] }

// products are the operations whose results a compiler leaves to a library, which stores them.
var products = []string{"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear", "matmul", "mm", "bmm",
	"addmm", "baddbmm", "gemm", "einsum", "scaled_dot_product_attention"}

// Contracts are those that right devices of a claim have of a graph: the claim's own first.
func (c Claim) Contracts(g *graph.Graph) []Contract {
	every := func(graph.Op) bool { return true }
	all := []Contract{{operands: true, stores: every}}
	if _, half := c.Narrow(); !half {
		return all
	}
	if c.Halves {
		all = append(all, Contract{Name: "a module in a half type", operands: true, stores: every, pure: true})
	}
	if c.Mode.Autocast != graph.NoAutocast && !c.Mode.BiasApart() && slices.ContainsFunc(g.Nodes, func(n graph.Node) bool { return transposed(&n) }) {
		all = append(all, Contract{Name: "biases of transposed convolutions added to stored sums", operands: true, stores: every, apart: true})
	}
	none := func(graph.Op) bool { return false }
	return append(all,
		Contract{Name: "what lies between two products is one kernel, which keeps float32",
			operands: true, stores: every, kernels: true},
		Contract{Name: "results of products stored, and what follows them kept in float32",
			operands: true, stores: isProduct},
		Contract{Name: "operands of products rounded, and all results kept in float32", operands: true, stores: none},
		Contract{Name: "float32", stores: none})
}

func isProduct(op graph.Op) bool { return slices.Contains(products, op.Name()) }

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
	kernel    []int
	wide      []bool // casts that are left out
	cast      map[castKey]int
	roundings []Rounding // so far, with those that are left out
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

// Roundings are those that [Claim.Lower] writes or, where the contract lacks them, would write.
func (c Claim) Roundings(g *graph.Graph, types []graph.Type, k Contract, stored fp16.Format) ([]Rounding, error) {
	l, err := c.lower(g, types, k, stored)
	if err != nil {
		return nil, err
	}
	return l.roundings, nil
}

func (c Claim) lower(g *graph.Graph, types []graph.Type, k Contract, stored fp16.Format) (*lowering, error) {
	if k.pure {
		c = Claim{Mode: graph.Mode{Precision: fp16.Float32}, Pure: true, Half: c.Mode.Precision, Native: true}
	}
	g = c.Stored(g)
	p, err := g.Infer(c.Mode, types...)
	if err != nil {
		return nil, err
	}
	n := len(g.Values)
	l := &lowering{
		claim: c, Contract: k, p: p, from: g, to: graph.New(new(graph.Kept)),
		of: make([]int, n), made: make([]int, n), kernel: make([]int, n), wide: make([]bool, n), cast: map[castKey]int{},
	}
	for _, v := range g.Inputs {
		l.of[v] = l.to.Input(g.Values[v].Name)
	}
	for v := range g.Values {
		if t := g.Values[v].Const; t != nil {
			l.of[v] = l.to.Constant(g.Values[v].Name, t)
		}
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
// is what x.to(y.dtype) has left in a recording of float32. A recording in that half has its casts itself.
func (c Claim) Stored(g *graph.Graph) *graph.Graph {
	if !c.Pure {
		return g
	}
	n := *g
	n.Values = slices.Clone(g.Values)
	for v := range n.Values {
		if t := n.Values[v].Const; t != nil && t.Format != fp16.Int64 && t.Format != c.Half {
			n.Values[v].Const = Rounded(t, c.Half)
		}
	}
	n.Nodes = slices.Clone(g.Nodes)
	for i := range n.Nodes {
		if cast, is := n.Nodes[i].Op.(graph.Cast); is && !c.Native && cast.Dtype == fp16.Float32.String() {
			n.Nodes[i].Op = graph.Cast{Dtype: c.Half.String()}
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

// node adds a node with its roundings.
func (l *lowering) node(i int, stored fp16.Format) {
	n := &l.from.Nodes[i]
	at := l.next(n)
	if l.keeps(n) {
		l.of[n.Out[0]], l.made[n.Out[0]], l.kernel[n.Out[0]], l.wide[n.Out[0]] = l.of[n.In[0]], l.made[n.In[0]], at, true
		return
	}
	in := make([]int, len(n.In))
	for k, v := range n.In {
		in[k] = l.of[v]
		if l.kernels && l.kernel[v] == at && l.made[v] > 0 && !windowed(n.Op) {
			in[k] = l.made[v]
		}
		if f := l.p.Operand(i, k); l.operands && f.Half() && (f != l.p.Type(v).Format || l.wide[v]) {
			in[k] = l.round(v, f)
		}
	}
	name := l.from.Name(n)
	if l.biasApart(n) && l.p.Operand(i, 0).Half() && l.operands {
		shape := graph.Ints(slices.Repeat([]int{1}, len(l.p.Type(n.In[0]).Shape)))
		shape[1] = -1
		bias := l.to.Add(graph.Reshape{Shape: shape}, name+".bias", in[2])
		y := l.store(i, l.to.Add(n.Op, name+".product", in[:2]...), n.Out[0], fp16.Float64)
		l.of[n.Out[0]], l.kernel[n.Out[0]] = l.store(i, l.to.Add(graph.Addition, name, y, bias), n.Out[0], stored), at
		return
	}
	out := l.to.AddNode(n.Op, name, len(n.Out), in...)
	for k, v := range n.Out {
		l.of[v] = l.store(i, out[k], v, stored)
		if l.kernel[v] = at; !isProduct(n.Op) {
			l.made[v] = out[k]
		}
	}
}

// keeps reports whether a node is a cast to a half precision that a contract leaves out: its numbers are kept as
// they are.
func (l *lowering) keeps(n *graph.Node) bool {
	cast, is := n.Op.(graph.Cast)
	if !is || l.stores(n.Op) || l.p.Type(n.In[0]).Format == fp16.Int64 {
		return false
	}
	f, err := fp16.ParseFormat(cast.Dtype)
	return err == nil && f.Half()
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

// biasApart reports whether a convolution's bias is added by an operation of its own, which rounds once
// more. Under autocast on CUDA all are. On the CPU transposed ones may be: PyTorch has those of one half type in oneDNN,
// as one operation, and those of the other in a loop of its own.
func (l *lowering) biasApart(n *graph.Node) bool {
	return len(n.In) == 3 && strings.HasPrefix(n.Op.Name(), "conv") && (l.claim.Mode.BiasApart() || l.apart && transposed(n))
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
	if t := l.from.Values[v].Const; t != nil {
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
	if !f.Half() || last || !l.stores(l.from.Nodes[i].Op) {
		return made
	}
	r := Rounding{l.to.Values[made].Name, len(l.roundings), i, v, l.from.Nodes[i].In}
	if l.roundings = append(l.roundings, r); l.Lacks(r) {
		return made
	}
	return l.to.Add(graph.Cast{Dtype: f.String()}, l.from.Values[v].Name+".stored", made)
}

// read reports whether a node reads a value.
func (l *lowering) read(v int) bool {
	return slices.ContainsFunc(l.from.Nodes, func(n graph.Node) bool { return slices.Contains(n.In, v) })
}
