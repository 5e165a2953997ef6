package operator

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// readCase returns a case's operator parameters and weights seed.
func readCase(t *testing.T, dir string) (Config, uint64) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Operator    json.RawMessage
		WeightsSeed uint64 `json:"weights_seed"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	cfg, err := ReadConfig("case.json", "operator", c.Operator)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, c.WeightsSeed
}

// TestInit draws the weights of every recorded operator from its seed and
// finds the file's, bit for bit.
func TestInit(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/rollouts/*")
	if err != nil || len(dirs) < 5 {
		t.Fatalf("found %d cases: %v", len(dirs), err)
	}
	for _, dir := range dirs {
		cfg, seed := readCase(t, dir)
		op, err := Init(cfg, seed)
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Open(filepath.Join(dir, "weights.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(cfg, f)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range op.Params() {
			q := loaded.Params()[i]
			for j := range p.Data {
				if math.Float64bits(p.Data[j]) != math.Float64bits(q.Data[j]) {
					t.Fatalf("%s: %s: element %d is %v from the seed, %v in the file", dir, p.Name, j, p.Data[j], q.Data[j])
				}
			}
		}
	}
}

// TestInitFull compares the 2.4 million weights of an operator of 64 base
// channels with those PyTorch 1.13 drew, by the SHA-256 of all float32 parameters in
// the order of construction.
func TestInitFull(t *testing.T) {
	op, err := Init(Config{NumLayers: 4, BaseChannels: 64, InputChannels: 3, OutputChannels: 3, KernelSize: 3,
		Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.01}, 0)
	if err != nil {
		t.Fatal(err)
	}
	h, n := sha256.New(), 0
	for _, p := range op.Params() {
		b := make([]byte, 0, 4*len(p.Data))
		for _, v := range p.Data {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
		h.Write(b)
		n += len(p.Data)
	}
	const want = "11b99c2581dda019d0433591a2b5b37b3c0fd05a0ace142bc75b9192d162cfb2"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("%d weights have digest %s, want %s", n, got, want)
	}
}

func small() Config {
	return Config{NumLayers: 1, BaseChannels: 4, InputChannels: 2, OutputChannels: 2, KernelSize: 3,
		Activation: "silu", Normalization: "batch", NoiseType: "gaussian", NoiseScale: 0.1}
}

// file returns the operator's parameters as a file, after edit has changed
// them.
func file(
	t *testing.T, op *Operator, edit func(m map[string]*safetensors.Tensor) map[string]*safetensors.Tensor,
) *safetensors.File {
	t.Helper()
	m := map[string]*safetensors.Tensor{}
	for _, p := range op.Params() {
		d := safetensors.F32
		var x *safetensors.Tensor
		var err error
		if p.Counter {
			x, err = safetensors.New(p.Name, safetensors.I64, p.Shape, make([]byte, 8))
		} else {
			x, err = safetensors.OfFloat64s(p.Name, d, p.Shape, p.Data)
		}
		if err != nil {
			t.Fatal(err)
		}
		m[p.Name] = x
	}
	if edit != nil {
		m = edit(m)
	}
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	var all []*safetensors.Tensor
	for _, n := range names {
		x := *m[n]
		x.Name = n
		all = append(all, &x)
	}
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := safetensors.WriteFile(path, all, nil); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func input(n, c, h, w int) *tensor.Tensor {
	x := tensor.New(fp16.Float32, n, c, h, w)
	g, _ := noise.ParseTorchCPU("torch-cpu:2.x", "")
	g.Seed(9)
	g.Normal(x.Data)
	return x
}

// TestSequentialNames loads the same weights under the names of an
// nn.Sequential.
func TestSequentialNames(t *testing.T) {
	op, err := Init(small(), 3)
	if err != nil {
		t.Fatal(err)
	}
	f := file(t, op, func(m map[string]*safetensors.Tensor) map[string]*safetensors.Tensor {
		out := map[string]*safetensors.Tensor{}
		for name, x := range m {
			name = strings.TrimPrefix(name, "conv_blocks.")
			name = strings.Replace(name, "stochastic_block.", "2.", 1)
			name = strings.Replace(name, "output_layer.", "3.", 1)
			out[name] = x
		}
		return out
	})
	other, err := Load(small(), f)
	if err != nil {
		t.Fatal(err)
	}
	x := input(2, 2, 6, 7)
	p := &Pass{Mode: graph.Mode{Precision: fp16.Float32}}
	if i := differ(forward(t, op.wrap(), p, x, nil), forward(t, other.wrap(), p, x, nil)); i >= 0 {
		t.Errorf("element %d differs", i)
	}
}

// wrap makes an operator a module.
func (op *Operator) wrap() module { return whole{op} }

type whole struct{ *Operator }

func (w whole) layers(visit func(layer))    { visitAll(visit, w.modules...) }
func (w whole) build(b *builder, x int) int { return b.sequence(x, w.modules...) }

func TestLoadRefuses(t *testing.T) {
	op, err := Init(small(), 3)
	if err != nil {
		t.Fatal(err)
	}
	set := func(
		t *testing.T, m map[string]*safetensors.Tensor, name string, d safetensors.DType, shape []int, v ...float64,
	) {
		x, err := safetensors.OfFloat64s(name, d, shape, v)
		if err != nil {
			t.Fatal(err)
		}
		m[name] = x
	}
	one := []float64{1, 1, 1, 1}
	for _, c := range []struct {
		what string
		edit func(m map[string]*safetensors.Tensor)
		want []string
	}{
		{"missing", func(m map[string]*safetensors.Tensor) { delete(m, "output_layer.conv.bias") },
			[]string{"output_layer.conv.bias", "missing"}},
		{"unknown", func(m map[string]*safetensors.Tensor) {
			set(t, m, "extra.weight", safetensors.F32, []int{4}, one...)
		}, []string{"extra.weight", "unknown"}},
		{"shape", func(m map[string]*safetensors.Tensor) {
			set(t, m, "conv_blocks.0.block.1.weight", safetensors.F32, []int{2, 2}, one...)
		}, []string{"conv_blocks.0.block.1.weight", "[2 2]", "[4]"}},
		{"dtype", func(m map[string]*safetensors.Tensor) {
			set(t, m, "conv_blocks.0.block.1.weight", safetensors.F16, []int{4}, one...)
		}, []string{"conv_blocks.0.block.1.weight", "F16", "F32"}},
		{"NaN", func(m map[string]*safetensors.Tensor) {
			set(t, m, "conv_blocks.0.block.1.bias", safetensors.F32, []int{4}, 0, 0, math.NaN(), 0)
		}, []string{"conv_blocks.0.block.1.bias", "element 2", "NaN", "finite"}},
		{"infinity", func(m map[string]*safetensors.Tensor) {
			set(t, m, "stochastic_block.noise_scale", safetensors.F32, []int{1}, math.Inf(1))
		}, []string{"stochastic_block.noise_scale", "Inf", "finite"}},
		{"negative variance", func(m map[string]*safetensors.Tensor) {
			set(t, m, "conv_blocks.1.block.1.running_var", safetensors.F32, []int{4}, 1, 1, 1, -1)
		}, []string{"conv_blocks.1.block.1.running_var", "element 3", "-1", "0 or more"}},
		{"counter", func(m map[string]*safetensors.Tensor) {
			set(t, m, "conv_blocks.1.block.1.num_batches_tracked", safetensors.F32, []int{1}, 0)
		}, []string{"num_batches_tracked", "F32", "I64"}},
	} {
		f := file(t, op, func(m map[string]*safetensors.Tensor) map[string]*safetensors.Tensor { c.edit(m); return m })
		_, err := Load(small(), f)
		if err == nil {
			t.Errorf("%s: no error", c.what)
			continue
		}
		for _, w := range append(c.want, f.Path) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", c.what, err, w)
			}
		}
	}
	if _, err := Load(small(), file(t, op, nil)); err != nil {
		t.Errorf("the unchanged file: %v", err)
	}
	f := file(t, op, func(m map[string]*safetensors.Tensor) map[string]*safetensors.Tensor {
		delete(m, "conv_blocks.1.block.1.num_batches_tracked")
		return m
	})
	if _, err := Load(small(), f); err != nil {
		t.Errorf("without a counter that nothing reads: %v", err)
	}
}

func TestConfigRefuses(t *testing.T) {
	const good = `"num_layers":2,"base_channels":8`
	for _, c := range []struct{ json, want string }{
		{`{"base_channels":8}`, "operator.num_layers: missing"},
		{`{"num_layers":2}`, "operator.base_channels: missing"},
		{`{` + good + `,"dropout":0.1}`, "operator.dropout: unknown key"},
		{`{` + good + `,"kernel_size":4}`, "operator.kernel_size: 4: want an odd number"},
		{`{` + good + `,"kernel_size":0}`, "operator.kernel_size: 0: want"},
		{`{` + good + `,"num_layers":3}`, "operator.num_layers: given twice"},
		{`{"num_layers":-1,"base_channels":8}`, "operator.num_layers: -1: want"},
		{`{"num_layers":"two","base_channels":8}`, `operator.num_layers: "two": want an integer`},
		{`{"num_layers":2.5,"base_channels":8}`, "operator.num_layers: 2.5: want an integer"},
		{`{` + good + `,"normalization":"spectral"}`, `operator.normalization: "spectral": want instance`},
		{`{` + good + `,"activation":"mish"}`, `operator.activation: unknown activation "mish"`},
		{`{` + good + `,"noise_type":"pink","noise_scale":0.1}`, `operator.noise_type: unknown noise type "pink"`},
		{`{` + good + `,"noise_type":"dropout","noise_scale":1.5}`, "operator.noise_scale: 1.5: want a probability"},
		{`{` + good + `,"dropout_rate":2}`, "operator.dropout_rate: 2: want"},
		{`{"num_layers":2,"base_channels":33,"normalization":"group"}`,
			"operator.normalization: group norm of 33 channels: want"},
		{`[1]`, "operator: want a JSON object"},
	} {
		cfg, err := ReadConfig("f.json", "operator", []byte(c.json))
		if err == nil {
			if _, err = build(cfg); err != nil {
				err = fmt.Errorf("f.json: operator: %w", err)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "f.json: ") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", c.json, err, c.want)
		}
	}
}

// TestBuilder holds the tree against build_simple_cnn's description: widths
// b*2^min(i,2), residual blocks beyond three layers, a bias exactly where there
// is no norm.
func TestBuilder(t *testing.T) {
	shapes := func(c Config) map[string][]int {
		op, err := build(c)
		if err != nil {
			t.Fatal(err)
		}
		m := map[string][]int{}
		for _, p := range op.Params() {
			m[p.Name] = p.Shape
		}
		return m
	}
	c := small()
	c.NumLayers, c.Normalization, c.NoiseType = 3, "none", ""
	got := shapes(c)
	for name, want := range map[string][]int{
		"conv_blocks.0.block.0.weight": {4, 2, 3, 3}, "conv_blocks.0.block.0.bias": {4},
		"conv_blocks.1.block.0.weight": {4, 4, 3, 3}, "conv_blocks.1.block.0.bias": {4},
		"conv_blocks.2.block.0.weight": {8, 4, 3, 3}, "conv_blocks.2.block.0.bias": {8},
		"conv_blocks.3.block.0.weight": {16, 8, 3, 3}, "conv_blocks.3.block.0.bias": {16},
		"output_layer.conv.weight": {2, 16, 1, 1}, "output_layer.conv.bias": {2},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s has shape %v, want %v", name, got[name], want)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("surplus parameter %s", name)
	}
	c.NumLayers, c.Normalization = 5, "instance"
	got = shapes(c)
	for name, want := range map[string][]int{
		"conv_blocks.2.projection.weight":       {8, 4, 1, 1},
		"conv_blocks.4.projection.weight":       nil, // 16 to 16 channels
		"conv_blocks.4.blocks.1.block.0.weight": {16, 16, 3, 3},
		"conv_blocks.4.blocks.1.block.0.bias":   nil,
		"conv_blocks.5.blocks.0.block.1.weight": {16},
		"conv_blocks.1.blocks.0.block.0.weight": {4, 4, 3, 3},
		"conv_blocks.0.block.0.bias":            nil,
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s has shape %v, want %v", name, got[name], want)
		}
	}
}

// TestFeatures checks that features carry PyTorch's names and the values that
// flow on.
func TestFeatures(t *testing.T) {
	c := small()
	c.DropoutRate = 0.5
	op, err := Init(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var last *tensor.Tensor
	x := input(1, 2, 5, 5)
	y, err := op.Forward(&Pass{Mode: graph.Mode{Precision: fp16.Float32}, Feature: func(name string, y *tensor.Tensor) {
		names = append(names, name)
		last = y
	}}, x)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"input",
		"conv_blocks.0.block.0", "conv_blocks.0.block.1", "conv_blocks.0.block.2", "conv_blocks.0.block.3", "conv_blocks.0",
		"conv_blocks.1.block.0", "conv_blocks.1.block.1", "conv_blocks.1.block.2", "conv_blocks.1.block.3", "conv_blocks.1",
		"stochastic_block", "output_layer.conv", "output_layer.activation", "output_layer", "output"}
	if !slices.Equal(names, want) {
		t.Errorf("features %q, want %q", names, want)
	}
	if last != y {
		t.Error("the last feature is not the output")
	}
}

func TestForwardRefuses(t *testing.T) {
	op, err := Init(small(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := op.Forward(&Pass{Mode: graph.Mode{Precision: fp16.Float32}}, input(1, 3, 5, 5)); err == nil ||
		!strings.Contains(err.Error(), "3 channels: want 2") {
		t.Errorf("three channels: error %v", err)
	}
	for _, c := range []struct {
		mode string
		h    int
		want string
	}{{"circular", 2, "want at least 3x3"}, {"reflect", 3, "want at least 4x4"}} {
		b, err := newConvBlock("b", 2, 2, convOptions{KernelSize: 7, PaddingMode: c.mode})
		if err != nil {
			t.Fatal(err)
		}
		if err := initialise(1, b); err != nil {
			t.Fatal(err)
		}
		if _, err := forwardOf(b, &Pass{Mode: graph.Mode{Precision: fp16.Float32}}, input(1, 2, c.h, c.h), nil); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s padding of a %dx%d image: error %v, want %q", c.mode, c.h, c.h, err, c.want)
		}
	}
	for _, bad := range []func() error{
		func() error { _, err := newConvBlock("", 1, 1, convOptions{KernelSize: 2}); return err },
		func() error { _, err := newConvBlock("", 1, 1, convOptions{PaddingMode: "valid"}); return err },
		func() error { _, err := newConvBlock("", 1, 1, convOptions{Stride: -1}); return err },
		func() error { _, err := newResidualBlock("", 1, 1, 0, convOptions{}); return err },
		func() error { _, err := newResidualBlock("", 1, 1, 1, convOptions{Stride: 2}); return err },
		func() error { _, err := newDownsampleBlock("", 1, 1, 2, "max", convOptions{}); return err },
		func() error { _, err := newUpsampleBlock("", 1, 1, 2, "bicubic", 0, "", convOptions{}); return err },
		func() error { _, err := newUpsampleBlock("", 4, 1, 2, "", 3, "add", convOptions{}); return err },
		func() error { _, err := newUpsampleBlock("", 4, 1, 2, "", 3, "mean", convOptions{}); return err },
		func() error { _, err := newOutputLayer("", 1, 1, 2, ""); return err },
	} {
		if err := bad(); err == nil || !strings.Contains(err.Error(), ": want ") &&
			!strings.Contains(err.Error(), "want one of") {
			t.Errorf("error %v: want one that says what was expected", err)
		}
	}
}

// TestBlockWeights uses a block as a caller from outside does.
func TestBlockWeights(t *testing.T) {
	pass := &Pass{Mode: graph.Mode{Precision: fp16.Float32}}
	block := func() module {
		b, err := newConvBlock("b", 2, 3, convOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	x := input(1, 2, 5, 5)
	if _, err := forwardOf(block(), pass, x, nil); err == nil || !strings.Contains(err.Error(), "no weights yet") {
		t.Errorf("without weights: error %v", err)
	}
	a, b := block(), block()
	if err := initialise(7, a); err != nil {
		t.Fatal(err)
	}
	var all []*safetensors.Tensor
	for _, p := range params(a) {
		w, err := safetensors.OfFloat64s(p.Name, safetensors.F32, p.Shape, p.Data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := safetensors.WriteFile(path, all, nil); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := load(f, "", nil, b); err != nil {
		t.Fatal(err)
	}
	if i := differ(forward(t, a, pass, x, nil), forward(t, b, pass, x, nil)); i >= 0 {
		t.Errorf("element %d differs between the block and its copy by file", i)
	}
}

// TestUndefined refuses what has no definition, instead of computing it.
func TestUndefined(t *testing.T) {
	op, err := Init(small(), 1)
	if err != nil {
		t.Fatal(err)
	}
	wide := input(1, 2, 5, 5)
	wide.Format = fp16.Float64
	if _, err := op.Forward(&Pass{Mode: graph.Mode{Precision: fp16.Float32}}, wide); err == nil ||
		!strings.Contains(err.Error(), "float64") {
		t.Errorf("float64 numbers in float32: error %v", err)
	}
	for _, edit := range []func(c *Config){
		func(c *Config) { c.NumLayers = -4 }, func(c *Config) { c.BaseChannels = -4 },
		func(c *Config) { c.InputChannels = -1 },
		func(c *Config) { c.OutputChannels = -1 }, func(c *Config) { c.KernelSize = -3 },
	} {
		c := small()
		edit(&c)
		if _, err := Init(c, 1); err == nil || !strings.Contains(err.Error(), ": want ") {
			t.Errorf("%+v: error %v", c, err)
		}
	}
	for _, bad := range []func() error{
		func() error { _, err := newConvBlock("", -3, 1, convOptions{}); return err },
		func() error { _, err := newConvBlock("", 1, 0, convOptions{Normalization: "group"}); return err },
		func() error { _, err := newUpsampleBlock("", 1, 1, 8193, "bilinear", 0, "", convOptions{}); return err },
		func() error { _, err := newOutputLayer("", 0, 1, 1, ""); return err },
	} {
		if err := bad(); err == nil || !strings.Contains(err.Error(), ": want ") {
			t.Errorf("error %v: want one that says what was expected", err)
		}
	}
}

// TestConfigDefaults: an activation and a norm that a Config does not name are
// Spinlock's.
func TestConfigDefaults(t *testing.T) {
	unnamed := Config{NumLayers: 1, BaseChannels: 2, InputChannels: 3, OutputChannels: 3, KernelSize: 3}
	named := unnamed
	named.Activation, named.Normalization = "gelu", "instance"
	var results [][]float64
	for _, c := range []Config{unnamed, named} {
		op, err := Init(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		x := tensor.New(fp16.Float32, 1, 3, 4, 4)
		for i := range x.Data {
			x.Data[i] = float64(i%7) - 3
		}
		y, err := op.Forward(&Pass{}, x)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, y.Data)
	}
	if !slices.Equal(results[0], results[1]) {
		t.Errorf("unnamed %v, named %v", results[0], results[1])
	}
}
