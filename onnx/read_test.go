package onnx_test

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/tensor"
)

// evaluate returns the first output of a model of bytes, for its inputs in order.
func evaluate(t *testing.T, b []byte, in ...*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	m, err := read(b)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]onnx.Given{}
	var types []graph.Type
	for k, x := range in {
		given[m.Inputs[k].Name] = onnx.Given{Shape: x.Shape}
		types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	g, _, err := m.Graph(given)
	if err != nil {
		t.Fatal(err)
	}
	p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, types...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(new(graph.Run), in...)
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestSmall: what models of a few nodes compute.
func TestSmall(t *testing.T) {
	x := tensor.FromFloat32([]float32{1, 2, 3, -4, 5, 6}, 2, 3)
	for name, want := range map[string][]float64{
		"product":  {22, 28, 41, 48},
		"shapes":   make([]float64, 6), // [3,3] of zeros
		"if":       {1, 2, 3, 0, 5, 6},
		"function": {2, 4, 6, -0.9816843867301941, 10, 12},
	} {
		y := evaluate(t, small()[name], x)
		if !slices.Equal(y.Data, want) {
			t.Errorf("%s: %v, want %v", name, y.Data, want)
		}
	}
}

// TestHardmax: 1 at the first of the greatest numbers, of a line or, before opset 13, of all axes from one on, in the
// input's type.
func TestHardmax(t *testing.T) {
	x := tensor.FromFloat32([]float32{3, 7, 7, -4, -5, -6, 9, 9, 8, 0, 1, 9}, 2, 2, 3)
	for _, c := range []struct {
		opset      uint64
		attributes []message
		want       []float64
	}{
		{18, nil, []float64{0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1}},
		{18, all(intOf("axis", 0)), []float64{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}},
		{11, nil, []float64{0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}},
	} {
		y := evaluate(t, modelOf(c.opset, graphIs(all(nodeOf("Hardmax", names("x"), names("y"), c.attributes...)), nil,
			all(valueOf("x", onnx.Float32, 2, 2, 3)), all(valueOf("y", onnx.Float32)))), x)
		if !slices.Equal(y.Data, c.want) || y.Format != fp16.Float32 {
			t.Errorf("opset %d, %v: %v %v, want %v in float32", c.opset, c.attributes, y.Format, y.Data, c.want)
		}
	}
}

// TestOpenSizes: an open size comes from the input, and one name is one size.
func TestOpenSizes(t *testing.T) {
	y := evaluate(t, small()["open"], tensor.FromFloat32([]float32{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}, 4, 3))
	if third := float64(float32(1) / 3); y.Data[0] != third || y.Data[11] != third || !slices.Equal(y.Shape, []int{4, 3}) {
		t.Errorf("%v", y)
	}
	m, err := read(modelOf(18, graphIs(all(nodeOf("Add", names("a", "b"), names("y"))), nil,
		all(valueOf("a", onnx.Float32, "n", 2), valueOf("b", onnx.Float32, "n", "k")), all(valueOf("y", onnx.Float32)))))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a, b []int
		err  string
	}{
		{[]int{3, 2}, []int{3, 2}, ""},
		{[]int{3, 2}, []int{4, 2}, `input "b": shape [4 2]: want 3 at axis 0, as "n" is in input "a"`},
		{[]int{3, 5}, []int{3, 2}, `input "a": shape [3 5]: want 2 at axis 1`},
		{[]int{3}, []int{3, 2}, `input "a": shape [3]: want 2 axes`},
		{nil, []int{3, 2}, `input "a": shape: size 0 is open ("n"): want it to be given`},
		{[]int{3, 2}, nil, `input "b": shape: size 1 is open ("k"): want it to be given`},
	} {
		_, _, err := m.Graph(map[string]onnx.Given{"a": {Shape: c.a}, "b": {Shape: c.b}})
		if got := errorText(err); got != c.err {
			t.Errorf("%v %v: %q, want %q", c.a, c.b, got, c.err)
		}
	}
}

