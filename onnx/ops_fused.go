package onnx

import (
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// Operations of ONNX Runtime, into which its optimizer brings several of ONNX's. A product with a factor or a bias
// is one function; what is added or applied behind it rounds once more, as it does there.

// fusedOperations are those that are no attention and have no whole numbers.
func fusedOperations() map[string]mapping {
	return map[string]mapping{
		"FusedMatMul": opFusedMatMul, "FusedConv": opFusedConv, "FusedGemm": opFusedGemm, "MatMulNBits": opMatMulNBits,
		"SkipLayerNormalization": skipNorm(opLayerNormOf), "SkipSimplifiedLayerNormalization": skipNorm(opRMSNormOf),
		"EmbedLayerNormalization": opEmbedLayerNorm,
		"BiasGelu":                biased(act.GELU), "FastGelu": biased(act.GELUTanh), "Gelu": activation(act.GELU),
		"QuickGelu": unary("swish", "alpha", "alpha", float32Number(1.702)), "RotaryEmbedding": opRotaryMicrosoft,
	}
}

// biased is a function of a sum with a bias, if there is one.
func biased(f act.Func) mapping {
	return func(c *call) []int {
		v := c.arg(0)
		if c.has(1) {
			v = c.plus(v, c.in[1])
		}
		return one(c.add(graph.Act{Func: f}, v))
	}
}

// opFusedMatMul is alpha times a product of matrices, transposed or not, of which an axis before the last may be
// the first one.
func opFusedMatMul(c *call) []int {
	a, b, alpha := c.arg(0), c.arg(1), c.float("alpha", 1)
	a = c.turned(a, c.flag("transA"), c.flag("transBatchA"))
	b = c.turned(b, c.flag("transB"), c.flag("transBatchB"))
	if c.err == nil && alpha != 1 && c.rank(a) == 2 && c.rank(b) == 2 {
		return one(c.add(graph.Gemm{Alpha: alpha, Beta: 1}, a, b))
	}
	v := c.add(graph.MatMul{}, a, b)
	if alpha != 1 {
		v = c.add(graph.Binary{Of: pointwise.Mul, Other: &alpha}, v)
	}
	return one(v)
}

// turned transposes matrices, and brings their first axis before the last two.
func (c *call) turned(v int, matrix, batch bool) int {
	n := c.rank(v)
	if batch && n > 2 {
		axes := graph.Ints{}
		for a := 1; a < n-1; a++ {
			axes = append(axes, a)
		}
		v = c.add(graph.Permute{Axes: append(axes, 0, n-1)}, v)
	}
	if matrix && n > 1 {
		v = c.add(graph.Transpose{A: n - 2, B: n - 1}, v)
	}
	return v
}

// fusedActivation applies the activation that an attribute names, with its parameters.
func (c *call) fusedActivation(v int, parameters []float64) int {
	name := c.text("activation", "")
	if name == "" {
		return v
	}
	at := func(k int, otherwise float64) float64 {
		if k < len(parameters) {
			return parameters[k]
		}
		return float32Number(otherwise)
	}
	switch name {
	case "Relu":
		return c.add(graph.Act{Func: act.ReLU}, v)
	case "Tanh":
		return c.add(graph.Act{Func: act.Tanh}, v)
	case "Sigmoid":
		return c.function("sigmoid", nil, v)
	case "LeakyRelu":
		return c.function("leaky_relu", map[string]float64{"negative_slope": at(0, 0.01)}, v)
	case "HardSigmoid":
		return c.function("hard_sigmoid", map[string]float64{"alpha": at(0, 0.2), "beta": at(1, 0.5)}, v)
	case "Clip":
		if len(parameters) == 2 {
			return c.function("clip", map[string]float64{"min": parameters[0], "max": parameters[1]}, v)
		}
		c.fail("activation_params: %d numbers: want the two ends of Clip", len(parameters))
		return poison
	}
	c.fail("activation %.40q: want Relu, Tanh, Sigmoid, LeakyRelu, HardSigmoid or Clip", name)
	return poison
}

// opFusedConv is a convolution, to which an input may be added, and an activation.
func opFusedConv(c *call) []int {
	sum, given := absent, c.in
	if c.has(3) {
		sum, c.in = c.in[3], c.in[:3]
	}
	v := opConv(c)
	c.in = given
	if c.err != nil {
		return nil
	}
	if sum >= 0 {
		v = one(c.plus(v[0], sum))
	}
	return one(c.fusedActivation(v[0], c.list("activation_params")))
}

func opFusedGemm(c *call) []int {
	v := opGemm(c)
	var parameters []float64
	for _, name := range []string{"activation_alpha", "activation_beta"} {
		if a := c.attribute(name); a != nil {
			parameters = append(parameters, a.float)
		}
	}
	c.float("activation_gamma", 0)
	return one(c.fusedActivation(v[0], parameters))
}

// normOf is a norm over the last axis, with its weight and a bias or absent.
type normOf func(c *call, x, weight, bias int, eps float64) int

func opLayerNormOf(c *call, x, weight, bias int, eps float64) int {
	in := []int{x, weight}
	if bias >= 0 {
		in = append(in, bias)
	}
	return c.add(graph.LayerNorm{Eps: eps}, in...)
}

func opRMSNormOf(c *call, x, weight, bias int, eps float64) int {
	y := c.add(graph.RMSNorm{Eps: &eps}, x, weight)
	if bias >= 0 {
		y = c.plus(y, bias)
	}
	return y
}

// skipNorm is a norm of a sum of an input, a skip connection and, if it is given, a bias. The sum is rounded, and
// the fourth output. The simplified one has no beta among its inputs.
func skipNorm(norm normOf) mapping {
	return func(c *call) []int {
		eps := c.float("epsilon", float32Number(1e-12))
		beta, bias := c.optional(3), c.optional(4)
		if strings.Contains(c.node.op, "Simplified") {
			beta, bias = absent, beta
		}
		sum := c.plus(c.arg(0), c.arg(1))
		if bias >= 0 {
			sum = c.plus(sum, bias)
		}
		if c.err == nil && !equal(c.shape(sum), c.shape(c.in[0])) {
			x, skip := c.shape(c.in[0]), c.shape(c.in[1])
			c.fail("input and skip of shapes %v and %v: want the skip to be spread to the input", x, skip)
		}
		return []int{norm(c, sum, c.arg(2), beta, eps), absent, absent, sum}
	}
}

// opEmbedLayerNorm is a norm of the sum of rows that words, positions and, if they are given, segments name. Its
// mask, if it is asked for, is how many numbers of the given one are not 0.
func opEmbedLayerNorm(c *call) []int {
	eps := c.float("epsilon", float32Number(1e-12))
	c.int("mask_index_type", 0)
	ids := c.arg(0)
	if c.err == nil && c.rank(ids) != 2 {
		c.fail("input_ids of shape %v: want [batch,length]", c.shape(ids))
	}
	if c.err != nil {
		return nil
	}
	batch, length := c.shape(ids)[0], c.shape(ids)[1]
	position := c.optional(8)
	if position < 0 && c.room(length) {
		all := make([]int, length)
		for i := range all {
			all[i] = i
		}
		position = c.wholes([]int{1, length}, all...)
	}
	rows := func(table, index int) int { return c.add(graph.IndexSelect{FromEnd: true}, table, index) }
	sum := c.plus(rows(c.arg(2), ids), rows(c.arg(3), position))
	if c.has(1) && c.has(4) {
		sum = c.plus(sum, rows(c.in[4], c.in[1]))
	}
	if !c.room(batch) {
		return nil
	}
	mask := c.as(c.wholes([]int{batch}, make([]int, batch)...), Int32)
	if c.has(7) {
		zero := 0.0
		of := c.as(c.add(graph.Binary{Of: pointwise.NotEqual, Other: &zero}, c.in[7]), Int32)
		mask = c.as(c.add(graph.Reduction{Of: "sum", Axes: graph.Ints{1}}, of), Int32)
	}
	return []int{opLayerNormOf(c, sum, c.arg(5), c.arg(6), eps), mask, sum}
}

// opMatMulNBits is a product with a transposed matrix of few bits, in blocks along each row. A weight is
// (q - zero) scale, rounded to the scale's type.
func opMatMulNBits(c *call) []int {
	bits, n, k, block := c.int("bits", 4), c.int("N", 0), c.int("K", 0), c.int("block_size", 0)
	c.int("accuracy_level", 0) // the product is exact
	if c.has(4) {
		c.fail("input 4, g_idx: not supported")
	}
	fits := n > 0 && n <= 1<<30 && k > 0 && k <= 1<<30 && block >= 16 && block <= 1<<20 && block&(block-1) == 0
	if c.err == nil && (bits != 2 && bits != 4 && bits != 8 || !fits) {
		c.fail("bits %d, N %d, K %d, block_size %d: want 2, 4 or 8 bits, and blocks of a power of 2 from 16 on",
			bits, n, k, block)
	}
	if c.err != nil {
		return nil
	}
	blocks := (k + block - 1) / block
	if !c.room(n * blocks) {
		return nil
	}
	weight := c.unpacked(1, "B", bits, n*blocks, block)
	zero := make([]float64, n*blocks)
	for i := range zero {
		zero[i] = float64(int(1) << (bits - 1))
	}
	zeros := c.constant("", tensor.Of(fp16.Int64, zero, n*blocks, 1), Uint8)
	if c.has(3) && c.dtype(c.in[3]).whole() {
		each := (blocks*bits + 7) / 8 * 8 / bits
		zeros = c.unpacked(3, "zero_points", bits, n, each)
		zeros = c.add(graph.Slice{Axes: graph.Ints{1}, Start: graph.Ints{0}, End: graph.Ints{blocks}}, zeros)
		zeros = c.reshape(zeros, []int{n * blocks, 1}, true)
	} else if c.has(3) {
		c.fail("input 3: zero points of %v numbers: want whole ones", c.dtype(c.in[3]))
	}
	scale := c.arg(2)
	if c.err == nil && elements(c.shape(scale)) != n*blocks {
		c.fail("scales of shape %v: want %d numbers", c.shape(scale), n*blocks)
	}
	w := c.cast(c.as(c.add(graph.Binary{Of: pointwise.Sub}, weight, zeros), Int64), c.dtype(scale))
	w = c.times(w, c.reshape(scale, []int{n * blocks, 1}, true))
	w = c.reshape(w, []int{n, blocks * block}, true)
	w = c.add(graph.Slice{Axes: graph.Ints{1}, Start: graph.Ints{0}, End: graph.Ints{k}}, w)
	in := []int{c.arg(0), w}
	if c.has(5) {
		in = append(in, c.in[5])
	}
	return one(c.add(graph.Linear{}, in...))
}

// unpacked returns an input, constant bytes, as numbers of few bits, the low ones first.
func (c *call) unpacked(input int, what string, bits, rows, columns int) int {
	t := c.value(c.arg(input), what)
	per := 8 / bits
	if c.err == nil && (len(t.Data)*per != rows*columns || c.dtype(c.in[input]) != Uint8) {
		c.fail("%s of shape %v, %v numbers: want %d bytes", what, t.Shape, c.dtype(c.in[input]), rows*columns/per)
	}
	if c.err != nil || !c.room(rows*columns) {
		return poison
	}
	of := tensor.New(fp16.Int64, rows, columns)
	for i := range of.Data {
		of.Data[i] = float64(uint8(t.Data[i/per]) >> (i % per * bits) & (1<<bits - 1))
	}
	return c.constant("", of, Uint8)
}
