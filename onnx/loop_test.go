package onnx_test

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/tensor"
)

// branchOf is a graph of one node with an output, and inputs of names.
func branchOf(node message, in []string, out string) message {
	var values []message
	for _, name := range in {
		values = append(values, valueOf(name, onnx.Float32))
	}
	return graphIs(all(node), nil, values, all(valueOf(out, onnx.Float32)))
}

// TestIfUnknown: of a condition that is made of an input's numbers both branches are in the graph, and one is
// chosen, whatever the other gives. A known condition has its branch alone.
func TestIfUnknown(t *testing.T) {
	root, double := branchOf(nodeOf("Sqrt", names("x"), names("a")), nil, "a"),
		branchOf(nodeOf("Sum", names("x", "x"), names("b")), nil, "b")
	m := modelOf(17, graphIs(all(
		nodeOf("Gemm", names("x", "w"), names("p")), nodeOf("ReduceSum", names("p"), names("s"), intOf("keepdims", 0)),
		nodeOf("Greater", names("s", "zero"), names("c")),
		nodeOf("If", names("c"), names("y"), graphOf("then_branch", root), graphOf("else_branch", double)),
	), all(floatsOf("w", []int{2, 2}, 1, 0, 0, 1), floatsOf("zero", nil, 0)), all(valueOf("x", onnx.Float32, 1, 2)),
		all(valueOf("y", onnx.Float32))))
	for _, c := range []struct{ x, want []float64 }{
		{[]float64{4, 9}, []float64{2, 3}}, {[]float64{-4, -9}, []float64{-8, -18}},
	} {
		if y := evaluate(t, m, tensor.Of(fp16.Float32, c.x, 1, 2)); !slices.Equal(y.Data, c.want) {
			t.Errorf("%v: %v, want %v", c.x, y.Data, c.want)
		}
	}
}

// TestLoops: Loop and Scan are what their bodies do, one turn after another, also backwards.
func TestLoops(t *testing.T) {
	x := tensor.Of(fp16.Float32, []float64{1, 2, 3, 4, 5, 6}, 3, 2)
	of := func(node message, constants ...message) message {
		return modelOf(17,
			graphIs(all(node), constants, all(valueOf("x", onnx.Float32, 3, 2)), all(valueOf("y", onnx.Float32))))
	}
	body := graphIs(all(nodeOf("Add", names("s", "v"), names("t")), nodeOf("Identity", names("t"), names("o"))), nil,
		all(valueOf("s", onnx.Float32), valueOf("v", onnx.Float32)),
		all(valueOf("t", onnx.Float32), valueOf("o", onnx.Float32)))
	scan := func(out []string, a ...message) message {
		return of(nodeOf("Scan", names("zero", "x"), out,
			append(a, intOf("num_scan_inputs", 1), graphOf("body", body))...), floatsOf("zero", []int{2}, 0, 0))
	}
	turns := graphIs(all(nodeOf("Add", names("s", "s"), names("t")), nodeOf("Less", names("i", "four"), names("on"))), nil,
		all(valueOf("i", onnx.Int64), valueOf("c", onnx.Bool), valueOf("s", onnx.Float32)),
		all(valueOf("on", onnx.Bool), valueOf("t", onnx.Float32)))
	four := message{}.num(2, uint64(onnx.Int64)).text(8, "four").in(9, message{4, 0, 0, 0, 0, 0, 0, 0})
	two := message{}.num(2, uint64(onnx.Int64)).text(8, "two").in(9, message{2, 0, 0, 0, 0, 0, 0, 0})
	for name, c := range map[string]struct {
		model message
		want  []float64
	}{
		"sum":  {scan(names("y", "z")), []float64{9, 12}},
		"sums": {scan(names("z", "y")), []float64{1, 2, 4, 6, 9, 12}},
		"sums, backwards": {scan(names("z", "y"), intsOf("scan_input_directions", 1),
			intsOf("scan_output_directions", 1)), []float64{9, 12, 8, 10, 5, 6}},
		"sums, axis 1": {scan(names("z", "y"), intsOf("scan_output_axes", 1)), []float64{1, 4, 9, 2, 6, 12}},
		"until 4": {of(nodeOf("Loop", names("", "", "x"), names("y"), graphOf("body", turns)), four),
			[]float64{32, 64, 96, 128, 160, 192}},
		"twice": {of(nodeOf("Loop", names("two", "", "x"), names("y"), graphOf("body", turns)), four, two),
			[]float64{4, 8, 12, 16, 20, 24}},
	} {
		if y := evaluate(t, c.model, x); !slices.Equal(y.Data, c.want) {
			t.Errorf("%s: %v, want %v", name, y.Data, c.want)
		}
	}
}