// TestNoSizes: -1 and "?" are open sizes, each its own.
func TestNoSizes(t *testing.T) {
	m := modelOf(18, graphIs(all(nodeOf("Relu", names("x"), names("y"))), nil,
		all(valueOf("x", onnx.Float32, -1, "?", "?")), all(valueOf("y", onnx.Float32))))
	if y := evaluate(t, m, tensor.New(fp16.Float32, 2, 3, 4)); !slices.Equal(y.Shape, []int{2, 3, 4}) {
		t.Errorf("%v", y.Shape)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestNumbers: constants of every type, in raw data and in the fields of a type.
func TestNumbers(t *testing.T) {
	packed := func(v ...uint64) (b message) {
		for _, v := range v {
			b = protowire.AppendVarint(b, v)
		}
		return b
	}
	fixed := func(v ...uint64) (b message) {
		for _, v := range v {
			b = protowire.AppendFixed64(b, v)
		}
		return b
	}
	minus := uint64(math.MaxUint64) // -1 as a number of the format
	head := func(d onnx.DType, n int) message { return message{}.num(1, uint64(n)).num(2, uint64(d)).text(8, "w") }
	for _, c := range []struct {
		name string
		of   message
		want []float64
	}{
		{"float32", tensorOf("w", onnx.Float32, []byte{0, 0, 0x80, 0x3f, 1, 0, 0, 0x80}, 2), []float64{1, -0x1p-149}},
		{"float64", head(onnx.Float64, 1).in(10, fixed(math.Float64bits(0.1))), []float64{0.1}},
		{"float16", head(onnx.Float16, 2).in(5, packed(0x3c00, 0xfbff)), []float64{1, -65504}},
		{"bfloat16", tensorOf("w", onnx.BFloat16, []byte{0x80, 0x3f, 0x80, 0xff}, 2), []float64{1, math.Inf(-1)}},
		{"int8", head(onnx.Int8, 2).num(5, minus).num(5, 127), []float64{-1, 127}},
		{"uint8", tensorOf("w", onnx.Uint8, []byte{255, 1}, 2), []float64{255, 1}},
		{"int16", tensorOf("w", onnx.Int16, []byte{0, 0x80}, 1), []float64{-32768}},
		{"uint16", tensorOf("w", onnx.Uint16, []byte{0, 0x80}, 1), []float64{32768}},
		{"int32", head(onnx.Int32, 2).in(5, packed(minus, 7)), []float64{-1, 7}},
		{"uint32", head(onnx.Uint32, 1).in(11, packed(1<<32-1)), []float64{1<<32 - 1}},
		{"int64", head(onnx.Int64, 2).in(7, packed(minus, 1<<40)), []float64{-1, 1 << 40}},
		{"uint64", head(onnx.Uint64, 1).in(11, packed(1<<50)), []float64{1 << 50}},
		{"bool", tensorOf("w", onnx.Bool, []byte{2, 0}, 2), []float64{1, 0}},
		{"uint4", tensorOf("w", onnx.Uint4, []byte{0x21, 0x0f}, 3), []float64{1, 2, 15}},
		{"int4", head(onnx.Int4, 3).in(5, packed(0x8f, 0x07)), []float64{-1, -8, 7}},
		{"uint2", tensorOf("w", onnx.Uint2, []byte{0xe4, 1}, 5), []float64{0, 1, 2, 3, 1}},
		{"int2", tensorOf("w", onnx.Int2, []byte{0xe4}, 4), []float64{0, 1, -2, -1}},
		{"float8e4m3fn", tensorOf("w", onnx.Float8E4M3, []byte{0x38, 0x7e, 0xfe, 0x01, 0x7f}, 5),
			[]float64{1, 448, -448, 0x1p-9, math.NaN()}},
		{"float8e4m3fnuz", tensorOf("w", onnx.Float8E4M3UZ, []byte{0x40, 0x7f, 0x01, 0x80}, 4),
			[]float64{1, 240, 0x1p-10, math.NaN()}},
		{"float8e5m2", tensorOf("w", onnx.Float8E5M2, []byte{0x3c, 0x7b, 0xfc, 0x01, 0x7d}, 5),
			[]float64{1, 57344, math.Inf(-1), 0x1p-16, math.NaN()}},
		{"float8e5m2fnuz", tensorOf("w", onnx.Float8E5M2UZ, []byte{0x40, 0x7f, 0x01, 0x80}, 4),
			[]float64{1, 57344, 0x1p-17, math.NaN()}},
		{"float4e2m1", tensorOf("w", onnx.Float4E2M1, []byte{0x10, 0xf7}, 4), []float64{0, 0.5, 6, -6}},
		{"float8e8m0", tensorOf("w", onnx.Float8E8M0, []byte{0, 127, 254, 255}, 4),
			[]float64{0x1p-127, 1, 0x1p127, math.NaN()}},
	} {
		y := evaluate(t,
			modelOf(21, graphIs(all(nodeOf("Identity", names("w"), names("y"))), all(c.of), nil, all(valueOf("y", 1)))))
		if !slices.EqualFunc(y.Data, c.want, func(a, b float64) bool { return a == b || a != a && b != b }) {
			t.Errorf("%s: %v, want %v", c.name, y.Data, c.want)
		}
	}
}

// TestOutside: numbers of constants in another file, and where that may be.
func TestOutside(t *testing.T) {
	entry := func(key, value string) message { return message{}.text(1, key).text(2, value) }
	of := func(entries ...message) []byte {
		w := message{}.num(1, 2).num(2, 1).text(8, "w").in(13, entries...).num(14, 1)
		return modelOf(18, graphIs(all(nodeOf("Identity", names("w"), names("y"))), all(w), nil, all(valueOf("y", 1))))
	}
	dir := t.TempDir()
	data := protowire.AppendFixed32(protowire.AppendFixed32(make([]byte, 4), math.Float32bits(3)), math.Float32bits(4))
	if err := os.WriteFile(filepath.Join(dir, "w.bin"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		model []byte
		err   string
	}{
		{of(entry("location", "w.bin"), entry("offset", "4"), entry("length", "8")), ""},
		{of(entry("location", "w.bin"), entry("offset", "8")),
			`constant "w": bytes 8 to 16 of "w.bin": want what it has, 12 bytes`},
		{of(entry("location", "w.bin"), entry("offset", "-1")), `constant "w": offset "-1": want a number of bytes`},
		{of(entry("location", "w.bin"), entry("length", "4")), `constant "w": length 4: want 8, for shape [2] of float32`},
		{of(entry("location", "../w.bin")),
			`constant "w": location "../w.bin": want the name of a file in the model's folder`},
		{of(entry("location", "/etc/passwd")),
			`constant "w": location "/etc/passwd": want the name of a file in the model's folder`},
		{of(entry("location", "C:w.bin")), `constant "w": location "C:w.bin": want the name of a file in the model's folder`},
	} {
		path := filepath.Join(dir, "m.onnx")
		if err := os.WriteFile(path, c.model, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := onnx.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		g, _, err := m.Graph(nil)
		if got := errorText(err); got != c.err {
			t.Errorf("%q, want %q", got, c.err)
		}
		if err == nil {
			p, err := g.Infer(graph.Mode{Precision: fp16.Float32})
			if err != nil {
				t.Fatal(err)
			}
			if y, err := p.Run(new(graph.Run)); err != nil || !slices.Equal(y[0].Data, []float64{3, 4}) {
				t.Errorf("%v, %v", y, err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// huge is a file of two gigabytes, of which only the first bytes are not zero.
type huge struct{ head []byte }

func (h huge) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(h.head)) {
		copy(b, h.head[at:])
	}
	return len(b), nil
}

// TestMemory: what a file says of sizes takes no memory, and numbers of weights stay where
// they are until they are wanted.
func TestMemory(t *testing.T) {
	length := func(field protowire.Number, n uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), n)
	}
	raw := append(message{}.num(1, 1<<29).num(2, 1), length(9, 1<<31)...)
	constant := append(length(5, uint64(len(raw))+1<<31), raw...)
	weights := append(append(message{}.in(8, message{}.num(2, 18)), length(7, uint64(len(constant))+1<<31)...),
		constant...)
	within := func(inner []byte, of ...protowire.Number) huge { // what 2 GB are said to follow, within messages
		for _, field := range of {
			inner = append(length(field, uint64(len(inner))+1<<31), inner...)
		}
		return huge{inner}
	}
	sparse := map[string]huge{
		"producer": within(length(2, 1<<31)), "node's name": within(length(3, 1<<31), 1, 7),
		"input": within(length(1, 1<<31), 1, 7),
		"axes":  within(length(1, 1<<31), 5, 7), "whole numbers": within(length(8, 1<<31), 5, 1, 7),
		"numbers":          within(length(7, 1<<31), 5, 1, 7),
		"place of weights": within(length(2, 1<<31), 13, 5, 7), "name of a size": within(length(2, 1<<31), 1, 2, 1, 2, 11, 7),
	}
	for name, r := range sparse {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := onnx.Read(r, int64(len(r.head))+1<<31, onnx.Options{})
		runtime.ReadMemStats(&after)
		if got, want := errorText(err),
			"more than 33554432 bytes of names and of lists of numbers: want fewer"; !strings.HasSuffix(got, want) {
			t.Errorf("2 GB of %s: %q, want %q", name, got, want)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 {
			t.Errorf("2 GB of %s: %d bytes taken", name, taken)
		}
	}
	for name, c := range map[string]struct {
		r    io.ReaderAt
		size int64
		err  string
	}{
		"header":  {bytes.NewReader(length(7, 1<<31)), 6, "byte 0: field 7: 2147483648 bytes: want at most 0, as there are"},
		"weights": {huge{weights}, int64(len(weights)) + 1<<31, ""},
		"shape": {bytes.NewReader(modelOf(18, graphIs(all(nodeOf("Identity", names("w"), names("y"))),
			all(floatsOf("w", []int{1 << 30}, 1)), nil, all(valueOf("y", 1))))), 0,
			`constant "w": shape [1073741824]: want numbers for it, in 17 bytes`},
		"spread": {bytes.NewReader(modelOf(18, graphIs(
			all(nodeOf("ConstantOfShape", names("n"), names("s"), message{}.text(1, "value").in(5, wholesOf("", 1))),
				nodeOf("Reshape", names("x", "s"), names("y"))), all(wholesOf("n", 1<<20, 1<<15)), all(valueOf("x", 1, 1)),
			all(valueOf("y", 1)),
		))), 0, `Reshape that makes "y": shape: shape [1048576 32768]: takes more memory than a file of this size may`},
		"aspect": {bytes.NewReader(modelOf(18, graphIs(all(nodeOf("Resize", names("i", "", "", "sizes"),
			names("y"), textOf("keep_aspect_ratio_policy", "not_smaller"))), all(wholesOf("sizes", 1, 1, 1<<62, 1)),
			all(valueOf("i", onnx.Float32, 1, 1, 3, 3)), all(valueOf("y", 1))))), 0, `Resize that makes "y": size: `},
	} {
		if b, ok := c.r.(*bytes.Reader); ok {
			c.size = b.Size()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := onnx.Read(c.r, c.size, onnx.Options{})
		if err == nil && name != "weights" {
			_, _, err = m.Graph(nil)
		}
		runtime.ReadMemStats(&after)
		if got := errorText(err); !strings.HasPrefix(got, c.err) || c.err == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.err)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 {
			t.Errorf("%s: %d bytes taken", name, taken)
		}
	}
}

// TestLaughs: functions that call each other twice, and constants spread over and over, end.
func TestLaughs(t *testing.T) {
	var functions []message
	for k := range 30 {
		name, next := string(rune('A'+k)), string(rune('A'+k+1))
		n := []message{
			nodeOf(next, names("a"), names("b")).text(7, "own"), nodeOf(next, names("b"), names("c")).text(7, "own"),
		}
		if k == 29 {
			n = all(nodeOf("Relu", names("a"), names("b")), nodeOf("Relu", names("b"), names("c")))
		}
		functions = append(functions,
			message{}.text(1, name).text(4, "a").text(5, "c").text(10, "own").in(9, message{}.num(2, 18)).in(7, n...))
	}
	x, y := all(valueOf("x", onnx.Float32, 2)), all(valueOf("y", onnx.Float32))
	m, err := read(modelOf(18, graphIs(all(nodeOf("A", names("x"), names("y")).text(7, "own")), nil, x, y), functions...))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Graph(nil); err == nil || !strings.Contains(err.Error(), "more memory") || len(err.Error()) > 4000 {
		t.Errorf("%v", err)
	}
	self := message{}.text(1, "F").text(4, "a").text(5, "c").text(10, "own").in(9, message{}.num(2, 18)).in(7,
		nodeOf("F", names("a"), names("c")).text(7, "own"))
	m, err = read(modelOf(18, graphIs(all(nodeOf("F", names("x"), names("y")).text(7, "own")), nil, x, y), self))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Graph(nil); err == nil || !strings.Contains(err.Error(), "within each other") {
		t.Errorf("%v", err)
	}
}

// TestUnsupported: everything that is not supported is said at once, with its place.
func TestUnsupported(t *testing.T) {
	m, err := read(modelOf(18, graphIs(all(
		nodeOf("Optional", names("x"), names("a")).text(3, "rnn"), nodeOf("Relu", names("a"), names("b")),
		nodeOf("Foo", names("b"), names("c")).text(7, "com.example"),
		nodeOf("MaxPool", names("x"), names("d"), intsOf("kernel_shape", 2), intOf("strange", 1)),
		nodeOf("Add", names("c", "nowhere"), names("y")),
	), nil, all(valueOf("x", onnx.Float32, 1, 1, 4)), all(valueOf("y", onnx.Float32)))))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = m.Graph(nil)
	want := `Optional "rnn", com.example.Foo that makes "c": not supported; MaxPool that makes "d": attribute ` +
		`"strange": not supported; Add that makes "y": input "nowhere": made by no node before it`
	if got := errorText(err); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestUnsupportedOften: what many nodes have is said once, with how many of each operation there are, and
// a line ends with a whole word.
func TestUnsupportedOften(t *testing.T) {
	var u onnx.Unsupported
	for range 89 {
		u = append(u, onnx.Fault{Op: "MatMulInteger",
			At: `MatMulInteger "/encoder/layers.0/self_attn/MatMulInteger_quant"`, Why: "not supported"})
	}
	for range 2 {
		u = append(u, onnx.Fault{Op: "LSTM", At: `LSTM "/lstm"`, Why: "not supported"})
	}
	u = append(u, onnx.Fault{Op: "Resize", At: `Resize "up"`, Why: "mode \"strange\""})
	if got, want := u.Error(), `MatMulInteger 89, LSTM 2: not supported; Resize "up": mode "strange"`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if all := u.Strings(); len(all) != 92 ||
		all[0] != `MatMulInteger "/encoder/layers.0/self_attn/MatMulInteger_quant": not supported` {
		t.Errorf("%d lines, first %s", len(all), all[0])
	}
}

// TestFixed: where a shape depends on an input's numbers they must be given, and the graph
// says whose it is for.
func TestFixed(t *testing.T) {
	b := modelOf(18, graphIs(all(nodeOf("Reshape", names("x", "s"), names("y"))), nil,
		all(valueOf("x", onnx.Float32, 6), valueOf("s", onnx.Int64, 2)), all(valueOf("y", onnx.Float32))))
	m, err := read(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Graph(nil); errorText(err) !=
		`Reshape that makes "y": shape: it depends on input "s": want a constant, or the input's value given` {
		t.Errorf("%v", err)
	}
	g, fixed, err := m.Graph(map[string]onnx.Given{"s": {Value: tensor.Of(fp16.Int64, []float64{2, 3}, 2)}})
	if err != nil || !slices.Equal(fixed, []string{"s"}) || len(g.Inputs) != 2 {
		t.Errorf("%v %v", fixed, err)
	}
}

// TestSeeds: every seed of the fuzzing is a graph, so that it reaches what it is for.
func TestSeeds(t *testing.T) {
	for name, b := range small() {
		m, err := read(b)
		if err != nil {
			t.Fatal(err)
		}
		given := map[string]onnx.Given{}
		if name == "open" {
			given["x"] = onnx.Given{Shape: []int{2, 3}}
		}
		if _, _, err := m.Graph(given); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGroups: the weights of GroupNormalization are those of groups before opset 21, and of
// channels since.
func TestGroups(t *testing.T) {
	of := func(opset uint64, weights, biases []float32) []float64 {
		n := len(weights)
		return evaluate(t, modelOf(opset, graphIs(
			all(nodeOf("GroupNormalization", names("x", "w", "b"), names("y"), intOf("num_groups", 2))),
			all(floatsOf("w", []int{n}, weights...), floatsOf("b", []int{n}, biases...)),
			all(valueOf("x", onnx.Float32, 1, 4, 2)), all(valueOf("y", onnx.Float32)),
		)), tensor.FromFloat32([]float32{1, 2, 4, 8, -1, 3, 5, 9}, 1, 4, 2)).Data
	}
	groups, channels := of(18, []float32{2, 3}, []float32{-1, 1}), of(21, []float32{2, 2, 3, 3}, []float32{-1, -1, 1, 1})
	if !slices.Equal(groups, channels) || groups[0] == groups[4] {
		t.Errorf("%v, want %v", groups, channels)
	}
}

// TestPlaces: the places of maxima count through all samples and channels.
func TestPlaces(t *testing.T) {
	x := tensor.FromFloat32([]float32{1, 5, 2, 3, 9, 4, 8, 7, 6, 0, 11, 10}, 2, 2, 3)
	y := func(out string) []float64 {
		return evaluate(t,
			modelOf(18, graphIs(all(nodeOf("MaxPool", names("x"), names("m", "at"), intsOf("kernel_shape", 2))), nil,
				all(valueOf("x", onnx.Float32, 2, 2, 3)), all(valueOf(out, onnx.Float32)))), x).Data
	}
	for i, at := range y("at") {
		if x.Data[int(at)] != y("m")[i] {
			t.Errorf("maximum %d, %v, is not at %v", i, y("m")[i], at)
		}
	}
}
