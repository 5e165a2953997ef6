package onnx_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/tensor"
)

// greedy are models of a few hundred bytes that ask for much: each operation that makes many numbers of few, at sizes
// that a machine might have, that none has, and beyond all numbers; chains that double; constants of sizes that the
// file does not have.
func greedy() map[string]message {
	models := map[string]message{}
	of := func(shape ...any) []message { return all(valueOf("x", onnx.Float32, shape...)) }
	line, image, column, y := of(4), of(1, 1, 3, 3), of(1<<15, 1), all(valueOf("y", onnx.Float32))
	constant := func(name string, v int) message {
		return nodeOf("Constant", nil, names(name), message{}.text(1, "value_int").num(3, uint64(v)).num(20, 2))
	}
	for _, n := range []int{1 << 15, 1 << 20, 1 << 31, 1 << 40, math.MaxInt64} {
		add := func(name string, inputs, constants []message, nodes ...message) {
			models[fmt.Sprint(name, " ", n)] = modelOf(18, graphIs(nodes, constants, inputs, y))
		}
		square, plane := all(wholesOf("n", n, n)), all(wholesOf("n", 1, 1, n, n))
		weights, one := all(floatsOf("w", []int{1, 1, 2, 2}, 1, 1, 1, 1)), all(floatsOf("w", []int{1, 1, 1, 1}, 1))
		add("ConstantOfShape", line, square, nodeOf("ConstantOfShape", names("n"), names("c")),
			nodeOf("Relu", names("c"), names("y")))
		add("Expand", line, all(wholesOf("n", n, n, 4)), nodeOf("Expand", names("x", "n"), names("y")))
		add("Tile", image, plane, nodeOf("Tile", names("x", "n"), names("y")))
		add("Range", line, all(wholesOf("row", 1, -1), wholesOf("column", -1, 1)), constant("0", 0), constant("n", n),
			constant("1", 1), nodeOf(
				"Range", names("0", "n", "1"), names("r"),
			), nodeOf("Cast", names("r"), names("f"), intOf("to", 1)), nodeOf("Reshape", names("f", "row"), names("a")),
			nodeOf("Reshape", names("f", "column"), names("b")), nodeOf("MatMul", names("b", "a"), names("y")))
		for _, mode := range []string{"constant", "edge", "wrap"} {
			add("Pad, "+mode, image, all(wholesOf("n", 0, 0, n, n, 0, 0, n, n)),
				nodeOf("Pad", names("x", "n"), names("y"), textOf("mode", mode)))
		}
		add("OneHot", line, all(floatsOf("v", []int{2}, 0, 1)), constant("n", n>>3<<13),
			nodeOf("Cast", names("x"), names("k"), intOf("to", 7)), nodeOf("OneHot", names("k", "n", "v"), names("y")))
		for _, mode := range []string{"nearest", "linear", "cubic"} {
			add("Resize, sizes, "+mode, image, plane,
				nodeOf("Resize", names("x", "", "", "n"), names("y"), textOf("mode", mode)))
			add("Resize, scales, "+mode, image, all(floatsOf("s", []int{4}, 1, 1, float32(n), float32(n))),
				nodeOf("Resize", names("x", "", "s"), names("y"), textOf("mode", mode)))
		}
		for _, by := range []string{"strides", "dilations", "output_padding", "output_shape"} {
			add("ConvTranspose, "+by, image, weights, nodeOf("ConvTranspose", names("x", "w"), names("y"), intsOf(by, n, n)))
		}
		add("Conv", image, one, nodeOf("Conv", names("x", "w"), names("y"), intsOf("pads", n, n, n, n)))
		for _, op := range []string{"MaxPool", "AveragePool", "LpPool"} {
			add(op, image, nil,
				nodeOf(op, names("x"), names("y"), intsOf("kernel_shape", n, n), intsOf("pads", n-1, n-1, n-1, n-1)))
		}
		add("EyeLike", line, square, nodeOf("ConstantOfShape", names("n"), names("c")),
			nodeOf("EyeLike", names("c"), names("y")))
		add("RNN", line, all(wholesOf("n", n, 1, 1), floatsOf("w", []int{1, 1, 1}, 1)),
			nodeOf("ConstantOfShape", names("n"), names("c")), nodeOf("RNN", names("c", "w", "w"), names("y")))
		long := nodeOf("ConstantOfShape", names("n"), names("c"))
		same := graphIs(all(nodeOf("Identity", names("v"), names("o"))), nil, all(valueOf("v", onnx.Float32)),
			all(valueOf("o", onnx.Float32)))
		turn := graphIs(nil, nil, all(valueOf("i", onnx.Int64), valueOf("on", onnx.Bool), valueOf("v", onnx.Float32)),
			all(valueOf("on", onnx.Bool), valueOf("v", onnx.Float32)))
		add("Scan", line, all(wholesOf("n", n, 1)), long,
			nodeOf("Scan", names("c"), names("y"), intOf("num_scan_inputs", 1), graphOf("body", same)))
		add("Loop", line, nil, constant("n", n), nodeOf("Loop", names("n", "", "x"), names("y"), graphOf("body", turn)))
		add("MatMulNBits", of(1, 16), all(floatsOf("s", []int{1}, 1)), nodeOf("MatMulNBits", names("x", "s", "s"),
			names("y"), intOf("N", n), intOf("K", 16), intOf("block_size", 16)).text(7, "com.microsoft"))
		if n > 1<<20 { // of fewer there is memory
			add("SplitToSequence", line, all(wholesOf("n", n, 1), scalarOf("1", 1)), long, nodeOf("SplitToSequence",
				names("c", "1"), names("s")), nodeOf("SequenceAt", names("s", "1"), names("y")))
			add("LRN", of(1, 4, 2, 2), nil, nodeOf("LRN", names("x"), names("y"), intOf("size", n)))
			add("ReverseSequence", line, all(wholesOf("n", n, 1), wholesOf("l", 1)), long,
				nodeOf("ReverseSequence", names("c", "l"), names("y")))
			add("LSTM of many samples", line, all(wholesOf("n", 1, n, 1), floatsOf("w", []int{1, 4, 1}, 1, 1, 1, 1)),
				long, nodeOf("LSTM", names("c", "w", "w"), names("y")))
			add("EmbedLayerNormalization", line, all(wholesOf("n", n, 1), floatsOf("w", []int{1, 1}, 1),
				floatsOf("g", []int{1}, 1)), long, nodeOf("Cast", names("c"), names("d"), intOf("to", 6)), nodeOf(
				"EmbedLayerNormalization", names("d", "", "w", "w", "", "g", "g"), names("y"),
			).text(7, "com.microsoft"))
		}
		add("STFT", of(1, 4, 1), all(wholesOf("n", 1, n, 1), scalarOf("1", 1)),
			nodeOf("Expand", names("x", "n"), names("c")), nodeOf("STFT", names("c", "1", "", "1"), names("y")))
		add("DFT", of(1, 4, 1), nil, constant("n", n>>3<<13), nodeOf("DFT", names("x", "n"), names("y"), intOf("axis", 1)))
		add("DepthToSpace", image, nil, nodeOf("DepthToSpace", names("x"), names("y"), intOf("blocksize", n)))
		add("Reshape", line, square, nodeOf("Reshape", names("x", "n"), names("y")))
		add("Trilu", column, square, nodeOf("ConstantOfShape", names("n"), names("e")),
			nodeOf("Trilu", names("e"), names("y")))
		dims := message{}.num(1, uint64(n)).num(1, uint64(n)).num(2, 1).text(8, "w")
		relu := nodeOf("Relu", names("w"), names("y"))
		add("a constant of no numbers", line, all(dims), relu)
		add("a constant of two", line, all(dims.in(9, message("12345678"))), relu)
		add("a constant that is spread", line, all(
			message{}.num(1, 0).num(1, uint64(n)).num(1, uint64(n)).num(2, 1).text(8, "w").in(9, nil), wholesOf("a", 0),
		), nodeOf("ReduceSum", names("w", "a"), names("y"), intOf("keepdims", 0)))
		add("an input", of(n, n), nil, nodeOf("Relu", names("x"), names("y")))
	}
	for name, nodes := range map[string][]message{
		"Einsum":   all(nodeOf("Einsum", names("x", "x"), names("y"), textOf("equation", "ia,ja->ij"))),
		"Einsum 3": all(nodeOf("Einsum", names("x", "x", "x"), names("y"), textOf("equation", "ia,jb,kc->ijk"))),
		"Gemm":     all(nodeOf("Gemm", names("x", "x"), names("y"), intOf("transB", 1))),
		"Gather": all(nodeOf("Cast", names("x"), names("k"), intOf("to", 7)),
			nodeOf("Gather", names("t", "k"), names("y"), intOf("axis", 0))),
		"GatherND": all(nodeOf("Cast", names("x"), names("k"), intOf("to", 7)),
			nodeOf("GatherND", names("t", "k"), names("y"))),
		"Where": all(nodeOf("Greater", names("x", "t"), names("c")), nodeOf("Where", names("c", "x", "t"), names("y"))),
	} {
		if name == "GatherND" { // rows of the row
			nodes = append(nodes[:1:1], nodeOf("Transpose", names("t"), names("u")), nodeOf("Concat", names("t", "t"),
				names("rows"), intOf("axis", 0)), nodeOf("GatherND", names("rows", "k"), names("y")))
		}
		models[name] = modelOf(18, graphIs(
			append(all(nodeOf("Transpose", names("x"), names("t"), intsOf("perm", 1, 0))), nodes...), nil, column, y,
		))
	}
	for _, op := range []string{"Add", "Mul", "Pow", "MatMul", "Max", "Equal", "PRelu", "Mod"} {
		models[op] = modelOf(18, graphIs(all(nodeOf("Transpose", names("x"), names("t"), intsOf("perm", 1, 0)),
			nodeOf(op, names("x", "t"), names("y"))), nil, column, y))
	}
	for _, times := range []int{28, 62} {
		for op, attributes := range map[string][]message{
			"Concat": {intOf("axis", 0)}, "Tile": nil, "Einsum": {textOf("equation", "i,j->ij")},
		} {
			nodes, last := []message{}, "x"
			for k := range times {
				out := fmt.Sprint("v", k)
				switch op {
				case "Concat":
					nodes = append(nodes, nodeOf(op, names(last, last), names(out), attributes...))
				case "Tile":
					nodes = append(nodes, nodeOf(op, names(last, "two"), names(out)))
				case "Einsum":
					nodes = append(nodes, nodeOf(op, names(last, last), names("e"+out), attributes...),
						nodeOf("Reshape", names("e"+out, "flat"), names(out)))
				}
				last = out
			}
			models[fmt.Sprint(op, " again and again ", times)] = modelOf(18, graphIs(append(nodes,
				nodeOf("Relu", names(last), names("y"))), all(wholesOf("two", 2), wholesOf("flat", -1)), line, y))
		}
	}
	return models
}

