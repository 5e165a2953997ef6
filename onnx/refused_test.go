package onnx_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/onnx"
)

// TestRefused: what is wrong with a node is said in one line, with the node's name.
func TestRefused(t *testing.T) {
	lens := tensorOf("lens", onnx.Int32, []byte{2, 0, 0, 0, 5, 0, 0, 0}, 2)
	weights := func(d, rows, in, hidden int) []message {
		of := func(name string, shape ...int) message {
			n := 1
			for _, s := range shape {
				n *= s
			}
			return floatsOf(name, shape, make([]float32, n)...)
		}
		return all(of("W", d, rows, in), of("R", d, rows, hidden), of("B", d, 2*rows), lens)
	}
	of := func(op string, in []string, a ...message) message {
		return nodeOf(op, in, names("y"), a...).text(3, "node")
	}
	full := names("x", "W", "R", "B")
	for _, c := range []struct {
		node      message
		constants []message
		want      string
	}{
		{of("LSTM", full), weights(1, 12, 4, 3), `LSTM "node": W of shape [1 12 4]: want [1 12 5]`},
		{of("LSTM", full), weights(1, 16, 5, 3), `LSTM "node": W of shape [1 16 5]: want [1 12 5]`},
		{of("GRU", full), weights(1, 12, 5, 3), `GRU "node": W of shape [1 12 5]: want [1 9 5]`},
		{of("RNN", full, textOf("direction", "bidirectional")), weights(1, 3, 5, 3),
			`RNN "node": W of shape [1 3 5]: want [2 3 5]`},
		{of("RNN", full, textOf("direction", "sideways")), weights(1, 3, 5, 3),
			`RNN "node": direction "sideways": want forward, reverse or bidirectional`},
		{of("RNN", full, intOf("layout", 2)), weights(1, 3, 5, 3), `RNN "node": layout: 2: want 0 or 1`},
		{of("RNN", full, intOf("hidden_size", 4)), weights(1, 3, 5, 3), `RNN "node": hidden_size: 4: want that of R, 3`},
		{of("RNN", names("x", "W", "R", "R")), weights(1, 3, 5, 3), `RNN "node": B of shape [1 3 3]: want [1 6]`},
		{of("RNN", names("x", "W", "R", "B", "", "R")), weights(1, 3, 5, 3),
			`RNN "node": initial_h of shape [1 3 3]: want [1 2 3]`},
		{of("LSTM", names("x", "W", "R", "B", "", "", "", "R")), weights(1, 12, 5, 3),
			`LSTM "node": P of shape [1 12 3]: want [1 9]`},
		{of("RNN", names("x", "W", "R", "B", "lens")), weights(1, 3, 5, 3),
			`RNN "node": sequence_lens: 5 of sample 1: want 0 to 4 steps`},
		{of("RNN", names("B", "W", "R")), weights(1, 3, 5, 3),
			`RNN "node": input and R of shapes [1 6] and [1 3 3]: want 3 axes each`},
		{of("GRU", full, textsOf("activations", "Tanh")), weights(1, 9, 5, 3), `GRU "node": activations: 1 of them: want 2`},
		{of("GRU", full, textsOf("activations", "Tanh", "Mish")), weights(1, 9, 5, 3),
			`GRU "node": activations: "Mish": want Relu, Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, ` +
				`ScaledTanh, HardSigmoid, Elu, Softsign or Softplus`},
		{of("Frobnicate", names("x")).text(7, "com.microsoft"), nil, `com.microsoft.Frobnicate "node": not supported`},
		{of(
			"MatMulNBits", names("x", "x", "x"), intOf("N", 4), intOf("K", 5), intOf("bits", 3),
		).text(7, "com.microsoft"), nil, `com.microsoft.MatMulNBits "node": bits 3, N 4, K 5, block_size 0: want ` +
			`2, 4 or 8 bits, and blocks of a power of 2 from 16 on`},
		{of("QLinearMatMul", names("x", "x", "lens")), weights(1, 9, 5, 3),
			`QLinearMatMul "node": input 0: float32 numbers: want whole ones`},
		{of("FusedConv", names("x", "W"), textOf("activation", "Mish")).text(7, "com.microsoft"), weights(1, 2, 5, 3),
			`com.microsoft.FusedConv "node": activation "Mish": want Relu, Tanh, Sigmoid, LeakyRelu, HardSigmoid or Clip`},
		{of("GRU", names("x", "W")), weights(1, 9, 5, 3), `GRU "node": input 2: missing`},
	} {
		m, err := read(modelOf(17, graphIs(all(c.node), c.constants, all(valueOf("x", onnx.Float32, 4, 2, 5)),
			all(valueOf("y", onnx.Float32)))))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.Graph(nil); errorText(err) != c.want {
			t.Errorf("%q\nwant %q", errorText(err), c.want)
		}
	}
}

// oddInput is an input of a node of TestOdd.
type oddInput struct {
	d     onnx.DType
	shape []int
}

func f32(shape ...int) oddInput { return oddInput{onnx.Float32, shape} }

