package operator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// torchFNO is what neuraloperator computed with one FNO: see testdata/fno.py.
type torchFNO struct {
	op                      *Operator
	input, float32, float64 *tensor.Tensor
}

func torchFNOs(t *testing.T) (all []torchFNO) {
	data, err := os.ReadFile("testdata/fno.json")
	if err != nil {
		t.Fatal(err)
	}
	var configs []json.RawMessage
	if err := json.Unmarshal(data, &configs); err != nil {
		t.Fatal(err)
	}
	for k, text := range configs {
		config, err := ReadConfig("fno.json", fmt.Sprintf("[%d]", k), text)
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Open(fmt.Sprintf("testdata/fno.%d.safetensors", k))
		if err != nil {
			t.Fatal(err)
		}
		var weights []*safetensors.Tensor
		given := map[string]*tensor.Tensor{}
		for _, name := range f.Names() {
			x, err := f.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			if of, ok := strings.CutPrefix(name, "weights."); ok {
				w := *x
				w.Name = of
				weights = append(weights, &w)
				continue
			}
			data, err := x.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			format, _ := x.DType.Format()
			given[name] = tensor.Of(format, data, x.Shape...)
		}
		var b bytes.Buffer
		if err := safetensors.Write(&b, weights, nil); err != nil {
			t.Fatal(err)
		}
		only, err := safetensors.Parse("weights", b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		op, err := Load(config, only)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, torchFNO{op, given["input"], given["float32"], given["float64"]})
	}
	return all
}

// TestFNOTorch: an FNO's float32 output is at most as far from neuraloperator's float64
// output as neuraloperator's float32 one is, plans have its bits, and in float64 mode the
// outputs are equal but for the order of sums.
func TestFNOTorch(t *testing.T) {
	for k, c := range torchFNOs(t) {
		mode := graph.Mode{Precision: fp16.Float32}
		y, err := c.op.Forward(&Pass{Mode: mode}, c.input)
		if err != nil {
			t.Fatal(err)
		}
		ours, torch := rms(y, c.float64), rms(c.float32, c.float64)
		if !(ours <= 1.02*torch) {
			t.Errorf("%d: distance of the float32 output to float64 %.3g: want at most 1.02 times PyTorch's %.3g",
				k, ours, torch)
		}
		for _, m := range []graph.Mode{mode, {Precision: fp16.BFloat16, Autocast: graph.CPU2}} {
			want, err := c.op.Forward(&Pass{Mode: m}, c.input)
			if err != nil {
				t.Fatal(err)
			}
			p := c.op.Compile(m, c.input.N(), c.input.H(), c.input.W())
			if ok, why := p.Compiled(); !ok {
				t.Errorf("%d, %v: not compiled: %s", k, m, why)
			}
			if err := p.Forward(p.Result(), c.input, nil, noise.Time{}); err != nil {
				t.Fatal(err)
			}
			if at := unequal(p.Result(), want); at != "" {
				t.Errorf("%d, %v: the plan's output: %s", k, m, at)
			}
		}
		wide := tensor.Of(fp16.Float64, c.input.Data, c.input.Shape...)
		if y, err = c.op.Forward(&Pass{Mode: graph.Mode{Precision: fp16.Float64}}, wide); err != nil {
			t.Fatal(err)
		}
		if got := rms(y, c.float64); !(got <= 8*torch/(1<<29)) {
			t.Errorf("%d: distance of the float64 outputs %.3g: want at most %.3g", k, got, 8*torch/(1<<29))
		}
	}
}

// TestFNOCost: products and weights that are computed from a configuration are those of the
// operator.
func TestFNOCost(t *testing.T) {
	for k, c := range torchFNOs(t) {
		macs, weights := c.op.Config.MACs(c.input.H(), c.input.W())
		if n := c.op.MACs(c.input.H(), c.input.W()); macs != float64(n) {
			t.Errorf("%d: %v multiplications: want %d", k, macs, n)
		}
		n := 0
		for _, p := range c.op.Params() {
			if len(p.Shape) > 3 && p.Shape[0] > 1 {
				n += len(p.Data)
			}
		}
		if weights != float64(n) {
			t.Errorf("%d: %v weights: want %d", k, weights, n)
		}
	}
}

// TestFNOConfig: what makes no FNO is refused by name, and seeds give no weights.
func TestFNOConfig(t *testing.T) {
	for _, bad := range []struct{ with, want string }{
		{`"hidden_channels": 4`, "f: n_modes: missing"},
		{`"n_modes": [4], "hidden_channels": 4`, "f: n_modes: 1 numbers: want 2"},
		{`"n_modes": [4, 0], "hidden_channels": 4`, "f: n_modes: [4 0]: want"},
		{`"n_modes": [4, 4], "hidden_channels": 4, "norm": "batch_norm"`, `f: norm: "batch_norm": want`},
		{`"n_modes": [4, 4], "hidden_channels": 4, "fno_skip": "dense"`, `f: fno_skip: "dense": want`},
		{`"n_modes": [4, 4], "hidden_channels": 4, "channel_mlp_expansion": 0.01`,
			"f: channel_mlp_expansion: 0 channels: want"},
		{`"n_modes": [60000, 60000], "hidden_channels": 400`, "f: hidden_channels: 400: want fewer"},
		{`"n_modes": [4, 4], "hidden_channels": 4, "positional_embedding": "sine"`, `f: positional_embedding: "sine": want`},
		{`"n_modes": [4, 4], "hidden_channels": 4, "non_linearity": "elu"`, "f: non_linearity: "},
		{`"n_modes": [4, 4], "hidden_channels": 4, "factorization": "tucker"`, "f: factorization: unknown key"},
	} {
		if _, err := ReadConfig("f", "", []byte(`{"operator_type": "fno", `+bad.with+`}`)); err == nil ||
			!strings.HasPrefix(err.Error(), bad.want) {
			t.Errorf("%s: %v: want %s...", bad.with, err, bad.want)
		}
	}
	_, err := Init(Config{FNO: &FNO{Modes: [2]int{4, 4}, HiddenChannels: 4}}, 1)
	if err == nil || !strings.Contains(err.Error(), "want a weights file") {
		t.Errorf("Init: %v: want an error that asks for weights", err)
	}
}
