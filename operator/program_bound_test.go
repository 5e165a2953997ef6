package operator

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// hourglass pools, convolves with a weight of its own, enlarges and joins: layers of
// Spinlock's and registered operations together.
const hourglass = `{"input_channels":2,"grid_size":8,"nodes":[
	{"op":"conv","name":"first","out_channels":3,"kernel_size":3},
	{"op":"avg_pool2d","name":"pool","attributes":{"kernel_size":2}},
	{"op":"conv2d","name":"inner","params":[{"name":"weight","shape":[4,3,1,1]},{"name":"bias","shape":[4]}]},
	{"op":"interpolate","name":"up","attributes":{"scale_factor":2}},
	{"op":"cat","name":"join","in":["up","first"],"attributes":{"dim":1}},
	{"op":"noise","name":"noise","noise_type":"gaussian","noise_scale":0.125},
	{"op":"conv","name":"last","out_channels":2,"kernel_size":1}]}`

func readOperator(t *testing.T, text string) (Config, error) {
	t.Helper()
	return ReadConfig("f", "operator", []byte(text))
}

// fileOf makes a weights file of tensors of small numbers.
func fileOf(t *testing.T, params []*Param) *safetensors.File {
	t.Helper()
	var all []*safetensors.Tensor
	for k, p := range params {
		data := make([]float64, len(p.Data))
		for i := range data {
			data[i] = float64((i*7+k)%11-5) / 8
		}
		s, err := safetensors.OfFloat64s(p.Name, safetensors.F32, p.Shape, data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, all, nil); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.ParseAt("weights", bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestBound: a registered operation in a list computes what its definition does, and a
// plan of such an operator has the bits of Forward.
func TestBound(t *testing.T) {
	c, err := readOperator(t, hourglass)
	if err != nil {
		t.Fatal(err)
	}
	if c.OutputChannels != 2 {
		t.Fatalf("%d output channels: want 2", c.OutputChannels)
	}
	empty, err := build(c)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range empty.Params() {
		names = append(names, p.Name)
	}
	if want := []string{
		"first.weight", "first.bias", "inner.weight", "inner.bias", "noise.noise_scale", "last.weight", "last.bias",
	}; !slices.Equal(names, want) {
		t.Fatalf("parameters %q: want %q", names, want)
	}
	op, err := Load(c, fileOf(t, empty.Params()))
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.New(fp16.Float32, 2, 2, 8, 8)
	for i := range x.Data {
		x.Data[i] = float64((i*5)%17-8) / 4
	}
	of := map[string]*Param{}
	for _, p := range op.Params() {
		of[p.Name] = p
	}
	convolved := func(x *tensor.Tensor, name string, pad int) *tensor.Tensor {
		w := of[name+".weight"]
		y := tensor.New(fp16.Float32, x.N(), w.Shape[0], x.H(), x.W())
		conv.Forward(y, x, conv.NewKernel(w.tensor(), of[name+".bias"].Data), conv.Square(1, pad, conv.Zeros))
		return y
	}
	first := convolved(x, "first", 1)
	small := tensor.New(fp16.Float32, 2, 3, 4, 4)
	for i := range small.Data { // a mean of four
		n, r, q := i/16, i/4%4, i%4
		at := n*64 + 2*r*8 + 2*q
		small.Data[i] = (first.Data[at] + first.Data[at+1] + first.Data[at+8] + first.Data[at+9]) / 4
	}
	inner := convolved(small, "inner", 0)
	joined := tensor.New(fp16.Float32, 2, 7, 8, 8)
	for n := range 2 {
		for ch := range 7 {
			for i := range 64 {
				v := &joined.Data[(n*7+ch)*64+i]
				if ch < 4 {
					*v = inner.Plane(n, ch)[i/16*4+i%8/2]
				} else {
					*v = first.Plane(n, ch-4)[i]
				}
			}
		}
	}
	want := convolved(joined, "last", 0)
	mode := graph.Mode{Precision: fp16.Float32}
	y, err := op.Forward(&Pass{Mode: mode}, x)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(y.Data, want.Data) || !slices.Equal(y.Shape, want.Shape) {
		t.Error("another output than the definitions'")
	}
	// 3x3 of 2 to 3 on 64 pixels, 1x1 of 3 to 4 on 16, 1x1 of 7 to 2 on 64
	if n := op.MACs(8, 8); n != 64*3*2*9+16*12+64*14 {
		t.Errorf("%d multiplications", n)
	}
	if kinds, channels := op.Draws(); len(kinds) != 1 || channels != 7 {
		t.Errorf("draws %v of %d channels: want one of 7", kinds, channels)
	}
	for _, precision := range []string{"float32", "tf32", "bfloat16", "float16", "float64"} {
		mode, err := graph.ParseMode(precision, "")
		if err != nil {
			t.Fatal(err)
		}
		x.Format = mode.Wide()
		y := applyOnce(t, op, mode, x)
		p := op.Compile(mode, 2, 8, 8)
		if ok, why := p.Compiled(); ok != (precision != "float64") {
			t.Errorf("%s: compiled %v: %s", precision, ok, why)
		}
		for _, n := range p.Nodes() {
			if other := n.Name == "pool" || n.Name == "up" || n.Name == "join"; other != (n.Kernel == "definition") {
				t.Errorf("%s: %s is done by %s", precision, n.Name, n.Kernel)
			}
		}
		d, err := noise.Counter{Seed: 5}.At(1, 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Forward(p.Result(), x, d, noise.Time{}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p.Result().Data, y.Data) {
			t.Errorf("%s: the plan computes another output", precision)
		}
	}
}

// TestBoundRefuses: what makes no operator is refused where it is read.
func TestBoundRefuses(t *testing.T) {
	for _, k := range []struct{ old, new, says string }{
		{`"grid_size":8,`, ``, `f: operator.grid_size: missing: want the side of the images, ` +
			`on which the shapes of op "avg_pool2d" depend`},
		{`"avg_pool2d"`, `"avgpool"`,
			`f: operator.nodes[1].op: unknown operation "avgpool": want a registered one, such as avg_pool`},
		{`"kernel_size":2}`, `"kernel":2}`, `f: operator.nodes[1].op: avg_pool2d: "kernel": no such attribute: want `},
		{`"kernel_size":2}`, `"kernel_size":9}`, `f: operator.nodes[1].op: avg_pool2d: `},
		{`[4,3,1,1]`, `[4,5,1,1]`, `f: operator.nodes[2].op: conv2d: `},
		{`[4,3,1,1]`, `[4,0,1,1]`, `f: operator.nodes[2].params[0].shape: 0: want dimensions of 1 or more`},
		{`[4,3,1,1]`, `[65536,65536,9,9]`, `f: operator.nodes[2].params[0].shape: [65536 65536 9 9]: want fewer`},
		{`{"name":"bias","shape":[4]}`, `{"name":"weight","shape":[4]}`,
			`f: operator.nodes[2].params[1].name: "weight": want a name that no other parameter`},
		{`"shape":[4]}`, `"shape":[4],"dtype":"float8"}`,
			`f: operator.nodes[2].params[1].dtype: "float8": want float32 or int64`},
		{`"shape":[4]}`, `"shape":[4],"dtype":"int64"}`, `f: operator.nodes[2].op: conv2d: `},
		{`["up","first"]`, `["up","pool"]`, `f: operator.nodes[4].op: cat: `},
		{`["up","first"]`, `["up","weight"]`,
			`f: operator.nodes[4].in: "weight": want "input" or the name of an earlier node`},
		{`,
	{"op":"conv","name":"last","out_channels":2,"kernel_size":1}`,
			`,{"op":"avg_pool2d","name":"last","attributes":{"kernel_size":2}}`,
			`f: operator.nodes[6]: output of shape [1 7 4 4]: want images of 8x8`},
	} {
		text := strings.Replace(hourglass, k.old, k.new, 1)
		if text == hourglass {
			t.Fatalf("%s is not there", k.old)
		}
		_, err := readOperator(t, text)
		if err == nil || !strings.HasPrefix(err.Error(), k.says) || len(err.Error()) > 300 {
			t.Errorf("%s: %v\nwant %s", k.new, err, k.says)
		}
	}
	c, err := readOperator(t, hourglass)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Init(c, 1); err == nil || !strings.HasPrefix(err.Error(),
		"operator.nodes: inner: no draws of PyTorch's belong to the parameters of op conv2d") {
		t.Errorf("%v", err)
	}
}
