package forward_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/internal/oracle/forward"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// fixture is a network of package onnx, with what PyTorch returned.
type fixture struct {
	graph  *graph.Graph
	inputs []*tensor.Tensor
	torch  *tensor.Tensor
}

func open(t *testing.T, name string) fixture {
	t.Helper()
	path := filepath.Join("..", "..", "..", "onnx", "testdata", "models", name)
	m, err := onnx.Open(path + ".onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	z, err := npy.OpenArchive(path + ".npz")
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	read := func(name string, f fp16.Format) *tensor.Tensor {
		a, err := z.Array(name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := a.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		return tensor.Of(f, v, a.Shape...)
	}
	var f fixture
	given := map[string]onnx.Given{}
	for _, in := range m.Inputs {
		of, _ := in.Type.Format()
		x := read(in.Name, of)
		given[in.Name] = onnx.Given{Value: x}
		f.inputs = append(f.inputs, x)
	}
	if f.graph, _, err = m.Graph(given); err != nil {
		t.Fatal(err)
	}
	f.torch = read("torch_float32", fp16.Float32)
	return f
}

// run evaluates a network as a device in a mode does, with another operation or other inputs in one node,
// and returns its output and all values.
func (f fixture) run(
	t *testing.T, mode graph.Mode, broken func(i int, n *graph.Node, in []*tensor.Tensor) graph.Op,
) (*tensor.Tensor, map[int]*tensor.Tensor) {
	t.Helper()
	var types []graph.Type
	for _, x := range f.inputs {
		types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	p, err := f.graph.Infer(mode, types...)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]*tensor.Tensor{}
	r := &graph.Run{Seen: func(v int, y *tensor.Tensor) { all[v] = y.Clone() }}
	if broken != nil {
		r.Make = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			in = slices.Clone(in)
			op := broken(i, &f.graph.Nodes[i], in)
			if op == nil {
				return nil, nil
			}
			return alone(mode, op, in)
		}
	}
	out, err := p.Run(r, f.inputs...)
	if err != nil {
		t.Fatal(err)
	}
	return out[0], all
}

// alone evaluates one operation.
func alone(mode graph.Mode, op graph.Op, in []*tensor.Tensor) (*tensor.Tensor, error) {
	g := graph.New(nil)
	var types []graph.Type
	var values []int
	for _, x := range in {
		types, values = append(types, graph.Type{Shape: x.Shape, Format: x.Format}), append(values, g.Input("in"))
	}
	g.Outputs = []int{g.Add(op, "out", values...)}
	p, err := g.Infer(mode, types...)
	if err != nil {
		return nil, err
	}
	out, err := p.Run(new(graph.Run), in...)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func check(
	t *testing.T, f fixture, precision, autocast string, out *tensor.Tensor, layers map[int]*tensor.Tensor,
) *report.Report {
	t.Helper()
	claim, err := forward.ParseClaim(precision, autocast)
	if err != nil {
		t.Fatal(err)
	}
	r, err := forward.Check(context.Background(), forward.Question{
		Name: "net", Graph: f.graph, Inputs: f.inputs, Claim: claim, Outputs: []*tensor.Tensor{out}, Layers: layers,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRight: what PyTorch returned of five networks passes.
func TestRight(t *testing.T) {
	for _, name := range []string{"resnet", "vit", "unet", "fno", "painn"} {
		f := open(t, name)
		if r := check(t, f, "float32", "", f.torch, nil); r.Verdict != report.PassConforming {
			t.Errorf("%s: %s: %s", name, r.Verdict, r.Reason)
		}
	}
}

// TestHalf: a device that rounds as autocast says conforms, with its layers and without; one that keeps what
// follows products in float32 is more accurate; and float32 is not what a half precision is named.
func TestHalf(t *testing.T) {
	f := open(t, "resnet")
	mode, err := graph.ParseMode("bfloat16", "cpu")
	if err != nil {
		t.Fatal(err)
	}
	out, layers := f.run(t, mode, nil)
	if r := check(t, f, "bfloat16", "cpu", out, nil); r.Verdict != report.PassConforming {
		t.Errorf("bfloat16: %s: %s", r.Verdict, r.Reason)
	}
	if r := check(t, f, "bfloat16", "cpu", out, layers); r.Verdict != report.PassConforming || len(r.Layers) < 20 {
		t.Errorf("bfloat16 with %d layers: %s: %s", len(r.Layers), r.Verdict, r.Reason)
	}
	if r := check(t, f, "float32", "", out, nil); r.Verdict != report.FailPrecision {
		t.Errorf("bfloat16 sold as float32: %s: %s", r.Verdict, r.Reason)
	}
	if r := check(t, f, "bfloat16", "cpu", f.torch, nil); r.Verdict != report.PassAccurate ||
		!strings.Contains(r.Contract, "float32") {
		t.Errorf("float32 for bfloat16: %s, %s: %s", r.Verdict, r.Contract, r.Reason)
	}
}

// TestFused: a compiler that makes one kernel of what lies between two products stores what a product reads, a
// window reads, or another kernel reads, and nothing else.
func TestFused(t *testing.T) {
	fused(t, "small", smallUNet(t))
	if share.All() {
		fused(t, "unet", open(t, "unet"))
	}
}

// smallUNet is a network of two levels.
func smallUNet(t *testing.T) fixture {
	return net(3, []int{2, 3, 16, 16}, func(g *graph.Graph, x int, w func(...int) int) int {
		add := func(name, attributes string, in ...int) int {
			op, err := graph.Bind(name, []byte(attributes))
			if err != nil {
				t.Fatal(err)
			}
			return g.Add(op, fmt.Sprint(name, len(g.Nodes)), in...)
		}
		block := func(x, from, to int) int {
			y := add("conv2d", `{"padding": 1}`, x, w(to, from, 3, 3), w(to))
			return add("gelu", "", add("instance_norm", `{"eps": 1e-05}`, y))
		}
		above := block(x, 3, 8)
		below := block(add("max_pool2d", `{"kernel_size": [2, 2]}`, above), 8, 8)
		below = add("interpolate", `{"scale_factor": [2, 2], "mode": "bilinear"}`, below)
		y := block(add("cat", `{"dim": 1}`, above, below), 16, 8)
		return add("conv2d", "", y, w(3, 8, 1, 1), w(3))
	})
}

// fused is [TestFused] of a network.
func fused(t *testing.T, name string, f fixture) {
	t.Helper()
	kernel := make([]int, len(f.graph.Values))
	out, _ := f.run(t, graph.Mode{Precision: fp16.Float32}, func(i int, n *graph.Node, in []*tensor.Tensor) graph.Op {
		op := n.Op.Name()
		product := strings.HasPrefix(op, "conv") || op == "linear"
		at := 0
		for _, v := range n.In {
			at = max(at, kernel[v])
		}
		for k, v := range n.In {
			if product || strings.Contains(op, "pool") || op == "interpolate" ||
				kernel[v] != at && f.graph.Values[v].Const == nil {
				in[k] = in[k].Clone()
				fp16.BFloat16.RoundSlice(in[k].Data, in[k].Data)
			}
		}
		if product {
			at++
		}
		for _, v := range n.Out {
			kernel[v] = at
		}
		if product {
			return stored{n.Op}
		}
		return n.Op
	})
	for _, format := range []fp16.Format{fp16.Float32, fp16.BFloat16} { // as it stores
		format.RoundSlice(out.Data, out.Data)
		out.Format = format
		if r := check(t, f, "bfloat16", "cpu", out, nil); r.Verdict != report.PassAccurate ||
			!strings.Contains(r.Contract, "one kernel") {
			t.Errorf("%s, %v: %s, %s: %s", name, format, r.Verdict, r.Contract, r.Reason)
		}
	}
}

// TestWindowed: what a pool reads lies in memory, though a compiler makes one kernel of what is before it.
func TestWindowed(t *testing.T) {
	const n = 64
	half := fp16.BFloat16.Round
	r := rand.New(rand.NewPCG(1, 2))
	x, w := tensor.New(fp16.Float32, 1, 1, n, n), tensor.Of(fp16.Float32, []float64{1.25}, 1, 1, 1, 1)
	for i := range x.Data {
		x.Data[i] = half(r.NormFloat64())
	}
	bind := func(name, attributes string) graph.Op {
		op, err := graph.Bind(name, []byte(attributes))
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	g := graph.New(nil)
	v := g.Add(bind("conv2d", ""), "product", g.Input("x"), g.Constant("weight", w))
	for _, op := range []graph.Op{
		bind("mul", `{"other": 0.3}`), bind("sigmoid", ""), bind("avg_pool2d", `{"kernel_size": [2, 2]}`),
	} {
		v = g.Add(op, fmt.Sprint("v", v), v)
	}
	g.Outputs = []int{v}
	claim, err := forward.ParseClaim("bfloat16", "cpu")
	if err != nil {
		t.Fatal(err)
	}
	out := tensor.New(fp16.BFloat16, 1, 1, n/2, n/2)
	for i := range out.Data {
		for _, at := range []int{0, 1, n, n + 1} {
			y := float64(0.3 * half(1.25*x.Data[i/(n/2)*2*n+i%(n/2)*2+at]))
			out.Data[i] += half(1/(1+math.Exp(-y))) / 4
		}
		out.Data[i] = half(out.Data[i])
	}
	rep, err := forward.Check(context.Background(),
		forward.Question{Graph: g, Inputs: []*tensor.Tensor{x}, Outputs: []*tensor.Tensor{out}, Claim: claim})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Verdict != report.PassAccurate || !strings.Contains(rep.Contract, "one kernel") {
		t.Errorf("%s, %s: %s", rep.Verdict, rep.Contract, rep.Reason)
	}
}

// stored is an operation whose result is stored in bfloat16.
type stored struct{ graph.Op }

func (o stored) Eval(c *graph.Call) error {
	err := o.Op.Eval(c)
	fp16.BFloat16.RoundSlice(c.Out[0].Data, c.Out[0].Data)
	return err
}

// TestKeptStatistics: a norm that keeps its mean and deviation in half is right in the middle of a network,
// and one that keeps another's is not.
func TestKeptStatistics(t *testing.T) {
	const c, n = 4, 64
	half := fp16.Float16.Round
	r := rand.New(rand.NewPCG(1, 2))
	x := tensor.New(fp16.Float16, 1, c, 8, 8)
	for i := range x.Data {
		x.Data[i] = half(3 + float64(i/n) + .2*r.NormFloat64())
	}
	bind := func(name, attributes string) graph.Op {
		op, err := graph.Bind(name, []byte(attributes))
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	g := graph.New(nil)
	v := g.Input("x")
	for _, op := range []graph.Op{
		bind("relu", ""), bind("instance_norm", `{"eps": 1e-05}`), bind("neg", ""), bind("relu", ""),
	} {
		v = g.Add(op, fmt.Sprint("v", v), v)
	}
	g.Outputs = []int{v}
	claim, err := forward.ParseClaim("float16", "none")
	if err != nil {
		t.Fatal(err)
	}
	for other, want := range map[int]bool{0: true, 1: false} {
		out := tensor.New(fp16.Float16, x.Shape...)
		for k := range c {
			in := x.Data[n*k:][:n]
			moments := func(k int) (mean, rstd float64) {
				in, squares := x.Data[n*k:][:n], 0.0
				for _, v := range in {
					mean += v / n
				}
				for _, v := range in {
					squares += float64((v - mean) * (v - mean))
				}
				return half(mean), half(1 / math.Sqrt(squares/n+1e-5))
			}
			mean, _ := moments(k)
			_, rstd := moments((k + other) % c)
			for i, v := range in {
				out.Data[n*k+i] = max(0, -half(float64((v-mean)*rstd)))
			}
		}
		rep, err := forward.Check(context.Background(),
			forward.Question{Graph: g, Inputs: []*tensor.Tensor{x}, Outputs: []*tensor.Tensor{out}, Claim: claim})
		if err != nil {
			t.Fatal(err)
		}
		if rep.Verdict.Passed() != want {
			t.Errorf("deviations of channels %d further: %v: %s", other, rep.Verdict, rep.Reason)
		}
	}
}

// TestPureCasts: what a recording of float32 casts to float32, as x.to(y.dtype) does, a half precision casts
// to its own.
func TestPureCasts(t *testing.T) {
	var f fixture
	f.graph = graph.New(nil)
	x, y := f.graph.Input("x"), f.graph.Input("y")
	less := f.graph.Add(graph.Binary{Of: pointwise.Less}, "less", x, y)
	number := f.graph.Add(graph.Cast{Dtype: "float32"}, "number", less)
	base := f.graph.Constant("base", tensor.New(fp16.Float32, 2))
	f.graph.Outputs = []int{f.graph.Add(graph.IndexAdd{}, "sum", base,
		f.graph.Constant("at", tensor.Of(fp16.Int64, []float64{0, 1, 1, 1}, 4)), number)}
	f.inputs = []*tensor.Tensor{
		tensor.Of(fp16.Float32, []float64{1, 2, 3, 4}, 4), tensor.Of(fp16.Float32, []float64{2, 3, 1, 5}, 4),
	}
	r := check(t, f, "float16", "none", tensor.Of(fp16.Float16, []float64{1, 2}, 2), nil)
	if r.Verdict != report.PassConforming {
		t.Errorf("%s: %s %v", r.Verdict, r.Reason, r.Skipped)
	}
}

// TestFaults: one node of a network is wrong. The output alone shows it, and with layers the node is named.
func TestFaults(t *testing.T) {
	for i, k := range []struct {
		net, op string
		at      int // of the nodes of that operation
		fault   func(op graph.Op, in []*tensor.Tensor) graph.Op
	}{
		{"vit", "layer_norm", 3, func(op graph.Op, in []*tensor.Tensor) graph.Op {
			n := op.(graph.LayerNorm)
			n.Eps = 1e-2
			return n
		}},
		{"vit", "softmax", 1, func(op graph.Op, in []*tensor.Tensor) graph.Op { return graph.Softmax{Axis: -2} }},
		{"resnet", "max_pool2d", 0, func(op graph.Op, in []*tensor.Tensor) graph.Op {
			in[0] = in[0].Clone()
			in[0].Data[7] = 9 // a number that is not the input's
			return op
		}},
		{"fno", "gelu", 1, func(op graph.Op, in []*tensor.Tensor) graph.Op {
			o, _ := graph.Bind("gelu", []byte(`{"approximate": "tanh"}`))
			return o
		}},
		{"painn", "scatter_nd", 2,
			func(op graph.Op, in []*tensor.Tensor) graph.Op { return graph.ScatterND{Reduce: "none"} }},
		{"unet", "instance_norm", 4, func(op graph.Op, in []*tensor.Tensor) graph.Op {
			n := op.(graph.InstanceNorm)
			n.Eps = 1e-3
			return n
		}},
	} {
		f := open(t, k.net)
		at, seen := -1, 0
		for i := range f.graph.Nodes {
			if f.graph.Nodes[i].Op.Name() == k.op {
				if seen == k.at {
					at = i
				}
				seen++
			}
		}
		out, layers := f.run(t, graph.Mode{Precision: fp16.Float32},
			func(i int, n *graph.Node, in []*tensor.Tensor) graph.Op {
				if i != at {
					return nil
				}
				return k.fault(n.Op, in)
			})
		if i%3 == 0 || share.All() { // which takes most of the time
			if r := check(t, f, "float32", "", out, nil); !r.Verdict.Failed() || r.FirstLayer != "" {
				t.Errorf("%s of %s: %s, layer %q: %s", k.op, k.net, r.Verdict, r.FirstLayer, r.Reason)
			}
		}
		want := f.graph.Name(&f.graph.Nodes[at])
		if r := check(t, f, "float32", "", out, layers); !r.Verdict.Failed() || r.FirstLayer != want {
			t.Errorf("%s of %s with layers: %s, layer %q, want %q: %s", k.op, k.net, r.Verdict, r.FirstLayer, want, r.Reason)
		}
	}
}

// TestRefused: numbers that are not the network's are errors.
func TestRefused(t *testing.T) {
	f := open(t, "resnet")
	claim, err := forward.ParseClaim("float32", "")
	if err != nil {
		t.Fatal(err)
	}
	q := forward.Question{Graph: f.graph, Inputs: f.inputs, Claim: claim}
	for want, change := range map[string]func(q *forward.Question){
		"no numbers of the device": func(q *forward.Question) {},
		"0 inputs: want 1":         func(q *forward.Question) { q.Inputs = nil },
		"linear: numbers of shape [3]: want [1 10]": func(q *forward.Question) {
			q.Outputs = []*tensor.Tensor{tensor.New(fp16.Float32, 3)}
		},
		"linear: int64 numbers: want float32": func(q *forward.Question) {
			q.Outputs = []*tensor.Tensor{tensor.New(fp16.Int64, 1, 10)}
		},
	} {
		ask := q
		change(&ask)
		if _, err := forward.Check(context.Background(), ask); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	for _, k := range [][2]string{{"float64", "none"}, {"float32", "none"}, {"float8", ""}, {"float16", "gpu"}} {
		if _, err := forward.ParseClaim(k[0], k[1]); err == nil {
			t.Errorf("a claim of %v", k)
		}
	}
}
