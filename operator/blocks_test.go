package operator

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// blockCase is an entry of testdata/blocks/index.json: a block of Spinlock's,
// run by PyTorch.
type blockCase struct {
	File   string
	Block  string
	Params struct {
		In, Out       int
		KernelSize    int `json:"kernel_size"`
		Normalization string
		Activation    string
		PaddingMode   string `json:"padding_mode"`
		NumConvs      int    `json:"num_convs"`
		Mode          string
		SkipChannels  int     `json:"skip_channels"`
		FusionMode    string  `json:"fusion_mode"`
		NoiseType     string  `json:"noise_type"`
		NoiseScale    float64 `json:"noise_scale"`
		NoiseSchedule string  `json:"noise_schedule"`
		Period        int     `json:"schedule_period"`
		Correlation   float64 `json:"spatial_correlation"`
	}
	Forward struct {
		Step     *int
		MaxSteps *int `json:"max_steps"`
	}
	Seed uint64 `json:"manual_seed_before_forward"`
}

func (c blockCase) build(t *testing.T) module {
	t.Helper()
	p := c.Params
	o := convOptions{
		KernelSize: p.KernelSize, Normalization: p.Normalization, Activation: p.Activation, PaddingMode: p.PaddingMode,
	}
	var m module
	var err error
	switch c.Block {
	case "ConvBlock":
		m, err = newConvBlock("", p.In, p.Out, o)
	case "ResidualBlock":
		m, err = newResidualBlock("", p.In, p.Out, p.NumConvs, o)
	case "DownsampleBlock":
		m, err = newDownsampleBlock("", p.In, p.Out, 0, p.Mode, o)
	case "UpsampleBlock":
		m, err = newUpsampleBlock("", p.In, p.Out, 0, p.Mode, p.SkipChannels, p.FusionMode, o)
	case "OutputLayer":
		m, err = newOutputLayer("", p.In, p.Out, 0, p.Activation)
	case "StochasticBlock":
		b := noise.Block{Scale: p.NoiseScale, Period: p.Period, Correlation: p.Correlation, Scope: noise.WholeBatch}
		if b.Period == 0 {
			b.Period = schedulePeriod
		}
		if b.Type, err = noise.ParseType(p.NoiseType); err == nil && p.NoiseSchedule != "" {
			b.Schedule, err = noise.ParseSchedule(p.NoiseSchedule)
		}
		m = newStochasticBlock("", b)
	default:
		t.Fatalf("%s: unknown block %s", c.File, c.Block)
	}
	if err != nil {
		t.Fatalf("%s: %v", c.File, err)
	}
	return m
}

// recorded replays the drawN.kind tensors of a block's file.
type recorded struct {
	f    *safetensors.File
	next int
}

func (r *recorded) Draw(kind noise.Kind, _ float64, _ []int, dst []float64) error {
	t, err := r.f.Tensor(fmt.Sprintf("draw%d.%v", r.next, kind))
	if err != nil {
		return err
	}
	v, err := t.Float64s()
	if err != nil || len(v) != len(dst) {
		return fmt.Errorf("%s: %d numbers, want %d (%v)", t.Name, len(v), len(dst), err)
	}
	copy(dst, v)
	r.next++
	return nil
}

func read(t *testing.T, f *safetensors.File, name string, as fp16.Format) *tensor.Tensor {
	t.Helper()
	x, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := x.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	s := x.Shape
	return tensor.Of(as, v, s[0], s[1], s[2], s[3])
}

// loadBlock gives the block the weights of the file, which calls them
// weights.<name>; the file's other tensors are none of the block's.
func loadBlock(t *testing.T, f *safetensors.File, m module) {
	t.Helper()
	for _, p := range params(m) {
		if err := p.load(f, "weights."+p.Name); err != nil {
			t.Fatal(err)
		}
	}
	if err := prepare(m); err != nil {
		t.Fatal(err)
	}
}

