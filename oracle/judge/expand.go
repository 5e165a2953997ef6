package judge

import (
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/pointwise"
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
	// Symmetric is a sigmoid as 1/2 + tanh(x/2)/2, or by a rational function about 1/2, as ONNX Runtime's:
	// its error does not become smaller where it does.
	Symmetric bool `json:"symmetric,omitempty"`
	// BiasAfter is a product that is stored before its bias is added, as by PyTorch on GPUs.
	BiasAfter bool `json:"bias_after,omitempty"`
	// Taps is a transposed convolution that stores each tap's products and adds up what it stored, as
	// PyTorch does on a CPU.
	Taps bool `json:"taps,omitempty"`
	// Operands is the format to which the operands of products are rounded first, tf32
	// (to even), "tf32 ties away", "tf32 truncated" or bfloat16; "" for none.
	Operands string `json:"operands,omitempty"`
	// Scalars is the format to which numbers that are written in a graph are rounded first, such as 0.1 in
	// x * 0.1: float16 or bfloat16, as by JAX; "" is float32. "float16 but of products" and "bfloat16 but of
	// products" leave those of mul and div in float32, as PyTorch does on a CPU.
	Scalars string `json:"scalars,omitempty"`
	// Accumulate is the format in which sums are kept, float16 or bfloat16; "" is float32. It is never found,
	// only claimed: of a kernel that says nothing it is a fault.
	Accumulate string `json:"accumulate,omitempty"`
}

// scalars is an operation with its scalars rounded.
func (f Form) scalars(op graph.Op) graph.Op {
	name, some := strings.CutSuffix(f.Scalars, butProducts)
	to, is := accumulators[name]
	if b, binary := op.(graph.Binary); !is || some && binary && (b.Of == pointwise.Mul || b.Of == pointwise.Div) {
		return op
	}
	return withScalars(op, to)
}

const butProducts = " but of products"

// builder makes the graph of steps of a graph of operations.
type builder struct {
	*graph.Graph
	form   Form
	types  []graph.Type // by value of the graph that is expanded
	of     []int        // by value of that graph: the value of the steps
	prefix string       // of the names of inner steps
	cores  bool         // whether products may be those of units for half or TF32 operands
	stored bool         // whether kernels keep a norm's statistics in the inputs' format
	fault  string       // the fault to build in, "" for none
	at     string       // the node that has it, "" for every one that can
	node   string
	points []point  // where rounding is an option
	inner  []string // the names of the results of operations that others read
	round  rounded
	broken bool // whether the fault could be built in
}

// point is a step whose result a kernel may round to the inputs' format.
type point struct {
	name  string
	value int
	legal bool // right kernels do it; else it is a fault
	some  bool // of some elements and not of others
}

