package judge

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// attention is softmax(query key^T scale + mask) value, row by row, of some of all queries, from one on.
func (b *builder) attention(op graph.Attention, from, all int, n *graph.Node, in []int) int {
	q, k := b.types[n.In[0]].Shape, b.types[n.In[1]].Shape
	scale := 1 / math.Sqrt(float64(q[len(q)-1]))
	if op.Scale != nil {
		scale = *op.Scale
	}
	switch {
	case b.is("kernel.scale-missing"):
		scale = 1
	case b.is("kernel.scale-twice"):
		scale *= scale
	}
	key, value := in[1], in[2]
	if op.Grouped && len(q) > 2 && q[len(q)-3] != k[len(k)-3] {
		times := q[len(q)-3] / k[len(k)-3]
		key = b.step("key_heads", graph.RepeatInterleave{Repeats: times, Axis: whole(len(k) - 3)}, key)
		value = b.step("value_heads", graph.RepeatInterleave{Repeats: times, Axis: whole(len(k) - 3)}, value)
	}
	l, s := q[len(q)-2], k[len(k)-2]
	scores := b.scores(in[0], key, scale)
	if len(in) > 3 {
		mask := b.otherMask(in[3], b.types[n.In[3]], s-all)
		switch {
		case b.is("kernel.mask-missing"):
		case b.types[n.In[3]].Format == fp16.Int64:
			scores = b.step("masked", graph.Where{}, mask, scores, b.number(math.Inf(-1)))
		default:
			scores = b.may(true, b.step("masked", plus, scores, mask))
		}
	}
	if op.Causal && !b.is("kernel.mask-missing") {
		offset := from
		if b.is("kernel.mask-off-by-one") {
			offset++
		}
		if b.is("kernel.mask-strict") {
			offset--
		}
		if s != all && b.is(otherCorner) {
			offset += s - all
		}
		mask := b.Constant("", causal(l, s, offset))
		scores = b.step("causal", graph.Where{}, mask, scores, b.number(math.Inf(-1)))
	}
	if s > 16 && b.is("kernel.last-keys-dropped") {
		scores = b.step("dropped", graph.Where{}, b.Constant("", firstKeys(s, s-tail(s))), scores, b.number(math.Inf(-1)))
	}
	m := b.step("maximum", over("amax", -1), scores)
	once := !b.form.Online || b.form.BlockKeys == 0 || b.form.BlockKeys >= s
	forgotten := once && b.is(maximumForgotten)
	shifted := func() int {
		if forgotten {
			return scores
		}
		return b.step("shifted", sub, scores, m)
	}
	sum := func(e int) int {
		t := b.step("sum", over("sum", -1), e)
		if forgotten {
			b.overflow(e, t)
		}
		return t
	}
	if !b.form.Online {
		e := b.step("exp", unary("exp"), shifted())
		t := sum(e)
		p := b.may(true, b.step("probabilities", div, e, t))
		return b.weighted("output", p, value)
	}
	exp := unary("exp")
	if b.form.CoarseExp {
		exp = coarseExp{b.form.Lanes}
	}
	if once {
		e := b.step("exp", exp, shifted())
		t := sum(e)
		p := b.may(true, b.step("probabilities_unnormalized", same, e)) // the sum is of what is not rounded
		return b.step("output", div, b.weighted("weighted", p, value), t)
	}
	// each block of keys subtracts the greatest score so far; what came before is scaled
	r := b.step("running_maximum", runningMaximum{b.form.BlockKeys}, scores)
	e := b.step("exp", exp, b.step("shifted", sub, scores, r))
	ends, block := r, b.form.BlockKeys
	if s%block == 0 { // a block has one weight: exp is of as many numbers as there are blocks
		ends = b.step("block_maximum",
			graph.Slice{Axes: []int{-1}, Start: []int{block - 1}, End: []int{s}, Step: []int{block}}, r)
	}
	weight := b.step("rescale", unary("exp"), b.step("lower", sub, ends, m))
	if ends != r {
		weight = b.step("rescale_of_keys", graph.RepeatInterleave{Repeats: block, Axis: whole(-1)}, weight)
	}
	if b.is("kernel.online-not-rescaled") {
		weight = b.number(1)
	}
	t := b.step("sum", over("sum", -1), b.step("exp_rescaled", mul, e, weight))
	p := b.may(true, b.step("probabilities_unnormalized", same, e))
	weights := b.step("weights", mul, b.probabilities(p), weight) // of which sums are scaled, not operands
	return b.step("output", div, b.summed("weighted", graph.MatMul{}, weights, b.weightedValues(value)), t)
}

