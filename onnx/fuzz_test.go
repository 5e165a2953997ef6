package onnx_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/onnx"
)

// FuzzRead: any bytes are refused in one line, or are a model; a model is refused in one
// line, or is a graph whose types can be inferred.
func FuzzRead(f *testing.F) {
	for _, b := range small() {
		f.Add([]byte(b))
	}
	for _, name := range networks[:2] {
		b, err := os.ReadFile(filepath.Join("testdata", "models", name+".onnx"))
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 32<<10 { // larger ones are executed too seldom
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := read(data)
		if err != nil {
			oneLine(t, err)
			return
		}
		g, _, err := m.Graph(nil)
		if err != nil {
			oneLine(t, err)
			return
		}
		var types []graph.Type
		for _, in := range m.Inputs {
			var shape []int
			for _, d := range in.Shape {
				shape = append(shape, d.Size)
			}
			format, _ := in.Type.Format()
			types = append(types, graph.Type{Shape: shape, Format: format})
		}
		if _, err := g.Infer(graph.Mode{Precision: 1}, types...); err != nil {
			t.Errorf("a graph that does not infer: %v", err)
		}
	})
}

func oneLine(t *testing.T, err error) {
	if s := err.Error(); s == "" || len(s) > 4096 || strings.ContainsAny(s, "\n\r\x1b") {
		t.Errorf("not one line: %q", s)
	}
}