// oddNodes are right nodes of operations that TestOdd spoils.
var oddNodes = []struct {
	node func(in, out []string) message
	in   []oddInput
	out  int
}{
	{oddNode("RNN"),
		[]oddInput{f32(4, 2, 5), f32(1, 3, 5), f32(1, 3, 3), f32(1, 6), {onnx.Int32, []int{2}}, f32(1, 2, 3)}, 2},
	{oddNode("GRU", textOf("direction", "bidirectional"), intOf("linear_before_reset", 1)),
		[]oddInput{f32(4, 2, 5), f32(2, 9, 5), f32(2, 9, 3), f32(2, 18), {onnx.Int32, []int{2}}, f32(2, 2, 3)}, 2},
	{oddNode("LSTM", intOf("layout", 1)), []oddInput{f32(2, 4, 5), f32(1, 12, 5), f32(1, 12, 3), f32(1, 24),
		{onnx.Int32, []int{2}}, f32(2, 1, 3), f32(2, 1, 3), f32(1, 9)}, 3},
	{oddNode("MatMulInteger"), []oddInput{i8(2, 3, 4), i8(4, 5), i8(3), i8(5)}, 1},
	{oddNode("ConvInteger"), []oddInput{i8(1, 2, 5, 5), i8(4, 2, 3, 3), i8(), i8(4)}, 1},
	{oddNode("QLinearMatMul"), []oddInput{i8(3, 4), f32(3), i8(3), i8(4, 5), f32(5), i8(5), f32(), i8()}, 1},
	{oddNode("QLinearConv"),
		[]oddInput{i8(1, 2, 5, 5), f32(), i8(), i8(4, 2, 3, 3), f32(4), i8(4), f32(), i8(), {onnx.Int32, []int{4}}}, 1},
	{oddNode(contrib+"QGemm", intOf("transB", 1)),
		[]oddInput{i8(3, 4), f32(), i8(), i8(5, 4), f32(5), i8(5), {onnx.Int32, []int{5}}, f32(), i8()}, 1},
	{oddNode(contrib + "QLinearAdd"), []oddInput{i8(3, 4), f32(), i8(), i8(4), f32(), i8(), f32(), i8()}, 1},
	{oddNode(contrib + "QLinearSigmoid"), []oddInput{i8(3, 4), f32(), i8(), f32(), i8()}, 1},
	{oddNode(contrib + "QLinearGlobalAveragePool"), []oddInput{i8(1, 3, 4, 4), f32(), i8(), f32(), i8()}, 1},
	{oddNode(contrib+"QLinearAveragePool", intsOf("kernel_shape", 2, 2)),
		[]oddInput{i8(1, 3, 4, 4), f32(), i8(), f32(), i8()}, 1},
	{oddNode(contrib + "QLinearConcat"), []oddInput{f32(), i8(), i8(3, 4), f32(), i8(), i8(2, 4), f32(), i8()}, 1},
	{oddNode(contrib + "MatMulIntegerToFloat"), []oddInput{i8(3, 4), i8(4, 5), f32(), f32(5), i8(), i8(5), f32(5)}, 1},
	{oddNode(contrib + "DynamicQuantizeMatMul"), []oddInput{f32(3, 4), i8(4, 5), f32(5), i8(5), f32(5)}, 1},
	{oddNode(contrib + "DynamicQuantizeLSTM"), []oddInput{
		f32(4, 2, 5), i8(1, 5, 12), i8(1, 3, 12), f32(1, 24), {}, {}, {}, {}, f32(1), i8(1), f32(1), i8(1),
	}, 3},
	{oddNode("LRN", intOf("size", 3)), []oddInput{f32(1, 4, 3, 3)}, 1},
	{oddNode("ReverseSequence"), []oddInput{f32(4, 2, 3), {onnx.Int64, []int{2}}}, 1},
	{oddNode("RotaryEmbedding"), []oddInput{f32(2, 3, 5, 8), f32(2, 5, 4), f32(2, 5, 4)}, 1},
	{oddNode(contrib+"FusedMatMul", intOf("transA", 1), floatOf("alpha", 0.5)), []oddInput{f32(2, 4, 3), f32(2, 4, 5)}, 1},
	{oddNode(contrib+"FusedMatMul", intOf("transBatchB", 1)), []oddInput{f32(2, 3, 4), f32(4, 2, 5)}, 1},
	{oddNode(contrib+"FusedConv", textOf("activation", "Relu")),
		[]oddInput{f32(1, 2, 5, 5), f32(4, 2, 3, 3), f32(4), f32(1, 4, 3, 3)}, 1},
	{oddNode(contrib+"FusedGemm", textOf("activation", "Tanh")), []oddInput{f32(3, 4), f32(4, 5), f32(5)}, 1},
	{oddNode(contrib + "SkipLayerNormalization"), []oddInput{f32(1, 3, 4), f32(3, 4), f32(4), f32(4), f32(4)}, 1},
	{oddNode(contrib + "SkipSimplifiedLayerNormalization"), []oddInput{f32(1, 3, 4), f32(1, 3, 4), f32(4), f32(4)}, 1},
	{oddNode("SimplifiedLayerNormalization"), []oddInput{f32(1, 3, 4), f32(4)}, 1},
	{oddNode(contrib + "BiasGelu"), []oddInput{f32(3, 4), f32(4)}, 1},
	{oddNode(contrib + "FastGelu"), []oddInput{f32(3, 4), f32(4)}, 1},
	{oddNode(contrib + "EmbedLayerNormalization"), []oddInput{{onnx.Int32, []int{2, 3}}, {onnx.Int32, []int{2, 3}},
		f32(9, 4), f32(5, 4), f32(2, 4), f32(4), f32(4), {onnx.Int32, []int{2, 3}}}, 3},
	{oddNode(contrib + "RotaryEmbedding"),
		[]oddInput{f32(2, 3, 5, 8), {onnx.Int64, []int{2, 5}}, f32(9, 4), f32(9, 4)}, 1},
	{oddNode(contrib+"MultiHeadAttention", intOf("num_heads", 2)),
		[]oddInput{f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 8), f32(24), {onnx.Int32, []int{2, 5}}, f32(1, 2, 3, 5)}, 3},
	{oddNode(contrib+"MultiHeadAttention", intOf("num_heads", 2)), []oddInput{f32(2, 3, 8), f32(2, 5, 2, 2, 4)}, 1},
	{oddNode(contrib+"MultiHeadAttention", intOf("num_heads", 2)), []oddInput{f32(2, 3, 2, 3, 4)}, 1},
	{oddNode(contrib+"Attention", intOf("num_heads", 2), intOf("unidirectional", 1)),
		[]oddInput{f32(2, 3, 6), f32(6, 24), f32(24), {onnx.Int32, []int{2, 7}}, f32(2, 2, 2, 4, 4)}, 2},
	{oddNode(contrib+"QAttention", intOf("num_heads", 2)),
		[]oddInput{i8(2, 3, 6), i8(6, 24), f32(24), f32(), f32(), {onnx.Int32, []int{2}}, i8(), i8()}, 1},
	{oddNode(contrib+"GroupQueryAttention", intOf("num_heads", 4), intOf("kv_num_heads", 2), intOf("do_rotary", 1)),
		[]oddInput{f32(1, 3, 32), f32(1, 3, 16), f32(1, 3, 16), f32(1, 2, 5, 8), f32(1, 2, 5, 8),
			{onnx.Int32, []int{1}}, {onnx.Int32, nil}, f32(9, 4), f32(9, 4)}, 3},
}

