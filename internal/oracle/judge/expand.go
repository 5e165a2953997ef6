package judge

import (
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// builder makes the graph of steps of a graph of operations.
type builder struct {
	*graph.Graph
	form   Form
	types  []graph.Type // by value of the graph that is expanded
	of     []int        // by value of that graph: the value of the steps
	prefix string       // of the names of inner steps
	cores  bool         // whether products may be those of units for half or TF32 operands
	stored bool         // whether kernels keep a norm's mean and 1/deviation in the inputs' format
	// variances is set if they keep what makes its variance, even n: a batch norm of PyTorch on a CPU, of bfloat16.
	variances bool
	outside   bool         // whether eps is added to the root of the variance
	built     built        // the fault to build in
	node      string       // that is expanded
	index     int          // which it is
	op        graph.Op     // its operation
	in        []graph.Type // its inputs
	points    []point      // where rounding is an option
	emulates  map[int]bool // the products whose operands are in parts
	exact     map[int]bool // results that are whole numbers: no half type keeps their sums
	inner     []string     // the names of the results of operations that others read
	round     rounded
	broken    bool // whether the fault could be built in

	truncates bool       // whether the output is cut off, not rounded
	near      *nearEdges // is told the flips, if not nil
	turned    []flip     // that all kernels have
	turns     [][]flip   // that each kernel has, if not nil: its only errors
	thin      bool       // whether no radii are asked for, see thinStep
	wide      bool       // whether no bounds are asked for, nor float64, see nearly
	keeps     bool       // whether units flush no subnormal numbers
	singles   []bool     // the values that a kernel in float64 has in float32, see double.go; nil is none
	blocks    bool       // whether kernels may add up the pixels of a block in another order, where that shows
	inexact   []int      // inputs, see Question
}

// point is a step whose result a kernel may round to the inputs' format.
type point struct {
	name  string
	value int
	legal bool // right kernels do it; else it is a fault
	some  bool // of some elements and not of others
	moved bool // a value as it was, in another place: to round it says nothing more
}

// expand returns the steps of a graph.
func expand(g *graph.Graph, types []graph.Type, form Form, fault built) *builder {
	b := &builder{Graph: graph.New(new(graph.Kept)), form: form, types: types, of: make([]int, len(g.Values)),
		built: fault, keeps: form.Double, round: rounded{}, emulates: map[int]bool{}, exact: map[int]bool{}}
	b.Nodes, b.Values = make([]graph.Node, 0, len(g.Nodes)), make([]graph.Value, 0, len(g.Values))
	b.points, b.inner = make([]point, 0, len(g.Nodes)), make([]string, 0, len(g.Nodes))
	for i := range b.of {
		b.of[i] = -1
	}
	for k, v := range g.Inputs {
		b.of[v] = b.Input(g.Values[v].Name)
		b.of[v] = b.narrowInput(k, b.of[v], types[v])
	}
	for v := range g.Values {
		if c := g.Values[v].Const; c != nil {
			b.of[v] = b.Constant(g.Values[v].Name, c)
		}
	}
	singles := form.singlesOf(g, types)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		b.node, b.index, b.op, b.prefix = g.Name(n), i, n.Op, ""
		before := len(b.Values)
		if len(g.Nodes) > 1 {
			b.prefix = g.Name(n) + "."
		}
		in := make([]int, len(n.In))
		b.in = make([]graph.Type, len(n.In))
		for k, v := range n.In {
			in[k], b.in[k] = b.of[v], types[v]
		}
		rounded := *n
		if f, is := form.narrow(n.Op); is {
			if rounded.Op = withScalars(n.Op, f); form.Reciprocal {
				rounded.Op = byReciprocal(rounded.Op, f)
			}
			for k, v := range n.In {
				if given := g.Values[v].Const != nil || slices.Contains(g.Inputs, v); given &&
					len(types[v].Shape) == 0 && types[v].Format != fp16.Int64 {
					in[k] = b.step("scalar", same, in[k])
					b.round[in[k]] = rounding{Format: f}
				}
			}
		}
		out := b.steps(&rounded, in)
		if singles != nil && singles[n.Out[0]] {
			b.singles = append(b.singles, make([]bool, before-len(b.singles))...)
			b.singles = append(b.singles, slices.Repeat([]bool{true}, len(b.Values)-before)...)
		}
		for k, v := range n.Out {
			b.of[v] = out[k]
			if types[v].Format == fp16.Int64 {
				b.exact[out[k]] = true
			}
			if len(g.Nodes) > 1 && !slices.Contains(g.Outputs, v) && types[v].Format != fp16.Int64 {
				b.points = append(b.points,
					point{name: g.Values[v].Name, value: out[k], legal: !form.written, moved: moves[n.Op.Name()]})
				b.inner = append(b.inner, g.Values[v].Name)
			}
		}
	}
	for _, v := range g.Outputs {
		b.Outputs = append(b.Outputs, b.spoiled(b.of[v], types[v].Shape))
	}
	b.narrowStep()
	if f, is := accumulators[form.Atomic]; is {
		for i := range b.Nodes {
			if stepwise(b.Nodes[i].Op) && !b.exact[b.Nodes[i].Out[0]] {
				b.round[b.Nodes[i].Out[0]] = rounding{Format: f}
			}
		}
	}
	if f, is := accumulators[form.Accumulate]; is {
		for i := range b.Nodes {
			if name := b.Nodes[i].Op.Name(); (sums[name] || products[name] || name == "prod") &&
				!b.exact[b.Nodes[i].Out[0]] {
				b.round[b.Nodes[i].Out[0]] = rounding{Format: f}
			}
		}
	}
	return b
}