// small are models of a few nodes, for each part of the format.
func small() map[string]message {
	x := all(valueOf("x", onnx.Float32, 2, 3))
	y := all(valueOf("y", onnx.Float32))
	typed := all(floatsOf("w", []int{3, 2}, 1, 2, 3, 4, 5, 6), wholesOf("shape", -1, 2))
	branch := func(op string) message {
		return graphIs(all(nodeOf(op, names("x"), names("b"))), nil, nil, all(valueOf("b", onnx.Float32)))
	}
	function := message{}.text(1, "Twice").text(4, "a").text(5, "b").text(6, "by").text(10, "own").
		in(9, message{}.num(2, 18)).in(7, nodeOf("Elu", names("a"), names("c"), refOf("alpha", "by")),
		nodeOf("Add", names("c", "c"), names("b")))
	image, line := all(valueOf("i", onnx.Float32, 1, 1, 3, 3)), all(valueOf("l", onnx.Float32, 6))
	return map[string]message{
		"cast": modelOf(25, graphIs(all(
			nodeOf("Cast", names("x"), names("a"), intOf("to", 17), intOf("saturate", 0)),
			nodeOf("Cast", names("a"), names("b"), intOf("to", 10)), nodeOf("QuantizeLinear", names("x", "s"),
				names("q"), intOf("output_dtype", 3)), nodeOf("DequantizeLinear", names("q", "s"), names("y")),
		), all(floatsOf("s", nil, 0.5)), x, y)),
		"scatter": modelOf(18, graphIs(all(
			nodeOf("ScatterElements", names("l", "at", "u"), names("e"), textOf("reduction", "mul")),
			nodeOf("Unsqueeze", names("at", "one"), names("nd")),
			nodeOf("ScatterND", names("e", "nd", "u"), names("y"), textOf("reduction", "mul")),
		), all(wholesOf("at", 1, 1, -1), wholesOf("one", 1), floatsOf("u", []int{3}, 2, 3, 4)), line, y)),
		"move": modelOf(18, graphIs(all(
			nodeOf("Slice", names("x", "a", "b", "a", "c"), names("s")),
			nodeOf("Pad", names("s", "p"), names("d"), textOf("mode", "edge")),
			nodeOf("Split", names("d"), names("f", "g"), intOf("axis", 1), intOf("num_outputs", 2)), nodeOf("Transpose",
				names("f"), names("t"), intsOf("perm", 1, 0)), nodeOf("Tile", names("t", "b"), names("e")),
			nodeOf("Einsum", names("e"), names("y"), textOf("equation", "ij->ji")),
		), all(wholesOf("a", 1, 0), wholesOf("b", 2, 2), wholesOf("c", 1, 1), wholesOf("p", 0, 1, 0, 1)), x, y)),
		"norm": modelOf(21,
			graphIs(all(nodeOf("GroupNormalization", names("i", "w", "b"), names("g"), intOf("num_groups", 1)), nodeOf(
				"MaxPool", names("g"), names("p", "n"), intsOf("kernel_shape", 2, 2), intOf("storage_order", 1),
			), nodeOf("Resize", names("p", "", "by"), names("z"), textOf("mode", "cubic"), intOf("antialias", 1)),
				nodeOf("ReduceMean", names("z"), names("y"))), all(floatsOf("w", []int{1}, 2),
				floatsOf("b", []int{1}, 1), floatsOf("by", []int{4}, 1, 1, 0.5, 1.5)), image, y)),
		"spectrum": modelOf(20, graphIs(all(nodeOf("Reshape", names("l", "n"), names("r")), nodeOf(
			"DFT", names("r"), names("f"), intOf("onesided", 1),
		), nodeOf("DFT", names("f"), names("y"), intOf("inverse", 1))), all(wholesOf("n", 1, 6, 1)), line, y)),
		"known": modelOf(18, graphIs(all(nodeOf("Size", names("x"), names("n")),
			nodeOf("Range", names("0", "n", "1"), names("r")), nodeOf("Div", names("r", "n"), names("d")), nodeOf(
				"Cast", names("d"), names("t"), intOf("to", 9),
			), nodeOf("NonZero", names("r"), names("z")), nodeOf("Reshape", names("z", "m"), names("k")),
			nodeOf("Gather", names("l", "k"), names("y"))), all(tensorOf("0", onnx.Int64, make([]byte, 8)),
			tensorOf("1", onnx.Int64, []byte{1, 0, 0, 0, 0, 0, 0, 0}), wholesOf("m", -1)), all(x[0], line[0]), y)),
		"product": modelOf(18, graphIs(all(nodeOf("MatMul", names("x", "w"), names("p")),
			nodeOf("Reshape", names("p", "shape"), names("y"))), typed, x, y)),
		"shapes": modelOf(18, graphIs(all(
			nodeOf("Shape", names("x"), names("s")), nodeOf("Constant", nil, names("one"), intsOf("value_ints", 1)),
			nodeOf("Gather", names("s", "one"), names("n")), nodeOf("Mul", names("n", "one"), names("m")),
			nodeOf("Concat", names("m", "m"), names("to"), intOf("axis", 0)), nodeOf("ConstantOfShape", names("to"), names("z")),
			nodeOf("MatMul", names("x", "z"), names("y"))), nil, x, y)),
		"open": modelOf(13, graphIs(all(nodeOf("Softmax", names("x"), names("y"), intOf("axis", 1))), nil,
			all(valueOf("x", onnx.Float32, "batch", 3)), y)),
		"if": modelOf(18, graphIs(all(
			nodeOf("Constant", nil, names("c"), message{}.text(1, "value").in(5, tensorOf("", onnx.Bool, []byte{1}))),
			nodeOf("If", names("c"), names("y"), graphOf("then_branch", branch("Relu")),
				graphOf("else_branch", branch("Loop")))), nil, x, y)),
		"function": modelOf(18, graphIs(all(nodeOf("Twice", names("x"), names("y"), floatOf("by", 0.5)).text(7, "own")),
			nil, x, y), function),
		"conv": modelOf(18, graphIs(all(
			nodeOf("Conv", names("i", "k"), names("y"), intsOf("pads", 1, 1, 0, 0), textOf("auto_pad", "NOTSET")),
		), all(floatsOf("k", []int{1, 1, 2, 2}, 1, 2, 3, 4)), all(valueOf("i", onnx.Float32, 1, 1, 3, 3)), y)),
		"attention": modelOf(24, graphIs(all(nodeOf("Attention", names("q", "q", "q"), names("y"),
			intOf("is_causal", 1))), nil, all(valueOf("q", onnx.Float32, 1, 1, 2, 2)), y)),
		"resize": modelOf(18, graphIs(all(
			nodeOf("Resize", names("i", "", "", "sizes"), names("y"), textOf("mode", "linear")),
		), all(wholesOf("sizes", 1, 1, 5, 5)), all(valueOf("i", onnx.Float32, 1, 1, 3, 3)), y)),
	}
}
