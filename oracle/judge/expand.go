package judge

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// Form says how kernels compute operations that consist of several: the steps between which
// they hold float32 numbers. All of these are right.
type Form struct {
	// Affine is a norm as x*scale + shift, with the mean inside shift, in place of
	// (x - mean)*scale.
	Affine bool `json:"affine,omitempty"`
	// OnePass is a variance as mean(x^2) - mean(x)^2.
	OnePass bool `json:"one_pass,omitempty"`
	// Online is an attention that divides by the sum of probabilities after its product with
	// the values.
	Online bool `json:"online,omitempty"`
	// BlockKeys is how many keys such an attention takes at a time: the greatest score so
	// far is subtracted. 0 is all.
	BlockKeys int `json:"block_keys,omitempty"`
	// CoarseExp is an attention's exp as 2^i (1 + f - cubic(f)), within 1.1e-4 of it in proportion, as
	// PyTorch computes it for half numbers on a CPU. Lanes is how many numbers its vectors have, 8 or
	// 16: what is left over at the end of a row has exp itself. 0 is none.
	CoarseExp bool `json:"coarse_exp,omitempty"`
	Lanes     int  `json:"lanes,omitempty"`
	// Composed is an activation, a softmax or a deviation in elementary operations, each of whose results may be
	// rounded.
	Composed bool `json:"composed,omitempty"`
	// Expanded is such an activation whose expm1 is made of exp and tanh, as XLA makes it in float16.
	Expanded bool `json:"expanded,omitempty"`
	// Symmetric is a sigmoid as 1/2 + tanh(x/2)/2, or by a rational function about 1/2, as ONNX Runtime's, or a fast
	// logarithm of half numbers, as XLA's on GPUs:
	// its error does not become smaller where it does.
	Symmetric bool `json:"symmetric,omitempty"`
	// BiasAfter is a product that is stored before its bias is added, as by PyTorch on GPUs, and of a linear layer
	// everywhere if its input is strided: whichever products are rounded are.
	BiasAfter bool `json:"bias_after,omitempty"`
	// Parts says how the terms of matrix products are divided into parts whose sums are stored in a half format, as cuBLAS
	// does of long products unless PyTorch's allow_bf16_reduced_precision_reduction, or that of fp16, is switched off.
	Parts    string `json:"parts,omitempty"`
	division division
	// Winograd is the size of the tiles, 2 or 4, of a 3 x 3 convolution by Winograd's method; 0 is none.
	Winograd int `json:"winograd,omitempty"`
	// Taps is a transposed convolution that stores each tap's products and adds up what it stored, as
	// PyTorch does on a CPU.
	Taps bool `json:"taps,omitempty"`
	// Backwards is set if it begins with the last tap, as of images whose channels are stored last.
	Backwards bool `json:"backwards,omitempty"`
	// Powers is how whole powers are multiplied out, "one factor after another" or "by squaring"; "" is one
	// function.
	Powers string `json:"powers,omitempty"`
	// Operands is the format to which the operands of products are rounded first, tf32
	// (to even), "tf32 ties away", "tf32 truncated" or bfloat16, or one of [Emulations]; "" for none. "tf32 but of
	// linear, matmul" leaves those of these operations in float32, as PyTorch's default does, which has TF32 for
	// convolutions alone, and "but of scores", "weighted" or "probabilities" those of an attention's products.
	Operands string `json:"operands,omitempty"`
	// Singles says of single products of a chain, as of libraries that choose a kernel for each, how their operands are
	// rounded where it is another way; singles has it by node: an index to the ways, from 1 on, or 0.
	Singles string `json:"singles,omitempty"`
	singles string
	// Scaled is what an attention scales before the product of query and key, and rounds: "query", "key", "query by
	// log2 e" for an exp of base 2, or "query and key" by the root each, as PyTorch does without a kernel of its own;
	// "" is the scores.
	Scaled string `json:"scaled,omitempty"`
	// Scalars is the format to which numbers that are written in a graph are rounded first, such as 0.1 in
	// x * 0.1: float16 or bfloat16, as by JAX; "" is float32. "float16 but of products" and "bfloat16 but of
	// products" leave those of mul and div in float32, as PyTorch does on a CPU, and "but of products, leaky_relu" those
	// of an activation too.
	Scalars string `json:"scalars,omitempty"`
	// Reciprocal is set if a number is multiplied by the reciprocal of such a scalar, or of the sum of a softmax in
	// elementary operations, rounded once more, and not divided by it, as XLA makes it.
	Reciprocal bool `json:"reciprocal,omitempty"`
	// Weights is the format to which the weights of a resize along each axis are rounded, as PyTorch's are on a CPU.
	Weights string `json:"weights,omitempty"`
	// Positions is how a resize finds the nearest number in float32: "float32 ratio" by i times the ratio of sizes,
	// "float32 scale" by i over the scale; "" is exact.
	Positions string `json:"positions,omitempty"`
	// Copied is a resize that copies along axes whose size stays, and whose nearest number is each twice along those of
	// twice the size, whatever scale is given, as PyTorch does.
	Copied bool `json:"copied,omitempty"`
	// Sized is a resize by a scale whose corners are those of the whole sizes, as ONNX Runtime aligns them.
	Sized bool `json:"sized,omitempty"`
	// Atomic is the format to which each addition to a place that an index names is rounded, as by atomic additions
	// to half numbers and by PyTorch on a CPU, and each of a running sum, as by PyTorch on GPUs.
	Atomic string `json:"atomic,omitempty"`
	// Accumulate is the format in which sums are kept, float16 or bfloat16; "" is float32. It is never found,
	// only claimed: of a kernel that says nothing it is a fault.
	Accumulate string `json:"accumulate,omitempty"`
	// written is [Question.Written].
	written bool
	// loses is set if OnePass is claimed, and so whatever it loses.
	loses bool
}