// is reports whether a fault is to be built in here.
func (b *builder) is(fault string) bool {
	if b.built.id != fault || b.built.at != "" && b.built.at != b.node {
		return false
	}
	b.broken = true
	return true
}

// step adds a step, whose result has a name within its node.
//
// It is called in many places, none of which is hot: a copy in each is code for nothing.
//
//go:noinline
func (b *builder) step(name string, op graph.Op, in ...int) int {
	return b.Add(op, b.prefix+name, in...)
}

// may notes that kernels round a step's result, rightly or wrongly.
func (b *builder) may(legal bool, value int) int {
	name := b.Values[value].Name
	if b.form.written {
		name = strings.TrimPrefix(name, b.prefix)
	}
	return b.point(name, legal, value)
}

// mayAlone is may of a step that kernels of one operation round in one node and not in another.
func (b *builder) mayAlone(legal bool, value int) int {
	return b.point(b.Values[value].Name, legal, value)
}

func (b *builder) point(name string, legal bool, value int) int {
	b.points = append(b.points, point{name: name, value: value, legal: legal})
	return value
}

// names are those of the steps that right kernels may round.
func (b *builder) names() (names []string) {
	seen := map[string]bool{}
	for _, p := range b.points {
		if p.legal && !p.moved && !seen[p.name] {
			names = append(names, p.name)
		}
		seen[p.name] = seen[p.name] || p.legal && !p.moved
	}
	return names
}

// some are as many of the steps as that allows, evenly spread over the graph.
func some[T any](steps []T, nodes int) []T {
	n := max(1, mostAlone/max(1, nodes))
	if n >= len(steps) {
		return steps
	}
	few := make([]T, n)
	for i := range few {
		few[i] = steps[i*len(steps)/n]
	}
	return few
}

func (b *builder) number(v float64) int {
	return b.Constant("", tensor.Of(fp16.Float64, []float64{v}, 1))
}

var (
	sub  = graph.Binary{Of: pointwise.Sub}
	mul  = graph.Binary{Of: pointwise.Mul}
	div  = graph.Binary{Of: pointwise.Div}
	plus = graph.Addition
	same = graph.Act{Func: act.Identity}
)

func unary(name string) graph.Op {
	f, err := pointwise.Parse(name, nil)
	if err != nil {
		panic("judge: " + err.Error())
	}
	return graph.Unary{Func: f}
}

func over(of string, axes ...int) graph.Op {
	return graph.Reduction{Of: of, Axes: axes, Keep: true}
}

