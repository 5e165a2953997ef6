package oracle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// TestAutocastPolicies holds our policies to what PyTorch's CPU returned for a
// float32 state and a half output. 1.13 rounds a constant beside a half tensor
// to the half type, and every product is ours. 2.9 rounds the product to float32
// and then to the half type, ours once: where that differs, and nowhere else,
// the results do.
func TestAutocastPolicies(t *testing.T) {
	for set, precision := range map[string]string{
		"1.13-bfloat16": "bfloat16", "2.9-bfloat16": "bfloat16", "2.9-float16": "float16",
	} {
		t.Run(set, func(t *testing.T) {
			autocast := "cpu"
			if set == "1.13-bfloat16" {
				autocast = "cpu:1.13"
			}
			m, err := graph.ParseMode(precision, autocast)
			if err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(rig.Testdata("autocast"), set, "ops")
			data, err := os.ReadFile(filepath.Join(folder, "index.json"))
			if err != nil {
				t.Fatal(err)
			}
			var index struct {
				Cases []struct {
					File, Op string
					Attrs    struct{ Alpha, Dt, Factor float64 }
				}
			}
			if err := json.Unmarshal(data, &index); err != nil {
				t.Fatal(err)
			}
			seen := 0
			for _, c := range index.Cases {
				config := rollout.Config{}
				switch c.Op {
				case "convex":
					config.Policy, config.Alpha = rollout.Convex, c.Attrs.Alpha
				case "residual":
					config.Policy, config.Dt = rollout.Residual, c.Attrs.Dt
				case "scaled": // dt*O, of a state of zeros
					config.Policy, config.Dt = rollout.Residual, c.Attrs.Factor
				default:
					continue
				}
				seen++
				f, err := safetensors.Open(filepath.Join(folder, c.File))
				if err != nil {
					t.Fatal(err)
				}
				checkPolicy(t, c.File, config, m, f)
			}
			if seen < 6 {
				t.Errorf("%d policies: want 6", seen)
			}
		})
	}
}

func checkPolicy(t *testing.T, name string, config rollout.Config, m graph.Mode, f *safetensors.File) {
	t.Helper()
	y, theirs := planes(t, f, "y"), planes(t, f, "out")
	y.Format = m.Precision
	x := tensor.Like(y)
	x.Format = fp16.Float32
	if _, err := f.Tensor("x"); err == nil {
		x = planes(t, f, "x")
	}
	ours := stepTo(t, config, m, x, y)
	plain := policy(config, m, x, y)

	differ := 0
	for i, v := range theirs.Data {
		if v != plain.Data[i] {
			t.Fatalf("%s, element %d: PyTorch's %v: want %v, products rounded to float32 first", name, i, v, plain.Data[i])
		}
		c := config.Dt
		if config.Policy == rollout.Convex {
			c = 1 - config.Alpha
		}
		c = float64(float32(c))
		if m.Autocast == graph.CPU113 {
			c = m.Precision.Round(c)
		}
		product := c * y.Data[i] // exact
		twice := m.Precision.Round(fp16.Float32.Round(product)) != m.Precision.Round(product)
		if v != ours.Data[i] {
			differ++
			if !twice {
				t.Fatalf("%s, element %d: ours %v, PyTorch's %v", name, i, ours.Data[i], v)
			}
		}
	}
	t.Logf("%-28s %d of %d differ, where a product rounds twice", name, differ, len(theirs.Data))
	if differ*33 > len(theirs.Data) {
		t.Errorf("%s: %d of %d differ: want 3 %% at most", name, differ, len(theirs.Data))
	}
}

// stepTo steps x once, with an operator that returns y: its input holds both, as
// channels, and its weights pick y.
func stepTo(t *testing.T, config rollout.Config, m graph.Mode, x, y *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	c := x.C()
	op, err := operator.Init(operator.Config{BaseChannels: 2 * c, InputChannels: 2 * c, OutputChannels: 2 * c,
		KernelSize: 1, Activation: "none", Normalization: "none"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range op.Params() { // before their first use
		clear(p.Data)
		for i := range c {
			switch p.Name {
			case "conv_blocks.0.block.0.weight":
				p.Data[i*2*c+c+i] = 1
			case "output_layer.conv.weight":
				p.Data[i*2*c+i] = 1
			}
		}
	}
	both := tensor.New(fp16.Float32, x.N(), 2*c, x.H(), x.W())
	for n := range x.N() {
		sample := both.Samples(n, n+1).Data
		copy(sample[copy(sample, x.Samples(n, n+1).Data):], y.Samples(n, n+1).Data)
	}
	s := &rollout.Stepper{Operator: op, Config: config, Mode: m}
	next, err := s.Step(both, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := tensor.Like(x)
	for n := range x.N() {
		copy(out.Samples(n, n+1).Data, next.Samples(n, n+1).Data)
	}
	return out
}

// planes reads numbers of any type; those of one dimension are one image.
func planes(t *testing.T, f *safetensors.File, name string) *tensor.Tensor {
	t.Helper()
	raw, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := raw.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	s := raw.Shape
	if len(s) == 1 {
		s = []int{1, 1, 1, s[0]}
	}
	return tensor.Of(fp16.Float32, v, s[0], s[1], s[2], s[3])
}