// expand returns the steps of a graph.
func expand(g *graph.Graph, types []graph.Type, form Form, fault, at string) *builder {
	b := &builder{Graph: graph.New(new(graph.Kept)), form: form, types: types, of: make([]int, len(g.Values)), fault: fault, at: at, round: rounded{}}
	for i := range b.of {
		b.of[i] = -1
	}
	for _, v := range g.Inputs {
		b.of[v] = b.Input(g.Values[v].Name)
	}
	for v := range g.Values {
		if c := g.Values[v].Const; c != nil {
			b.of[v] = b.Constant(g.Values[v].Name, c)
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		b.node, b.prefix = g.Name(n), ""
		if len(g.Nodes) > 1 {
			b.prefix = g.Name(n) + "."
		}
		in := make([]int, len(n.In))
		for k, v := range n.In {
			in[k] = b.of[v]
		}
		rounded := *n
		rounded.Op = form.scalars(n.Op)
		out := b.steps(&rounded, in)
		for k, v := range n.Out {
			b.of[v] = out[k]
			if len(g.Nodes) > 1 && !slices.Contains(g.Outputs, v) && types[v].Format != fp16.Int64 {
				b.points = append(b.points, point{name: g.Values[v].Name, value: out[k], legal: true})
				b.inner = append(b.inner, g.Values[v].Name)
			}
		}
	}
	for _, v := range g.Outputs {
		b.Outputs = append(b.Outputs, b.of[v])
	}
	if f, is := accumulators[form.Accumulate]; is {
		for i := range b.Nodes {
			if name := b.Nodes[i].Op.Name(); sums[name] || products[name] {
				b.round[b.Nodes[i].Out[0]] = rounding{Format: f}
			}
		}
	}
	return b
}

// is reports whether a fault is to be built in here.
func (b *builder) is(fault string) bool {
	if b.fault != fault || b.at != "" && b.at != b.node {
		return false
	}
	b.broken = true
	return true
}

// step adds a step, whose result has a name within its node.
func (b *builder) step(name string, op graph.Op, in ...int) int {
	return b.Add(op, b.prefix+name, in...)
}

// may notes that kernels round a step's result, rightly or wrongly.
func (b *builder) may(legal bool, value int) int {
	b.points = append(b.points, point{name: b.Values[value].Name, value: value, legal: legal})
	return value
}

// names are those of the steps that right kernels may round.
func (b *builder) names() (names []string) {
	for _, p := range b.points {
		if p.legal && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// operand rounds an operand of a product.
func (b *builder) operand(v int) int {
	to, is := operands[b.form.Operands]
	switch {
	case is:
	case b.is("operands_tf32"):
		to = operands["tf32"]
	case b.is("operands_bfloat16"):
		to = operands["bfloat16"]
	default:
		return v
	}
	v = b.step("operand", same, v)
	b.round[v] = to
	return v
}

// operands are the ways in which operands of products are rounded, by the name that [Form] has for them.
var operands = map[string]rounding{
	"tf32": {Format: fp16.TF32}, "tf32 ties away": {Format: fp16.TF32, tf32: fp16.NearestAway}, "tf32 truncated": {Format: fp16.TF32, tf32: fp16.TowardZero},
	"bfloat16": {Format: fp16.BFloat16},
}

// product adds a product of two operands, and what is added to it.
func (b *builder) product(name string, op graph.Op, in ...int) int {
	in = slices.Clone(in)
	first := 0
	if op.Name() == "addmm" {
		first = 1
	}
	in[first], in[first+1] = b.operand(in[first]), b.operand(in[first+1])
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		if b.form.Accumulate == "" && canNarrow(op) && b.is("sums_"+f.String()) {
			op = narrowSums{op, f}
		}
	}
	return b.step(name, op, in...)
}

// biased adds a product with a bias of each channel.
func (b *builder) biased(op graph.Op, n *graph.Node, in []int) int {
	weight, out := b.types[n.In[1]].Shape, b.types[n.Out[0]].Shape
	taps := b.form.Taps && isTransposed(op)
	if len(in) > 2 && b.is("bias_missing") {
		in = in[:2]
	}
	if len(in) < 3 && !taps || !taps && !b.form.BiasAfter {
		return b.product("output", op, in...)
	}
	var y int
	if taps {
		y = b.taps(op, in, weight)
	} else {
		y = b.may(true, b.product("product", op, in[:2]...))
	}
	if len(in) < 3 {
		return y
	}
	bias := in[2]
	if _, is := op.(graph.Linear); !is {
		bias = b.channels(bias, out)
	}
	return b.step("output", plus, y, bias)
}

func isTransposed(op graph.Op) bool { return strings.HasPrefix(op.Name(), "conv_transpose") }

// taps adds up what each place of a kernel gives, in their order.
func (b *builder) taps(op graph.Op, in []int, weight []int) int {
	sum, n := -1, tensor.Size(weight[2:])
	for k := range n {
		mask := tensor.New(fp16.Float64, weight...)
		for i := k; i < len(mask.Data); i += n {
			mask.Data[i] = 1
		}
		y := b.product("tap", op, in[0], b.step("tap_weight", mul, in[1], b.Constant("", mask)))
		b.together("taps", y)
		if sum < 0 {
			sum = y
			continue
		}
		sum = b.step("tap_sum", plus, sum, y)
		b.together("taps", sum)
	}
	return sum
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
	case graph.Softmax:
		return one(b.softmax(op, shape, in[0]))
	case graph.LayerNorm:
		axes := lastAxes(shape, max(len(op.Shape), 1))
		weight, bias := b.parameters(in, func(k int) int { return in[k] })
		return one(b.norm(in[0], shape, axes, op.Eps, weight, bias))
	case graph.RMSNorm:
		return one(b.rms(op, in, shape))
	case graph.GroupNorm:
		return one(b.groups(in, shape, op.Groups, op.Eps))
	case graph.InstanceNorm: // PyTorch's is a batch norm, which keeps them
		b.stored = true
		defer func() { b.stored = false }()
		return one(b.groups(in, shape, shape[1], op.Eps))
	case graph.BatchNorm:
		if !op.Training {
			return one(b.running(in, shape, op.Eps))
		}
		b.stored = true
		defer func() { b.stored = false }()
		axes := []int{0}
		for a := 2; a < len(shape); a++ {
			axes = append(axes, a)
		}
		weight, bias := b.parameters(in, func(k int) int { return b.channels(in[k], shape) })
		return one(b.norm(in[0], shape, axes, op.Eps, weight, bias))
	case graph.Attention:
		return one(b.attention(op, 0, n, in))
	case someQueries:
		return one(b.attention(op.Attention, op.from, n, in))
	case crossEntropy:
		return one(b.crossEntropy(op, shape, in))
	case rotary:
		return one(b.rotary(op, shape, in))
	case graph.Cast:
		f, err := fp16.ParseFormat(op.Dtype)
		if err != nil || b.types[n.In[0]].Format == fp16.Int64 {
			break
		}
		v := b.step("output", same, in[0])
		if f == fp16.Float16 || f == fp16.BFloat16 {
			b.round[v] = rounding{Format: f}
		}
		return one(v)
	case graph.Act:
		return one(b.activation(op, in[0]))
	case graph.Unary:
		if op.Name() == "rsqrt" { // PyTorch rounds the root of the last numbers of a row, on a CPU
			s := b.may(true, b.step("sqrt", unary("sqrt"), in[0]))
			b.points[len(b.points)-1].some = true
			return one(b.step("output", unary("reciprocal"), s))
		}
		if op.Name() == "sigmoid" && b.form.Symmetric {
			return one(b.step("output", symmetric{op}, in[0]))
		}
		if op.Name() == "softsign" { // PyTorch and JAX compute it in three operations
			d := b.may(true, b.step("denominator", plus, b.step("size", unary("abs"), in[0]), b.number(1)))
			return one(b.step("output", div, in[0], d))
		}
	case graph.Reduction:
		if op.Of == "logsumexp" {
			m := b.step("maximum", graph.Reduction{Of: "amax", Axes: op.Axes, Keep: true}, in[0])
			e := b.may(true, b.step("exp", unary("exp"), b.may(true, b.step("shifted", sub, in[0], m)))) // PyTorch stores all of these
			l := b.may(true, b.step("log", unary("log"), b.may(true, b.step("sum", graph.Reduction{Of: "sum", Axes: op.Axes, Keep: op.Keep}, e))))
			if !op.Keep {
				m = b.step("maximum_again", graph.Reduction{Of: "amax", Axes: op.Axes}, in[0])
			}
			return one(b.step("output", plus, l, m))
		}
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

func lastAxes(shape []int, n int) (axes []int) {
	for a := len(shape) - n; a < len(shape); a++ {
		axes = append(axes, a)
	}
	return axes
}

// channelwise is the shape of what there is of each channel of a tensor [N,C,...].
func channelwise(shape []int) []int {
	s := slices.Repeat([]int{1}, len(shape))
	s[1] = shape[1]
	return s
}

func (b *builder) softmax(op graph.Softmax, shape []int, x int) int {
	axis := op.Axis
	if b.is("wrong_dim") {
		axis = otherAxis(shape, axis)
	}
	e, t, s := b.exponentials(x, axis, shape, op.Log)
	if op.Log {
		return b.step("output", sub, s, b.may(true, b.step("log", unary("log"), t)))
	}
	if axis != -1 && axis != len(shape)-1 { // PyTorch stores those of the last columns in the output before it divides, on a CPU
		e = b.may(true, b.step("exp_stored", same, e))
		b.points[len(b.points)-1].some = true
	}
	return b.step("output", div, e, t)
}

func otherAxis(shape []int, axis int) int {
	if len(shape) < 2 {
		return axis
	}
	if axis == len(shape)-1 || axis == -1 {
		return len(shape) - 2
	}
	return axis + 1
}

// tail is how many of n terms are in the last tile of 16, which a wrong mask leaves out.
func tail(n int) int {
	if n%16 == 0 {
		return 16
	}
	return n % 16
}

// lost is how many of n terms a fault leaves out at the end of a sum: fewer than all.
func (b *builder) lost(n int) int {
	switch {
	case n > 16 && b.is("tail_not_summed"):
		return tail(n)
	case n > 1 && b.is("last_term_dropped"):
		return 1
	}
	return 0
}

// part is what a sum along an axis is of: all, or all but the end.
func (b *builder) part(x int, shape []int, axis int) int {
	if axis < 0 {
		axis += len(shape)
	}
	lost := b.lost(shape[axis])
	if lost == 0 {
		return x
	}
	return b.step("part", graph.Slice{Axes: graph.Ints{axis}, End: graph.Ints{shape[axis] - lost}}, x)
}

// exponentials returns exp(x - maximum), their sum along an axis, and x - maximum. JAX keeps the last in the
// input's format, and PyTorch's log_softmax on a CPU the sum and its logarithm.
func (b *builder) exponentials(x, axis int, shape []int, stored bool) (e, t, s int) {
	m := b.step("maximum", over("amax", axis), x)
	s = b.may(true, b.step("shifted", sub, x, m))
	from := s
	if b.is("maximum_not_subtracted") {
		from = x
	}
	e = b.may(false, b.step("exp", unary("exp"), from))
	of := b.part(e, shape, axis)
	t = b.may(stored, b.step("sum", over("sum", axis), of))
	return e, t, s
}

// parameters returns the weight and the bias of a norm, as they are spread over its input; -1
// for none.
func (b *builder) parameters(in []int, spread func(k int) int) (weight, bias int) {
	weight, bias = -1, -1
	if len(in) > 1 && !b.is("weight_missing") {
		weight = spread(1)
	}
	if len(in) > 2 && !b.is("bias_missing") {
		bias = spread(2)
	}
	return weight, bias
}

// channels spreads what there is of each channel.
func (b *builder) channels(value int, shape []int) int {
	return b.step("parameter", graph.Reshape{Shape: channelwise(shape)}, value)
}

// norm is (x - mean)/sqrt(variance + eps), times a weight, plus a bias.
func (b *builder) norm(x int, shape, axes []int, eps float64, weight, bias int) int {
	n := 1
	for _, a := range axes {
		n *= shape[a]
	}
	var mean int
	of := b.part(x, shape, axes[len(axes)-1])
	mean = b.step("mean_exact", over("mean", axes...), of)
	about := mean // what the variance is about: the mean before it is stored
	mean = b.may(false, b.step("mean", same, mean))
	d := b.step("centered", sub, x, mean)
	var v int
	var kept []int
	switch {
	case b.form.OnePass:
		v = b.step("variance", sub, b.step("mean_square", over("mean", axes...), b.step("square", unary("square"), of)), b.step("square_mean", unary("square"), about))
		v = b.step("variance_0", unaryMax0(), v)
	default:
		c := d
		if of != x || b.stored {
			c = b.step("part_centered", sub, of, about)
		}
		squares := b.step("square", unary("square"), c)
		if b.stored {
			total, count := b.step("variance_sum", over("sum", axes...), squares), b.step("count", same, b.number(float64(n)))
			v = b.step("variance", div, total, count)
			kept = []int{total, count, v}
		} else {
			v = b.step("variance", over("mean", axes...), squares)
		}
	}
	if b.is(onePassID) {
		v = b.step("nudged", mul, v, b.number(1+nudge))
	}
	if b.is("variance_n_minus_1") && n > 1 {
		v = b.step("unbiased", mul, v, b.number(float64(n)/float64(n-1)))
	}
	b.may(false, v)
	rstd := b.root(v, eps)
	if b.stored { // of float16 PyTorch keeps the first two, and of bfloat16 all, even n
		b.together("statistics", mean, rstd)
		b.together("variances", kept...)
	}
	if b.is("mean_not_subtracted") {
		d = x
	}
	return b.scaled(x, d, mean, rstd, weight, bias)
}

// root is 1/sqrt(v + eps).
func (b *builder) root(v int, eps float64) int {
	switch {
	case b.is("eps_ignored"):
	case b.is("eps_outside_root"):
		s := b.step("deviation", unary("sqrt"), v)
		return b.step("rstd", unary("reciprocal"), b.step("deviation_eps", plus, s, b.number(eps)))
	default:
		v = b.step("variance_eps", plus, v, b.number(eps))
	}
	return b.may(false, b.step("rstd", unary("rsqrt"), v))
}

// scaled is d*rstd*weight + bias, where d is x - mean, or x*scale + shift; parameters below 0
// there are none.
func (b *builder) scaled(x, d, mean, rstd, weight, bias int) int {
	if b.form.Affine && mean >= 0 {
		scale := rstd
		if weight >= 0 {
			scale = b.step("scale", mul, rstd, weight)
		}
		shift := b.step("shift", unary("neg"), b.step("mean_scale", mul, mean, scale))
		if bias >= 0 {
			shift = b.step("shift_bias", plus, shift, bias)
		}
		return b.step("output", plus, b.step("scaled", mul, x, scale), shift)
	}
	y := b.step("normalized", mul, d, rstd)
	if weight >= 0 {
		b.may(true, y)
		y = b.step("scaled", mul, y, weight)
	}
	if bias >= 0 {
		y = b.step("output", plus, y, bias)
	}
	return y
}

func (b *builder) rms(op graph.RMSNorm, in []int, shape []int) int {
	axes := lastAxes(shape, max(len(op.Shape), 1))
	eps := 0x1p-23
	if op.Eps != nil {
		eps = *op.Eps
	}
	of := b.part(in[0], shape, axes[len(axes)-1])
	x := in[0]
	if b.is("mean_subtracted") {
		x = b.step("centered", sub, x, b.step("mean", over("mean", axes...), x))
		of = x
	}
	v := b.may(false, b.step("mean_square", over("mean", axes...), b.step("square", unary("square"), of)))
	rstd := b.root(v, eps)
	weight := -1
	if len(in) > 1 && !b.is("weight_missing") {
		weight = in[1]
	}
	if weight >= 0 && b.is("weight_plus_one") {
		weight = b.step("weight_1", plus, weight, b.number(1))
	}
	return b.scaled(x, x, -1, rstd, weight, -1)
}

func (b *builder) groups(in []int, shape []int, groups int, eps float64) int {
	if b.is("groups_of_channels") && groups != shape[1] {
		groups = shape[1]
	} else if b.is("one_group") {
		groups = 1
	}
	x := b.step("grouped", graph.Reshape{Shape: []int{shape[0], groups, -1}}, in[0])
	n := tensor.Size(shape) / (shape[0] * groups)
	weight, bias := b.parameters(in, func(k int) int {
		full := b.step("spread", graph.Expand{Size: shape}, b.channels(in[k], shape))
		return b.step("parameter_grouped", graph.Reshape{Shape: []int{shape[0], groups, -1}}, full)
	})
	y := b.norm(x, []int{shape[0], groups, n}, []int{2}, eps, weight, bias)
	return b.step("output", graph.Reshape{Shape: shape}, y)
}

func real(v float64) *float64 { return &v }

// running is a batch norm in evaluation: its statistics are inputs.
func (b *builder) running(in []int, shape []int, eps float64) int {
	n := len(in)
	mean, v := b.channels(in[n-2], shape), b.channels(in[n-1], shape)
	rstd := b.root(v, eps)
	weight, bias := b.parameters(in[:n-2], func(k int) int { return b.channels(in[k], shape) })
	return b.scaled(in[0], b.step("centered", sub, in[0], mean), mean, rstd, weight, bias)
}

// attention is softmax(query key^T scale + mask) value, row by row, of queries from one on.
func (b *builder) attention(op graph.Attention, from int, n *graph.Node, in []int) int {
	q, k := b.types[n.In[0]].Shape, b.types[n.In[1]].Shape
	scale := 1 / math.Sqrt(float64(q[len(q)-1]))
	if op.Scale != nil {
		scale = *op.Scale
	}
	switch {
	case b.is("scale_missing"):
		scale = 1
	case b.is("scale_twice"):
		scale *= scale
	}
	key, value := in[1], in[2]
	if op.Grouped && len(q) > 2 && q[len(q)-3] != k[len(k)-3] {
		times := q[len(q)-3] / k[len(k)-3]
		key = b.step("key_heads", graph.RepeatInterleave{Repeats: times, Axis: whole(len(k) - 3)}, key)
		value = b.step("value_heads", graph.RepeatInterleave{Repeats: times, Axis: whole(len(k) - 3)}, value)
	}
	l, s := q[len(q)-2], k[len(k)-2]
	kt := b.step("key_transposed", graph.Transpose{A: -2, B: -1}, key)
	scores := b.may(true, b.product("products", graph.MatMul{}, in[0], kt))
	scores = b.may(true, b.step("scores", mul, scores, b.number(scale)))
	if len(in) > 3 {
		mask := in[3]
		switch {
		case b.is("mask_missing"):
		case b.types[n.In[3]].Format == fp16.Int64:
			scores = b.step("masked", graph.Where{}, mask, scores, b.number(math.Inf(-1)))
		default:
			scores = b.may(true, b.step("masked", plus, scores, mask))
		}
	}
	if op.Causal && !b.is("mask_missing") {
		offset := from
		if b.is("mask_off_by_one") {
			offset++
		}
		if b.is("mask_strict") {
			offset--
		}
		mask := b.Constant("", causal(l, s, offset))
		scores = b.step("causal", graph.Where{}, mask, scores, b.number(math.Inf(-1)))
	}
	if s > 16 && b.is("last_keys_dropped") {
		scores = b.step("dropped", graph.Where{}, b.Constant("", firstKeys(s, s-tail(s))), scores, b.number(math.Inf(-1)))
	}
	m := b.step("maximum", over("amax", -1), scores)
	if !b.form.Online {
		e := b.step("exp", unary("exp"), b.step("shifted", sub, scores, m))
		t := b.step("sum", over("sum", -1), e)
		p := b.may(true, b.step("probabilities", div, e, t))
		return b.product("output", graph.MatMul{}, p, value)
	}
	exp := unary("exp")
	if b.form.CoarseExp {
		exp = coarseExp{b.form.Lanes}
	}
	if b.form.BlockKeys == 0 || b.form.BlockKeys >= s {
		e := b.step("exp", exp, b.step("shifted", sub, scores, m))
		t := b.step("sum", over("sum", -1), e)
		p := b.may(true, b.step("probabilities_unnormalized", same, e)) // the sum is of what is not rounded
		return b.step("output", div, b.product("weighted", graph.MatMul{}, p, value), t)
	}
	// each block of keys subtracts the greatest score so far; what came before is scaled
	r := b.step("running_maximum", runningMaximum{b.form.BlockKeys}, scores)
	e := b.step("exp", exp, b.step("shifted", sub, scores, r))
	ends, block := r, b.form.BlockKeys
	if s%block == 0 { // a block has one weight: exp is of as many numbers as there are blocks
		ends = b.step("block_maximum", graph.Slice{Axes: []int{-1}, Start: []int{block - 1}, End: []int{s}, Step: []int{block}}, r)
	}
	weight := b.step("rescale", unary("exp"), b.step("lower", sub, ends, m))
	if ends != r {
		weight = b.step("rescale_of_keys", graph.RepeatInterleave{Repeats: block, Axis: whole(-1)}, weight)
	}
	if b.is("online_not_rescaled") {
		weight = b.number(1)
	}
	t := b.step("sum", over("sum", -1), b.step("exp_rescaled", mul, e, weight))
	p := b.may(true, b.step("probabilities_unnormalized", same, e))
	return b.step("output", div, b.product("weighted", graph.MatMul{}, b.step("weights", mul, p, weight), value), t)
}

func whole(v int) *int { return &v }

// causal is the mask of keys that a query sees, with so many more than it should.
func causal(l, s, offset int) *tensor.Tensor {
	t := tensor.New(fp16.Int64, l, s)
	for i := range l {
		for j := range min(s, max(0, i+1+offset)) {
			t.Data[i*s+j] = 1
		}
	}
	return t
}

// firstKeys is the mask of the first keys.
func firstKeys(s, seen int) *tensor.Tensor {
	t := tensor.New(fp16.Int64, s)
	for j := range seen {
		t.Data[j] = 1
	}
	return t
}

// crossEntropy is log(sum(exp(x - m))) + m - x[target] of each row, beside the mean of x in place of x[target].
func (b *builder) crossEntropy(op crossEntropy, shape []int, in []int) int {
	_, t, s := b.exponentials(in[0], 1, shape, true)
	l := b.may(true, b.step("log", unary("log"), t))
	at := b.step("column", graph.Reshape{Shape: []int{shape[0], 1}}, b.step("target_or_0", graph.Unary{Func: clip(0, float64(shape[1]-1))}, in[1]))
	loss := b.step("loss", sub, l, b.step("target_shifted", graph.Gather{Axis: 1}, s, at))
	loss = b.losses(op, "", in[1], b.step("row_losses", graph.Reshape{Shape: []int{shape[0]}}, loss))
	if op.Smoothing == 0 || b.is("smoothing_missing") {
		return b.step("output", same, loss)
	}
	defer func() { b.inner = b.names()[1:] }() // PyTorch stores all but what is shifted
	of := b.may(true, b.step("log_probabilities_negated", sub, l, s))
	all := b.losses(op, "smoothed_", in[1], b.may(true, b.step("smoothed", graph.Reduction{Of: "sum", Axes: []int{1}}, of)))
	scaled := func(name string, v int, by float64) int {
		return b.may(true, b.step(name, graph.Binary{Of: pointwise.Mul, Other: real(by)}, v))
	}
	return b.step("output", plus, scaled("loss_weighted", b.may(true, loss), 1-op.Smoothing), scaled("smoothed_weighted", all, op.Smoothing/float64(shape[1])))
}

// losses leaves rows out whose target is ignored, and adds them up or takes their mean.
func (b *builder) losses(op crossEntropy, prefix string, target, rows int) int {
	counted := b.step(prefix+"counted", graph.Binary{Of: pointwise.NotEqual, Other: real(float64(op.Ignore))}, target)
	if !b.is("ignore_index_missing") {
		rows = b.step(prefix+"losses", graph.Where{}, counted, rows, b.number(0))
	}
	if op.Reduction == "none" {
		return rows
	}
	all := graph.Reduction{Of: "sum", Axes: []int{0}}
	total := b.step(prefix+"total", all, b.may(true, rows))
	if op.Reduction == "sum" {
		return total
	}
	if b.is("ignored_targets_counted") {
		return b.step(prefix+"mean", graph.Reduction{Of: "mean", Axes: []int{0}}, rows)
	}
	return b.step(prefix+"mean", div, total, b.step(prefix+"count", all, counted))
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
	case op.Func == act.GELU && b.is("other_gelu"):
		op = graph.Act{Func: act.GELUTanh}
	case op.Func == act.GELUTanh && b.is("other_gelu"):
		op = graph.Act{Func: act.GELU}
	case op.Func == act.GELU && b.is("relu_for_gelu"), op.Func == act.GELUTanh && b.is("relu_for_gelu"):
		op = graph.Act{Func: act.ReLU}
	case (op.Func == act.GELU || op.Func == act.GELUTanh || op.Func == act.SiLU) && b.is("quick_gelu"):
		s := b.step("sigmoid", unary("sigmoid"), b.step("argument", mul, x, b.number(1.702)))
		return b.step("output", mul, x, s)
	case op.Func == act.SiLU && b.is("relu_for_silu"):
		op = graph.Act{Func: act.ReLU}
	case op.Func == act.SiLU && b.is("sigmoid_for_silu"):
		return b.step("output", unary("sigmoid"), x)
	case op.Func == act.SiLU && b.form.Symmetric:
		return b.step("output", symmetric{op}, x)
	}
	return b.step("output", op, x)
}

// linear adds a product whose sums are along an axis, with its faults.
func (b *builder) linear(n *graph.Node, in []int) (int, bool) {
	axis := 1 // of the second operand, that is summed
	a, c := b.types[n.In[0]].Shape, []int(nil)
	if len(n.In) > 1 {
		c = b.types[n.In[1]].Shape
	}
	switch n.Op.(type) {
	case graph.MatMul:
		if len(a) < 2 || len(c) < 2 {
			return 0, false
		}
		axis = len(c) - 2
	case graph.Linear, graph.Conv:
	case graph.ConvTranspose, graph.Convolution:
		return b.biased(n.Op, n, in), true
	default:
		if products[n.Op.Name()] && len(in) > 1 {
			return b.product("output", n.Op, in...), true
		}
		return 0, false
	}
	in = slices.Clone(in)
	if lost := b.lost(c[axis]); lost > 0 {
		in[1] = b.keep(in[1], c, axis, c[axis]-lost)
	}
	if b.is("last_term_twice") && c[axis] > 1 {
		in[1] = b.step("twice", sub, b.step("double", mul, in[1], b.number(2)), b.keep(in[1], c, axis, c[axis]-1))
	}
	if _, is := n.Op.(graph.MatMul); is && c[len(c)-1] == c[len(c)-2] && b.is("weight_transposed") {
		in[1] = b.step("transposed", graph.Transpose{A: -2, B: -1}, in[1])
	}
	if _, is := n.Op.(graph.MatMul); is {
		return b.product("output", n.Op, in...), true
	}
	if _, is := n.Op.(graph.Conv); is && c[2]*c[3] > 1 && b.is("weight_flipped") {
		in[1] = b.step("flipped", graph.Flip{Axes: []int{2, 3}}, in[1])
	}
	return b.biased(n.Op, n, in), true
}

// keep sets an operand to zero from a place along an axis on.
func (b *builder) keep(value int, shape []int, axis, until int) int {
	mask := tensor.New(fp16.Float64, append([]int{shape[axis]}, slices.Repeat([]int{1}, len(shape)-axis-1)...)...)
	for i := range until {
		mask.Data[i] = 1
	}
	return b.step("cut", mul, value, b.Constant("", mask))
}

// rotary is x cos + rotated x sin.
func (b *builder) rotary(op rotary, shape []int, in []int) int {
	d := shape[len(shape)-1]
	part := func(name string, from int, x int) int {
		return b.step(name, graph.Slice{Axes: graph.Ints{-1}, Start: graph.Ints{from * d / 2}, End: graph.Ints{(from + 1) * d / 2}}, x)
	}
	interleaved := op.interleaved
	if b.is("other_pairs") {
		interleaved = !interleaved
	}
	var turned int
	if interleaved {
		pairs := b.step("pairs", graph.Reshape{Shape: append(slices.Clone(shape[:len(shape)-1]), d/2, 2)}, in[0])
		a := b.step("even", graph.Slice{Axes: graph.Ints{-1}, Start: graph.Ints{0}, End: graph.Ints{1}}, pairs)
		c := b.step("odd", graph.Slice{Axes: graph.Ints{-1}, Start: graph.Ints{1}, End: graph.Ints{2}}, pairs)
		turned = b.step("rotated", graph.Reshape{Shape: shape}, b.step("turned", graph.Cat{Axis: -1}, b.step("minus", unary("neg"), c), a))
	} else {
		a, c := part("first", 0, in[0]), part("second", 1, in[0])
		if b.is("other_sign") {
			turned = b.step("rotated", graph.Cat{Axis: -1}, c, b.step("minus", unary("neg"), a))
		} else {
			turned = b.step("rotated", graph.Cat{Axis: -1}, b.step("minus", unary("neg"), c), a)
		}
	}
	p := b.step("products", mul, in[0], in[1])
	q := b.step("products_rotated", mul, turned, in[2])
	b.together("products", p, q)
	return b.step("output", plus, p, q)
}

// together notes steps that kernels round together, under one name.
func (b *builder) together(name string, values ...int) {
	for _, v := range values {
		b.points = append(b.points, point{name: b.prefix + name, value: v, legal: true})
	}
}