// steps adds the steps of a node and returns the values of its outputs.
func (b *builder) steps(n *graph.Node, in []int) []int {
	shape := b.types[n.In[0]].Shape
	one := func(v int) []int { return []int{v} }
	switch op := n.Op.(type) {
	case graph.MinMax:
		return one(b.minmax(op.StartDim, shape, in[0]))
	case graph.ZScore:
		return one(b.zscore(op.StartDim, shape, in[0]))
	case graph.Softmax:
		return one(b.softmax(op, shape, in[0]))
	case graph.LayerNorm:
		axes := lastAxes(shape, max(len(op.Shape), 1))
		weight, bias := b.parameters(in, func(k int) int { return in[k] })
		return one(b.norm(in[0], shape, axes, op.Eps, weight, bias))
	case graph.RMSNorm:
		return one(b.rms(op, in, shape))
	case graph.GroupNorm: // PyTorch's on a GPU keeps them
		b.stored = true
		defer func() { b.stored = false }()
		return one(b.groups(in, shape, op.Groups, op.Eps))
	case graph.InstanceNorm: // PyTorch's is a batch norm
		b.stored, b.variances = true, true
		defer func() { b.stored, b.variances = false, false }()
		return one(b.groups(in, shape, shape[1], op.Eps))
	case graph.BatchNorm:
		if !op.Training {
			return one(b.running(in, shape, op.Eps))
		}
		b.stored, b.variances = true, true
		defer func() { b.stored, b.variances = false, false }()
		axes := []int{0}
		for a := 2; a < len(shape); a++ {
			axes = append(axes, a)
		}
		weight, bias := b.parameters(in, func(k int) int { return b.channels(in[k], shape) })
		return one(b.norm(in[0], shape, axes, op.Eps, weight, bias))
	case graph.Attention:
		return one(b.attention(op, 0, queries(b.types[n.In[0]].Shape), n, in))
	case someQueries:
		return one(b.attention(op.Attention, op.from, op.of, n, in))
	case crossEntropy:
		return one(b.crossEntropy(op, shape, in))
	case graph.Interpolate:
		return one(b.interpolate(op, shape, in[0]))
	case graph.GridSampler:
		return one(b.sample(op, in[0], in[1]))
	case rotary:
		return one(b.rotary(op, shape, in))
	case graph.Cast: // a rounding that is written down
		f, err := fp16.ParseFormat(op.Dtype)
		if err != nil || b.types[n.In[0]].Format == fp16.Int64 {
			break
		}
		v := b.step("output", same, in[0])
		if f.Half() || f == fp16.Float32 && b.form.Double {
			b.round[v] = rounding{Format: f}
		}
		return one(v)
	case graph.Act:
		return one(b.activation(op, in[0]))
	case graph.MaxPool:
		return b.maxPool(op, len(n.Out), in[0])
	case graph.AvgPool:
		return one(b.averagePool(op, in[0]))
	case graph.Unary:
		if v := b.composed(op, in[0]); v >= 0 {
			return one(v)
		}
		if (op.Name() == "rsqrt" || op.Name() == "sqrt") && b.is(rootForgotten) {
			return one(b.step("output", map[string]graph.Op{"sqrt": same, "rsqrt": unary("reciprocal")}[op.Name()], in[0]))
		}
		if op.Name() == "rsqrt" { // PyTorch rounds the root of the last numbers of a row, on a CPU
			s := b.may(true, b.step("sqrt", unary("sqrt"), in[0]))
			b.points[len(b.points)-1].some = true
			return one(b.step("output", unary("reciprocal"), s))
		}
		if b.form.Symmetric && kernels["symmetric "+op.Name()].off != nil {
			return one(b.step("output", symmetric{op}, in[0]))
		}
		if op.Name() == "softsign" { // PyTorch and JAX compute it in three operations
			d := b.may(true, b.step("denominator", plus, b.step("size", unary("abs"), in[0]), b.number(1)))
			return one(b.step("output", div, in[0], d))
		}
	case graph.Reduction:
		switch {
		case op.Of == "sum" || op.Of == "mean":
			return one(b.reduced(op, shape, in[0]))
		case op.Of == "logsumexp":
			return one(b.logSumExp(op, in[0]))
		}
	}
	if of := b.statistics(n, in); of != nil {
		return of
	}
	if of, ok := b.otherSteps(n, in); ok {
		return of
	}
	if op, ok := b.linear(n, in); ok {
		return one(op)
	}
	name := b.prefix + "output"
	if len(n.Out) == 1 {
		return one(b.Add(n.Op, name, in...))
	}
	return b.AddNode(n.Op, name, len(n.Out), in...)
}

func clip(lo, hi float64) pointwise.Func {
	f, err := pointwise.Parse("clip", map[string]float64{"min": lo, "max": hi})
	if err != nil {
		panic("judge: " + err.Error())
	}
	return f
}

func unaryMax0() graph.Op { return graph.Unary{Func: clip(0, math.Inf(1))} }

func (b *builder) activation(op graph.Act, x int) int {
	switch {
	case op.Func == act.GELU && b.is("kernel.tanh-gelu"):
		op = graph.Act{Func: act.GELUTanh}
	case op.Func == act.GELUTanh && b.is("kernel.erf-gelu"):
		op = graph.Act{Func: act.GELU}
	case op.Func == act.GELU && b.is("kernel.relu-for-gelu"), op.Func == act.GELUTanh && b.is("kernel.relu-for-gelu"):
		op = graph.Act{Func: act.ReLU}
	case (op.Func == act.GELU || op.Func == act.GELUTanh || op.Func == act.SiLU) && b.is("kernel.quick-gelu"):
		s := b.step("sigmoid", unary("sigmoid"), b.step("argument", mul, x, b.number(1.702)))
		return b.step("output", mul, x, s)
	case op.Func == act.SiLU && b.is("kernel.relu-for-silu"):
		op = graph.Act{Func: act.ReLU}
	case op.Func == act.SiLU && b.is("kernel.sigmoid-for-silu"):
		return b.step("output", unary("sigmoid"), x)
	case op.Func == act.SiLU && b.form.Symmetric:
		return b.step("output", symmetric{op}, x)
	}
	if v := b.composed(op, x); v >= 0 {
		return v
	}
	return b.step("output", op, x)
}

// together notes steps that kernels round together, under one name.
func (b *builder) together(name string, values ...int) {
	if !b.form.written {
		name = b.prefix + name
	}
	for _, v := range values {
		b.points = append(b.points, point{name: name, value: v, legal: true})
	}
}
