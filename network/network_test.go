package network_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// two is a network of two inputs and two outputs, with a node of several outputs, a weight that
// two nodes read, and a module that hands a value on.
const two = `{"version": 1, "produced_by": "a test", "inputs": [
  {"name": "x", "shape": [2, 4]}, {"name": "at", "dtype": "int64", "shape": [3]}],
 "nodes": [
  {"op": "linear", "name": "first", "in": ["x", "w"], "also": ["block", "drop"]},
  {"op": "linear", "name": "again", "in": ["first", "w"]},
  {"op": "chunk", "name": "parts", "in": ["again"], "attributes": {"chunks": 2, "dim": 1}, "outputs": 2},
  {"op": "add", "name": "sum", "in": ["parts", "parts:1"]},
  {"op": "index_select", "name": "rows", "in": ["sum", "at"]}],
 "outputs": ["rows", "first"]}`

// weights returns a file of a matrix [4,4] that exchanges numbers, as a network names it.
func weights(t testing.TB, name string) *safetensors.File {
	t.Helper()
	w, err := safetensors.OfFloat64s(name, "F32", []int{4, 4}, []float64{0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := safetensors.WriteFile(path, []*safetensors.Tensor{w}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestParse(t *testing.T) {
	n, err := network.Parse("net.json", []byte(two), func(name string) (*safetensors.File, error) {
		if name != "net.safetensors" {
			t.Errorf("weights of %q", name)
		}
		return weights(t, "w"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(n.Outputs, []string{"rows", "first"}) || n.ProducedBy != "a test" || n.Inputs[1].Dtype != "int64" {
		t.Errorf("%+v", n)
	}
	constants := 0
	for _, v := range n.Graph.Values {
		if v.Const != nil {
			constants++
		}
		if v.Name == "first" && !slices.Equal(v.Also, []string{"block", "drop"}) {
			t.Errorf("first is also %v", v.Also)
		}
	}
	if constants != 1 {
		t.Errorf("%d constants: want the weight once", constants)
	}
	p, err := n.Graph.Infer(graph.Mode{Precision: fp16.Float32}, n.Types()...)
	if err != nil {
		t.Fatal(err)
	}
	y, err := p.Run(new(graph.Run), tensor.FromFloat32([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4),
		tensor.Of(fp16.Int64, []float64{1, 0, 1}, 3))
	if err != nil {
		t.Fatal(err)
	}
	// first: 2 1 8 3 and 6 5 16 7; again: 1 2 6 8 and 5 6 14 16; the sum of halves: 7 10 and 19 22.
	if want := []float64{19, 22, 7, 10, 19, 22}; !slices.Equal(y[0].Data, want) {
		t.Errorf("rows %v: want %v", y[0].Data, want)
	}
	if want := []float64{2, 1, 8, 3, 6, 5, 16, 7}; !slices.Equal(y[1].Data, want) {
		t.Errorf("first %v: want %v", y[1].Data, want)
	}
}

// TestRefused: what is wrong with a file is one line that names the node.
func TestRefused(t *testing.T) {
	for _, k := range []struct{ old, new, want string }{
		{`"version": 1`, `"version": 2`, `net.json: version: 2: `},
		{`"produced_by"`, `"producer"`, `unknown key`},
		{`"name": "at"`, `"name": "x"`, `inputs[1].name: "x": given twice`},
		{`"int64"`, `"complex64"`, `inputs[1].dtype: `},
		{`"shape": [2, 4]`, `"shape": [2, -4]`, `inputs[0].shape: [2 -4]: want`},
		{`"op": "chunk"`, `"op": "chunks"`,
			`nodes[2].op: parts: unknown operation "chunks": want a registered one, such as chunk`},
		{`{"chunks": 2, "dim": 1}`, `{"chunk": 2}`,
			`nodes[2].op: parts: chunk: "chunk": no such attribute: want chunks, dim`},
		{`"outputs": 2`, `"outputs": 3`, `net.json: parts: 3 outputs: want 2`},
		{`"outputs": 2`, `"outputs": 60000`, `nodes[2].outputs: 60000: want fewer values`},
		{`["first", "w"]`, `["later", "w"]`, `nodes[1].in: again: "later": neither an input nor an earlier node`},
		{`"in": ["parts", "parts:1"]`, `"in": ["parts", "x"]`, `net.json: sum: shapes`},
		{`"rows", "first"`, `"rows", "last"`, `outputs: "last": want`},
		{`["rows", "first"]`, `[]`, `outputs: none: want`},
		{`"version": 1`, `"version": 1, "weights": "../w.safetensors"`,
			`weights: "../w.safetensors": want the name of a file in the same folder`},
	} {
		text := strings.Replace(two, k.old, k.new, 1)
		_, err := network.Parse("net.json", []byte(text),
			func(string) (*safetensors.File, error) { return weights(t, "w"), nil })
		if text == two {
			t.Errorf("%s is not there", k.old)
		}
		if err == nil || !strings.Contains(err.Error(), k.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s for %s: %v: want ...%s...", k.new, k.old, err, k.want)
		}
	}
	none := errors.New("no such file")
	if _, err := network.Parse("net.json", []byte(two),
		func(string) (*safetensors.File, error) { return nil, none }); !errors.Is(err, none) {
		t.Errorf("without weights: %v", err)
	}
}

// TestOpen: the weights are the file of the same name in the folder.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "net.json")
	if err := os.WriteFile(path, []byte(two), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := network.Open(path); err == nil || !strings.Contains(err.Error(), "net.safetensors") {
		t.Errorf("without weights: %v", err)
	}
	w, err := weights(t, "w").Tensor("w")
	if err != nil {
		t.Fatal(err)
	}
	if err := safetensors.WriteFile(filepath.Join(dir, "net.safetensors"), []*safetensors.Tensor{w}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := network.Open(path); err != nil {
		t.Error(err)
	}
	if _, err := network.Open(dir); err == nil {
		t.Error("a folder is opened")
	}
}

// TestTensorOf: truths are 1 and 0 whatever their bytes are, and what a graph does not hold is
// refused.
func TestTensorOf(t *testing.T) {
	of := func(d safetensors.DType, n int, raw ...byte) (*tensor.Tensor, error) {
		s, err := safetensors.New("t", d, []int{n}, raw)
		if err != nil {
			t.Fatal(err)
		}
		return network.TensorOf(s)
	}
	if x, err := of(safetensors.BOOL, 3, 0, 1, 7); err != nil || !slices.Equal(x.Data, []float64{0, 1, 1}) ||
		x.Format != fp16.Int64 {
		t.Errorf("truths are %v, %v", x, err)
	}
	if x, err := of(safetensors.F16, 1, 0, 0x3c); err != nil || x.Data[0] != 1 || x.Format != fp16.Float16 {
		t.Errorf("a float16 1 is %v, %v", x, err)
	}
	if _, err := of(safetensors.I64, 1, 1, 0, 0, 0, 0, 0, 0x20, 0); err == nil ||
		!strings.Contains(err.Error(), "within 2^53") {
		t.Errorf("2^53+1: %v", err)
	}
	if _, err := of(safetensors.F8_E4M3, 1, 0); err == nil {
		t.Error("float8 is taken")
	}
}

// FuzzParse: whatever the text is, reading it ends in a network or one line.
func FuzzParse(f *testing.F) {
	f.Add([]byte(two))
	w := weights(f, "w")
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := network.Parse("net.json", text, func(string) (*safetensors.File, error) { return w, nil })
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
	})
}