// TestMoreThanThereIs: a model of a few hundred bytes that asks for more memory than there is is refused in one line,
// soon, and before it takes the memory.
func TestMoreThanThereIs(t *testing.T) {
	memory.Limit(512 << 20)
	defer memory.Limit(0)
	count := map[string]int{}
	for name, b := range greedy() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		err := everything(b)
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		oneLine(t, err)
		kind := "refused as a file"
		if strings.Contains(err.Error(), "memory") {
			kind = "refused for memory"
		}
		count[kind]++
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 256<<20 || took > 2*time.Second {
			t.Errorf("%s: %v, %d MB: %v", name, took, bytes>>20, err)
		}
	}
	t.Log(count)
}

// everything reads a model and evaluates it, of ones.
func everything(b []byte) error {
	m, err := read(b)
	if err != nil {
		return err
	}
	g, _, err := m.Graph(nil)
	if err != nil {
		return err
	}
	var types []graph.Type
	for _, in := range m.Inputs {
		of := graph.Type{Format: fp16.Float32}
		for _, d := range in.Shape {
			of.Shape = append(of.Shape, d.Size)
		}
		types = append(types, of)
	}
	p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, types...)
	if err == nil {
		err = memory.Fits(p.Given())
	}
	if err != nil {
		return err
	}
	var in []*tensor.Tensor
	for _, of := range types {
		in = append(in, tensor.New(of.Format, of.Shape...))
	}
	_, err = p.Run(new(graph.Run), in...)
	return err
}

