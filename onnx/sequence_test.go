package onnx_test

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/tensor"
)

// scalarOf is a constant of one whole number.
func scalarOf(name string, v int) message {
	return message{}.num(2, uint64(onnx.Int64)).text(8, name).in(9, message{byte(v), byte(v >> 8), 0, 0, 0, 0, 0, 0})
}

// TestSequences: lists of tensors are what their operations say, where places in them are known.
func TestSequences(t *testing.T) {
	split := func(by string, a ...message) message {
		return nodeOf("SplitToSequence", names("x", by), names("s"), a...)
	}
	at := func(place string) message { return nodeOf("SequenceAt", names("s", place), names("y")) }
	joined := nodeOf("ConcatFromSequence", names("r"), names("y"), intOf("axis", 0))
	constants := all(scalarOf("0", 0), scalarOf("1", 1), scalarOf("2", 2), wholesOf("sizes", 1, 2))
	for name, c := range map[string]struct {
		nodes       []message
		want, shape []float64
	}{
		"equal parts": {all(split("2"), at("1")), []float64{5, 6}, []float64{1, 2}},
		"sizes":       {all(split("sizes"), at("1")), []float64{3, 4, 5, 6}, []float64{2, 2}},
		"one by one":  {all(split("", intOf("keepdims", 0)), at("2")), []float64{5, 6}, []float64{2}},
		"columns":     {all(split("1", intOf("axis", 1)), at("0")), []float64{1, 3, 5}, []float64{3, 1}},
		"inserted": {all(split("2"), nodeOf("SequenceInsert", names("s", "x", "0"), names("r")), joined),
			[]float64{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, []float64{6, 2}},
		"at the end": {all(nodeOf("SequenceEmpty", nil, names("s")), nodeOf("SequenceInsert", names("s", "x"),
			names("r")), joined), []float64{1, 2, 3, 4, 5, 6}, []float64{3, 2}},
		"erased": {all(split("1"), nodeOf("SequenceErase", names("s", "0"), names("r")), joined),
			[]float64{3, 4, 5, 6}, []float64{2, 2}},
		"stacked": {all(nodeOf("SequenceConstruct", names("x", "x"), names("r")),
			nodeOf("ConcatFromSequence", names("r"), names("y"), intOf("axis", 0), intOf("new_axis", 1))),
			[]float64{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, []float64{2, 3, 2}},
		"their number": {all(split("1"), nodeOf("SequenceLength", names("s"), names("n")),
			nodeOf("Cast", names("n"), names("y"), intOf("to", 1))), []float64{3}, nil},
	} {
		m := modelOf(18, graphIs(c.nodes, constants, all(valueOf("x", onnx.Float32, 3, 2)), all(valueOf("y", onnx.Float32))))
		y := evaluate(t, m, tensor.Of(fp16.Float32, []float64{1, 2, 3, 4, 5, 6}, 3, 2))
		var shape []float64
		for _, d := range y.Shape {
			shape = append(shape, float64(d))
		}
		if !slices.Equal(y.Data, c.want) || !slices.Equal(shape, c.shape) {
			t.Errorf("%s: %v%v, want %v%v", name, y.Data, y.Shape, c.want, c.shape)
		}
	}
	for _, c := range []struct {
		node message
		want string
	}{
		{nodeOf("SequenceAt", names("x", "0"), names("y")), `SequenceAt "node": input 0: want a sequence`},
		{nodeOf("SequenceAt", names("s", "2"), names("y")), `SequenceAt "node": position: 2: want one of 2`},
		{nodeOf("Relu", names("s"), names("y")), `Relu "node": input 0: missing`},
		{nodeOf("SplitToSequence", names("x", "0"), names("y")),
			`SplitToSequence "node": split: parts of 0 of 3: want 1 or more`},
		{nodeOf("Identity", names("x"), names("z")), `output "y": made by no node`},
		{nodeOf("SequenceInsert", names("s", "x"), names("y")), `output "y": a sequence: not supported`},
	} {
		m, err := read(modelOf(18, graphIs(all(split("2"), c.node.text(3, "node")), constants,
			all(valueOf("x", onnx.Float32, 3, 2)), all(valueOf("y", onnx.Float32)))))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.Graph(nil); errorText(err) != c.want {
			t.Errorf("%q\nwant %q", errorText(err), c.want)
		}
	}
}
