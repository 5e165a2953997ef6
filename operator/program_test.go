package operator

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// asNodes writes Spinlock's operator as a list of operations.
func asNodes(t *testing.T, op *Operator) Config {
	t.Helper()
	c := Config{InputChannels: op.Config.InputChannels, OutputChannels: op.Config.OutputChannels}
	nodes := op.Nodes()
	for _, n := range nodes {
		to := NodeConfig{Name: n.Name, In: []string{}}
		for _, j := range n.In {
			name := "input"
			if j != Input {
				name = nodes[j].Name
			}
			to.In = append(to.In, name)
		}
		switch n.Op {
		case OpConv:
			to.Op, to.OutChannels, to.KernelSize, to.NoBias = "conv", n.Weight.Shape[0], n.Weight.Shape[2], n.Bias == nil
		case OpNorm:
			to.Op, to.Normalization, to.Eps = "norm", n.Norm, &n.Eps
			if n.Norm == "group" {
				to.Groups = n.Groups
			}
		case OpAct:
			to.Op, to.Activation = "act", n.Act.String()
		case OpAdd:
			to.Op = "add"
		case OpNoise:
			to.Op, to.NoiseType, to.NoiseScale = "noise", "gaussian", n.Noise.Scale
		}
		c.Nodes = append(c.Nodes, to)
	}
	return c
}

// TestProgram: an operator as a list of operations has the parameters, the
// nodes and the bits of the operator it was written from.
func TestProgram(t *testing.T) {
	for _, kind := range []string{"instance", "batch", "group", "layer", "none"} {
		op, err := Init(Config{NumLayers: 4, BaseChannels: 4, InputChannels: 2, OutputChannels: 2, KernelSize: 3,
			Normalization: kind, Activation: "gelu", NoiseType: "gaussian", NoiseScale: 0.1}, 3)
		if err != nil {
			t.Fatal(err)
		}
		same, err := buildNodes(asNodes(t, op))
		if err != nil {
			t.Fatal(err)
		}
		of := map[string][]float64{}
		var want, got []string
		for _, p := range op.Params() {
			for i := range p.Data { // PyTorch's initial norms are 1 and 0
				p.Data[i] = fp16.Float32.Round(p.Data[i] + 0.01*float64(i%7))
			}
			of[p.Name] = p.Data
			want = append(want, p.Name)
		}
		for _, p := range same.Params() {
			copy(p.Data, of[p.Name])
			got = append(got, p.Name)
		}
		slices.Sort(want) // a projection is constructed last, and computed before the sum
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("parameters %q: want %q", got, want)
		}
		if err := prepare(op.modules...); err != nil {
			t.Fatal(err)
		}
		if err := prepare(same.modules...); err != nil {
			t.Fatal(err)
		}
		x := tensor.New(fp16.Float32, 2, 2, 7, 9)
		for i := range x.Data {
			x.Data[i] = fp16.Float32.Round(math.Mod(float64(i)*0.37, 2) - 1)
		}
		for _, precision := range []string{"float32", "bfloat16", "float64"} {
			mode, err := graph.ParseMode(precision, "")
			if err != nil {
				t.Fatal(err)
			}
			a, b := applyOnce(t, op, mode, x), applyOnce(t, same, mode, x)
			if a.Format != b.Format || !slices.Equal(a.Data, b.Data) {
				t.Errorf("%s norm, %s: another output", kind, precision)
			}
			if f := same.NoiseFormat(mode); f != op.NoiseFormat(mode) {
				t.Errorf("%s norm, %s: noise in %v: want %v", kind, precision, f, op.NoiseFormat(mode))
			}
		}
		k, channels := same.Draws()
		if wantK, want := op.Draws(); !slices.Equal(k, wantK) || channels != want || same.MACs(7, 9) != op.MACs(7, 9) {
			t.Errorf("%s norm: draws %v of %d channels: want %v of %d", kind, k, channels, wantK, want)
		}
	}
}