func forward(t *testing.T, m module, p *Pass, x, skip *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	y, err := forwardOf(m, p, x, skip)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// joined applies an operation to two tensors.
func joined(t *testing.T, m graph.Mode, op graph.Op, a, b *tensor.Tensor) *tensor.Tensor {
	g := graph.New(new(graph.Kept))
	g.Outputs = []int{g.Add(op, "", g.Input(""), g.Input(""))}
	y, err := (&Pass{Mode: m}).run(g, a, b)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// TestBlocks runs every block that PyTorch ran. What is left of the distance
// is PyTorch's own error, which rounding-error analysis bounds (bound_test.go);
// white noise is bit for bit, since it is the same few IEEE operations.
func TestBlocks(t *testing.T) {
	data, err := os.ReadFile("../testdata/blocks/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var index struct{ Blocks []blockCase }
	if err := json.Unmarshal(data, &index); err != nil || len(index.Blocks) == 0 {
		t.Fatalf("no blocks: %v", err)
	}
	for _, c := range index.Blocks {
		t.Run(strings.TrimSuffix(c.File, ".safetensors"), func(t *testing.T) {
			f, err := safetensors.Open(filepath.Join("../testdata/blocks", c.File))
			if err != nil {
				t.Fatal(err)
			}
			m := c.build(t)
			loadBlock(t, f, m)
			x := read(t, f, "input", fp16.Float32)
			var skip *tensor.Tensor
			if _, err := f.Tensor("skip"); err == nil {
				skip = read(t, f, "skip", fp16.Float32)
			}
			want := read(t, f, "output_f32", fp16.Float32)
			if c.Block == "StochasticBlock" {
				checkNoise(t, c, f, m, x, want)
				return
			}
			got := forward(t, m, &Pass{Mode: graph.Mode{Precision: fp16.Float32}}, x, skip)
			e32 := errorOf(m, x, skip, 0x1p-24)
			near(t, "float32", got, want, e32)
			x.Format = fp16.Float64
			if skip != nil {
				skip.Format = fp16.Float64
			}
			truth := forward(t, m, &Pass{Mode: graph.Mode{Precision: fp16.Float64}}, x, skip)
			near(t, "float64", truth, read(t, f, "output_f64", fp16.Float64), errorOf(m, x, skip, 0x1p-53))
			near(t, "float32 against truth", got, truth, e32)
		})
	}
}

func near(t *testing.T, what string, got, want *tensor.Tensor, bound float64) {
	t.Helper()
	if !got.SameShape(want) {
		t.Fatalf("%s: shape %s, want %s", what, got.Dims(), want.Dims())
	}
	worst, at := 0.0, 0
	for i, w := range want.Data {
		if d := math.Abs(got.Data[i] - w); !(d <= worst) {
			worst, at = d, i
		}
	}
	t.Logf("%s: largest difference %.2e, bound %.2e", what, worst, bound)
	if !(worst <= bound) {
		t.Errorf("%s: element %d: got %v, want %v: difference %.3g exceeds the bound %.3g",
			what, at, got.Data[at], want.Data[at], worst, bound)
	}
}

func checkNoise(t *testing.T, c blockCase, f *safetensors.File, m module, x, want *tensor.Tensor) {
	stream, err := noise.ParseTorchCPU("torch-cpu:1.13", "")
	if err != nil {
		t.Fatal(err)
	}
	stream.Seed(c.Seed)
	at := noise.Time{Step: c.Forward.Step, Max: c.Forward.MaxSteps}
	pass := &Pass{Mode: graph.Mode{Precision: fp16.Float32}, Draws: stream, Time: at}
	seeded := forward(t, m, pass, x, nil)
	if c.Params.NoiseType != "dropout" { // its mask is not recorded
		pass.Draws = &recorded{f: f}
		if i := differ(seeded, forward(t, m, pass, x, nil)); i >= 0 {
			t.Errorf("element %d differs between the seed's draws and the recorded ones", i)
		}
	}
	switch {
	case c.Params.Correlation != 0:
		// PyTorch transforms in float32: each of the log2-many stages of an
		// FFT adds a relative error of a few u to numbers whose RMS is the
		// field's (here 1, times the scale); 12x12 is 4 radix stages, twice
		// a dimension. Elements stay within 6 of their RMS.
		s := c.Params.NoiseScale
		near(t, "correlated", seeded, want, s*6*32*0x1p-24*largest(x)+0x1p-23*largest(x))
	case c.Params.NoiseType == "dropout":
		// PyTorch divides by the float32 1-p, the contract by the exact one.
		for i, w := range want.Data {
			if d := math.Abs(seeded.Data[i] - w); d > fp16.Float32.Ulp(w) || (w == 0) != (seeded.Data[i] == 0) {
				t.Fatalf("element %d: got %v, want %v within an ulp", i, seeded.Data[i], w)
			}
		}
	default:
		if i := differ(seeded, want); i >= 0 {
			t.Errorf("element %d: got %v, PyTorch %v: want the same bits", i, seeded.Data[i], want.Data[i])
		}
	}
}

// differ returns the index of the first element whose bits differ, or -1.
func differ(a, b *tensor.Tensor) int {
	for i := range a.Data {
		if math.Float64bits(a.Data[i]) != math.Float64bits(b.Data[i]) {
			return i
		}
	}
	return -1
}

func largest(x *tensor.Tensor) float64 {
	m := 0.0
	for _, v := range x.Data {
		m = max(m, math.Abs(v))
	}
	return m
}

// forwardOf applies a module to x [N,C,H,W], and to a skip connection where it has one
// (nil where it has none).
func forwardOf(m module, p *Pass, x, skip *tensor.Tensor) (*tensor.Tensor, error) {
	b := newBuilder(new(graph.Kept), p.Draws == nil)
	in := b.Input("")
	given := []*tensor.Tensor{x}
	if skip != nil {
		b.skip = b.Input("")
		given = append(given, skip)
	}
	out := m.build(b, in)
	if b.err != nil {
		return nil, b.err
	}
	b.Outputs = []int{out}
	return p.run(b.Graph, given...)
}