// TestLongOutside: numbers in another file, of which a file system stores only what is not zero, are counted together
// before they are read.
func TestLongOutside(t *testing.T) {
	memory.Limit(96 << 20)
	defer memory.Limit(0)
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "w.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 42); err != nil {
		t.Skip(err)
	}
	f.Close()
	entry := func(key, value string) message { return message{}.text(1, key).text(2, value) }
	for _, c := range []struct{ numbers, constants int }{{1 << 40, 1}, {1 << 34, 1}, {1 << 25, 1}, {1 << 21, 7}} {
		var constants, nodes []message
		for k := range c.constants {
			name := fmt.Sprint("w", k)
			constants = append(constants, message{}.num(1, uint64(c.numbers)).num(2, 1).text(8, name).in(13,
				entry("location", "w.bin")).num(14, 1))
			nodes = append(nodes, nodeOf("ReduceMax", names(name), names(fmt.Sprint("m", k))))
		}
		path := filepath.Join(dir, "m.onnx")
		if err := os.WriteFile(path, modelOf(18, graphIs(nodes, constants, nil, all(valueOf("m0", 1)))), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := onnx.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err = m.Graph(nil)
		runtime.ReadMemStats(&after)
		m.Close()
		if got := errorText(err); !strings.Contains(got, "constant \"w") ||
			!strings.Contains(got, " of memory: want at most 101 MB") {
			t.Errorf("%d numbers %d times: %q", c.numbers, c.constants, got)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 128<<20 {
			t.Errorf("%d numbers %d times: %d bytes taken", c.numbers, c.constants, taken)
		}
	}
}