func applyOnce(t *testing.T, op *Operator, m graph.Mode, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	d, err := noise.Counter{Seed: 5}.At(1, 0, x.N())
	if err != nil {
		t.Fatal(err)
	}
	y, err := op.Forward(&Pass{Mode: m, Draws: d}, x)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// TestProgramNorm: eps, groups and a norm without parameters arrive.
func TestProgramNorm(t *testing.T) {
	eps := 0.5
	op, err := buildNodes(Config{InputChannels: 6, Nodes: []NodeConfig{
		{Op: "norm", Name: "a", Normalization: "group", Groups: 3, Eps: &eps, NoAffine: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(op.Params()) != 0 {
		t.Fatalf("%d parameters: want none", len(op.Params()))
	}
	if err := prepare(op.modules...); err != nil {
		t.Fatal(err)
	}
	// Every group holds -1 and 1: y = x/sqrt(1+1/2).
	x := tensor.New(fp16.Float32, 1, 6, 1, 2)
	for i := range x.Data {
		x.Data[i] = float64(2*(i%2) - 1)
	}
	y := applyOnce(t, op, graph.Mode{Precision: fp16.Float32}, x)
	for i, v := range y.Data {
		if want := fp16.Float32.Round(x.Data[i] / math.Sqrt(1.5)); v != want {
			t.Fatalf("element %d is %v: want %v", i, v, want)
		}
	}
}

func TestReadNodes(t *testing.T) {
	const conv = `{"op":"conv","name":"a","out_channels":4,"kernel_size":3}`
	c, err := ReadConfig("f", "operator", []byte(`{"input_channels":2,"grid_size":8,"nodes":[`+conv+`,
		{"op":"norm","name":"b","normalization":"instance"},{"op":"act","name":"c","activation":"silu"},
		{"op":"add","name":"d","in":["c","a"]},{"op":"noise","name":"e","noise_type":"laplace","noise_scale":0.5},
		{"op":"conv","name":"f","out_channels":2,"kernel_size":1,"bias":false,"padding_mode":"circular"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.OutputChannels != 2 || c.GridSize != 8 || c.Nodes[0].NoBias || !c.Nodes[5].NoBias || c.Nodes[1].NoAffine ||
		*c.Nodes[1].Eps != 1e-5 {
		t.Errorf("read %+v", c)
	}
	for _, bad := range []struct{ nodes, want string }{
		{``, `f: operator.nodes: none: want one or more`},
		{`7`, `f: operator.nodes: 7: want a list of objects`},
		{`{"op":"pool","name":"a"}`, `f: operator.nodes[0].op: unknown operation "pool": want a registered one, such as `},
		{`{"op":"act","name":"a","activation":"gelu","bias":true}`,
			`f: operator.nodes[0].bias: unknown key: want one of activation, in, name, op`},
		{conv + `,` + conv, `f: operator.nodes[1].name: "a": want a name that no other node has`},
		{`{"op":"conv","name":"a","out_channels":4,"kernel_size":2}`, `f: operator.nodes[0].kernel_size: 2: want ` +
			`an odd number, so that padding by half of it keeps the image size`},
		{`{"op":"act","name":"a","activation":"gelu","in":["x"]}`,
			`f: operator.nodes[0].in: "x": want "input" or the name of an earlier node`},
		{`{"op":"act","name":"a","activation":"celu"}`, `f: operator.nodes[0].activation: unknown activation ` +
			`"celu": want one of none, relu, gelu, gelu_tanh, silu, tanh, swish`},
		{conv + `,{"op":"add","name":"b","in":["a","input"]}`,
			`f: operator.nodes[1].in: "a" has 4 channels and "input" has 2: want as many`},
		{`{"op":"norm","name":"a","normalization":"group","groups":3}`,
			`f: operator.nodes[0].groups: 3: want a divisor of the 2 channels`},
		{`{"op":"norm","name":"a","normalization":"rms"}`,
			`f: operator.nodes[0].normalization: "rms": want instance, batch, group or layer`},
		{`{"op":"noise","name":"a","noise_type":"pink","noise_scale":1}`,
			`f: operator.nodes[0].noise_type: unknown noise type "pink": want one of `},
		{`{"op":"noise","name":"a","noise_type":"gaussian","noise_scale":1e39}`,
			`f: operator.nodes[0].noise_scale: 1e+39: want a finite float32`},
		{`{"op":"noise","name":"a","noise_type":"dropout","noise_scale":5}`,
			`f: operator.nodes[0].noise_scale: 5: want a probability from 0 to 1, since noise_type is dropout`},
		{`{"op":"noise","name":"a","noise_type":"gaussian",` +
			`"noise_scale":1},{"op":"noise","name":"b","noise_type":"gaussian","noise_scale":1}`,
			`f: operator.nodes[1].op: noise for the second time: want one noise at most`},
	} {
		text := fmt.Sprintf(`{"input_channels":2,"nodes":[%s]}`, bad.nodes)
		if _, err := ReadConfig("f", "operator", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), bad.want) {
			t.Errorf("%s:\n got %v\nwant %s", bad.nodes, err, bad.want)
		}
	}
}

// TestBuildNodes: a list of operations is built like any operator.
func TestBuildNodes(t *testing.T) {
	c := Config{InputChannels: 1, Nodes: []NodeConfig{{Op: "conv", Name: "a", OutChannels: 1, KernelSize: 1}}}
	op, err := Init(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	if op.Config.OutputChannels != 1 || len(op.Params()) != 2 {
		t.Errorf("%d outputs, %d parameters: want 1, 2", op.Config.OutputChannels, len(op.Params()))
	}
	c.Nodes[0].KernelSize = 2
	if _, err := Init(c, 1); err == nil ||
		!strings.HasPrefix(err.Error(), "operator.nodes[0].kernel_size: 2: want an odd number") {
		t.Errorf("got %v", err)
	}
}