// TestSTFT: each number of each frame beside the sum of its definition.
func TestSTFT(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	for range 20 {
		batch, n, step := 1+r.IntN(2), 1+r.IntN(12), 1+r.IntN(5)
		length, half, parts := n+r.IntN(20), r.IntN(2), 1
		if half == 0 {
			parts = 1 + r.IntN(2)
		}
		x, w := tensor.New(fp16.Float32, batch, length, parts), make([]float32, n)
		for i := range x.Data {
			x.Data[i] = float64(float32(r.NormFloat64()))
		}
		for i := range w {
			w[i] = 1 + float32(i%3)/4
		}
		scalar := func(name string, v int) message {
			return message{}.num(2, uint64(onnx.Int64)).text(8, name).in(9, message{byte(v), 0, 0, 0, 0, 0, 0, 0})
		}
		y := evaluate(t,
			modelOf(17, graphIs(all(nodeOf("STFT", names("x", "step", "w"), names("y"), intOf("onesided", half))), all(
				scalar("step", step), floatsOf("w", []int{n}, w...),
			), all(valueOf("x", onnx.Float32, batch, length, parts)), all(valueOf("y", onnx.Float32)))), x)
		bins, frames := n, 1+(length-n)/step
		if half == 1 {
			bins = n/2 + 1
		}
		if !slices.Equal(y.Shape, []int{batch, frames, bins, 2}) {
			t.Fatalf("shape %v, want %v", y.Shape, []int{batch, frames, bins, 2})
		}
		for at := range batch * frames * bins {
			k, f, b := at%bins, at/bins%frames, at/bins/frames
			var sum complex128
			for i := range n {
				p := (b*length + f*step + i) * parts
				v := complex(round32(x.Data[p]*float64(w[i])), 0)
				if parts == 2 {
					v += complex(0, round32(x.Data[p+1]*float64(w[i])))
				}
				sum += v * cmplx.Rect(1, -2*math.Pi*float64(k*i%n)/float64(n))
			}
			if got := complex(y.Data[2*at], y.Data[2*at+1]); cmplx.Abs(got-sum) > 1e-6*float64(n) {
				t.Fatalf("number %d: %v, want %v", at, got, sum)
			}
		}
	}
}

// TestLoopsRefused: loops that do not end, or whose parts do not fit, are refused by the node's name.
func TestLoopsRefused(t *testing.T) {
	forever := graphIs(nil, nil, all(valueOf("i", onnx.Int64), valueOf("c", onnx.Bool)), all(valueOf("c", onnx.Bool)))
	unlike := graphIs(all(nodeOf("Add", names("v", "v"), names("o"))), nil, all(valueOf("v", onnx.Float32)),
		all(valueOf("o", onnx.Float32)))
	wide := branchOf(nodeOf("Concat", names("x", "x"), names("a"), intOf("axis", 0)), nil, "a")
	narrow := branchOf(nodeOf("Identity", names("x"), names("b")), nil, "b")
	for _, c := range []struct {
		node message
		want string
	}{
		{nodeOf("Loop", names(), names("y"), graphOf("body", forever)),
			`Loop "node": 16383 turns: takes more memory than a file of this size may`},
		{nodeOf("Loop", names("x"), names("y"), graphOf("body", forever)),
			`Loop "node": number of turns: it depends on input "x": want a constant, or the input's value given`},
		{nodeOf("Loop", names(), names("y")), `Loop "node": body: want a graph`},
		{nodeOf("Scan", names("x"), names("y"), graphOf("body", unlike)),
			`Scan "node": num_scan_inputs: 0 of 1 inputs: want 1 or more`},
		{nodeOf("Scan", names("x", "x"), names("z", "y"), intOf("num_scan_inputs", 2), graphOf("body", unlike)),
			`Scan "node": body: 1 inputs: want 2`},
		{nodeOf("Scan", names("x"), names("y"), intOf("num_scan_inputs", 1), intsOf("scan_input_axes", 3),
			graphOf("body", unlike)), `Scan "node": scan_input_axes: 3: want an axis of rank 1`},
		{nodeOf("If", names("one"), names("y"), graphOf("then_branch", wide), graphOf("else_branch", narrow)),
			`If "node": output 0: float32[4] or float32[2], by a condition that is not known: want one type`},
	} {
		of := []message{c.node.text(3, "node")}
		of = append([]message{nodeOf("ReduceMax", names("x"), names("m"), intOf("keepdims", 0)),
			nodeOf("Cast", names("m"), names("one"), intOf("to", 9))}, of...)
		m, err := read(modelOf(17, graphIs(of, nil, all(valueOf("x", onnx.Float32, 2)), all(valueOf("y", onnx.Float32)))))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.Graph(nil); errorText(err) != c.want {
			t.Errorf("%q\nwant %q", errorText(err), c.want)
		}
	}
}