// with is a form that has what another has besides.
func (f Form) with(g Form) Form {
	f.Affine, f.OnePass, f.Symmetric = f.Affine || g.Affine, f.OnePass || g.OnePass, f.Symmetric || g.Symmetric
	f.Composed, f.Expanded = f.Composed || g.Composed, f.Expanded || g.Expanded
	f.BiasAfter, f.Taps, f.Backwards = f.BiasAfter || g.BiasAfter, f.Taps || g.Taps, f.Backwards || g.Backwards
	if g.Online {
		f.Online, f.BlockKeys, f.CoarseExp, f.Lanes = true, g.BlockKeys, g.CoarseExp, g.Lanes
	}
	f.Reciprocal, f.Copied, f.Sized = f.Reciprocal || g.Reciprocal, f.Copied || g.Copied, f.Sized || g.Sized
	f.Scalars, f.Powers = cmp.Or(g.Scalars, f.Scalars), cmp.Or(g.Powers, f.Powers)
	f.Weights, f.Positions, f.Atomic = cmp.Or(g.Weights, f.Weights), cmp.Or(g.Positions, f.Positions),
		cmp.Or(g.Atomic, f.Atomic)
	f.Operands, f.Scaled = cmp.Or(g.Operands, f.Operands), cmp.Or(g.Scaled, f.Scaled)
	if g.Parts != "" {
		f.Parts, f.division = g.Parts, g.division
	}
	if g.singles != "" {
		f.Singles, f.singles = g.Singles, g.singles
	}
	return f
}

// narrow is the format to which an operation's scalars are rounded first, if they are.
func (f Form) narrow(op graph.Op) (fp16.Format, bool) {
	name, but, _ := strings.Cut(f.Scalars, butOf)
	to, is := accumulators[name]
	kept := strings.Split(but, ", ")
	product := op.Name() == "mul" || op.Name() == "div"
	return to, is && !slices.Contains(kept, op.Name()) && !(product && slices.Contains(kept, "products"))
}

const butOf = " but of "

// but is a name of [Form] that leaves out one more operation. Both products of an attention are the operation.
func but(name, op string) string {
	name, others, some := strings.Cut(name, butOf)
	if !some {
		return name + butOf + op
	}
	left := append(strings.Split(others, ", "), op)
	if both := []string{scores, weighted}; slices.Contains(left, scores) && slices.Contains(left, weighted) {
		left = append(besides(left, both), graph.Attention{}.Name())
	}
	return name + butOf + strings.Join(left, ", ")
}

// operand is how the operands of an operation's products are rounded, if they are.
func (f Form) operand(op string, node int) (rounding, bool) {
	name, _, _ := strings.Cut(f.Operands, butOf)
	if node < len(f.singles) && f.singles[node] > 0 {
		to, is := operands[tf32Ways[f.singles[node]-1]]
		return to, is
	}
	to, is := operands[name]
	return to, is && !f.leaves(op)
}

// leaves reports whether the operands of an operation are left out.
func (f Form) leaves(op string) bool {
	_, but, _ := strings.Cut(f.Operands, butOf)
	return slices.Contains(strings.Split(but, ", "), op)
}

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
	built     built        // the fault to build in
	node      string       // that is expanded
	index     int          // which it is
	op        graph.Op     // its operation
	in        []graph.Type // its inputs
	points    []point      // where rounding is an option
	emulates  map[int]bool // the products whose operands are in parts
	inner     []string     // the names of the results of operations that others read
	round     rounded
	broken    bool // whether the fault could be built in

	truncates bool       // whether the output is cut off, not rounded
	near      *nearEdges // is told the flips, if not nil
	turned    []flip     // that all kernels have
	turns     [][]flip   // that each kernel has, if not nil: its only errors
	thin      bool       // whether no radii are asked for, see thinStep
	keeps     bool       // whether units flush no subnormal numbers
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
		built: fault, round: rounded{}, emulates: map[int]bool{}}
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
	for i := range g.Nodes {
		n := &g.Nodes[i]
		b.node, b.index, b.op, b.prefix = g.Name(n), i, n.Op, ""
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
		for k, v := range n.Out {
			b.of[v] = out[k]
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
			if stepwise(b.Nodes[i].Op) {
				b.round[b.Nodes[i].Out[0]] = rounding{Format: f}
			}
		}
	}
	if f, is := accumulators[form.Accumulate]; is {
		for i := range b.Nodes {
			if name := b.Nodes[i].Op.Name(); sums[name] || products[name] || name == "prod" {
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
	case rotary:
		return one(b.rotary(op, shape, in))
	case graph.Cast:
		f, err := fp16.ParseFormat(op.Dtype)
		if err != nil || b.types[n.In[0]].Format == fp16.Int64 {
			break
		}
		v := b.step("output", same, in[0])
		if f.Half() {
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
	case op.Func == act.GELU && b.is("kernel.other-gelu"):
		op = graph.Act{Func: act.GELUTanh}
	case op.Func == act.GELUTanh && b.is("kernel.other-gelu"):
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