// scores are query key^T scale.
func (b *builder) scores(query, key int, scale float64) int {
	scaled := func(name string, x int, by float64) int { // which kernels hold in float32
		return b.may(true, b.step(name, mul, x, b.number(fp16.Float32.Round(by))))
	}
	after := 1.0
	switch b.form.Scaled {
	case "query":
		query = scaled("query_scaled", query, scale)
	case "key":
		key = scaled("key_scaled", key, scale)
	case "query by log2 e":
		query, after = scaled("query_scaled", query, scale*math.Log2E), math.Ln2
	case "query and key":
		root := math.Sqrt(math.Abs(scale))
		query, key = scaled("query_scaled", query, math.Copysign(root, scale)), scaled("key_scaled", key, root)
	default:
		after = scale
	}
	product := b.product
	if b.form.leaves(scores) {
		product = b.summed
	}
	turned := b.step("key_transposed", graph.Transpose{A: -2, B: -1}, key)
	s := b.may(true, product("products", graph.MatMul{}, query, turned))
	if after == 1 && b.form.Scaled != "" {
		return s
	}
	return b.may(true, b.step("scores", mul, s, b.number(after)))
}

// What of an attention a form may leave in float32: the product of query and key, that of probabilities and values, and
// the probabilities alone. Libraries choose for each product by its shape.
const scores, weighted, probabilities = "scores", "weighted", "probabilities"

// probabilities is the operand that they are of a product.
func (b *builder) probabilities(p int) int {
	if b.form.leaves(weighted) || b.form.leaves(probabilities) {
		return p
	}
	return b.operand(p)
}

// weightedValues is the operand that values are.
func (b *builder) weightedValues(v int) int {
	if b.form.leaves(weighted) {
		return v
	}
	return b.operand(v)
}

// weighted is the product of probabilities and values.
func (b *builder) weighted(name string, p, value int) int {
	if b.form.leaves(weighted) || b.form.leaves(probabilities) {
		return b.summed(name, graph.MatMul{}, p, b.weightedValues(value))
	}
	return b.product(name, graph.MatMul{}, p, value)
}

// scaledFirst are the forms of an attention that scales before its products.
func scaledFirst() (all []Form) {
	for _, of := range []string{"query", "key", "query by log2 e", "query and key"} {
		all = append(all, Form{Scaled: of}, Form{Scaled: of, Online: true})
	}
	return all
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
		return b.step(name,
			graph.Slice{Axes: graph.Ints{-1}, Start: graph.Ints{from * d / 2}, End: graph.Ints{(from + 1) * d / 2}}, x)
	}
	interleaved := op.interleaved
	if b.is("kernel.other-pairs") {
		interleaved = !interleaved
	}
	var turned int
	if interleaved {
		pairs := b.step("pairs", graph.Reshape{Shape: append(slices.Clone(shape[:len(shape)-1]), d/2, 2)}, in[0])
		a := b.step("even", graph.Slice{Axes: graph.Ints{-1}, Start: graph.Ints{0}, End: graph.Ints{1}}, pairs)
		c := b.step("odd", graph.Slice{Axes: graph.Ints{-1}, Start: graph.Ints{1}, End: graph.Ints{2}}, pairs)
		turned = b.step("rotated", graph.Reshape{Shape: shape},
			b.step("turned", graph.Cat{Axis: -1}, b.step("minus", unary("neg"), c), a))
	} else {
		a, c := part("first", 0, in[0]), part("second", 1, in[0])
		if b.is("kernel.other-sign") {
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