// contrib comes before the names of ONNX Runtime's own operations.
const contrib = "com.microsoft/"

// i8 is an input of whole numbers.
func i8(shape ...int) oddInput { return oddInput{onnx.Int8, shape} }

func oddNode(op string, a ...message) func(in, out []string) message {
	domain, op := splitDomain(op)
	return func(in, out []string) message { return nodeOf(op, in, out, a...).text(3, "node").text(7, domain) }
}

// splitDomain returns the domain before a slash, if there is one, and the operation.
func splitDomain(op string) (string, string) {
	domain, name, ok := strings.Cut(op, "/")
	if !ok {
		return "", op
	}
	return domain, name
}

// TestOdd: a node of an input, or more, that is missing or does not fit is refused in one line that names it,
// or runs: nothing panics.
func TestOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(73, 74))
	all, out := names("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"), names("y", "z", "w")
	for _, c := range oddNodes {
		for k := range 300 {
			var in []string
			var values []message
			for i, x := range c.in {
				if x.shape = slices.Clone(x.shape); k > 0 && r.IntN(len(c.in)) == 0 {
					x.spoil(r)
				}
				if x.d == 0 {
					in = append(in, "")
					continue
				}
				var sizes []any
				for _, d := range x.shape {
					sizes = append(sizes, d)
				}
				in, values = append(in, all[i]), append(values, valueOf(all[i], x.d, sizes...))
			}
			node := c.node(in, out[:c.out])
			m, err := read(modelOf(17, graphIs([]message{node}, nil, values, []message{valueOf("y", onnx.Float32)})))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = m.Graph(nil)
			switch s := errorText(err); {
			case k == 0 && err != nil:
				t.Errorf("right: %s", s)
			case err != nil && (strings.Contains(s, "\n") || len(s) > 300 || !strings.Contains(s, `"node": `)):
				t.Errorf("%q", s)
			}
		}
	}
}

// spoil makes an input one that does not fit.
func (x *oddInput) spoil(r *rand.Rand) {
	n := len(x.shape)
	switch k := r.IntN(6); {
	case k == 0:
		x.d = 0
	case k == 1:
		x.d = []onnx.DType{onnx.Float16, onnx.Float32, onnx.Float64, onnx.Int64, onnx.Uint8, onnx.Int8}[r.IntN(6)]
	case k == 2 || n == 0:
		x.shape = slices.Insert(x.shape, r.IntN(n+1), r.IntN(4))
	case k == 3:
		i := r.IntN(n)
		x.shape = slices.Delete(x.shape, i, i+1)
	default:
		x.shape[r.IntN(n)] = r.IntN(6)
	}
}
