package noise

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
)

// The tests of this file hold the stream to numbers recorded from PyTorch
// 1.13.1 on a CPU without MKL.

func torchOpen(t *testing.T, path string) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open(filepath.Join("..", "testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func torchTensor(t *testing.T, f *safetensors.File, name string) (shape []int, values []float64) {
	t.Helper()
	x, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	values, err = x.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	return x.Shape, values
}

// Tensors named KIND_SEED_SIZE or KIND_SEED, each drawn after its seed.
func TestTorchRecordedDraws(t *testing.T) {
	// A type the stream does not draw in: double precision.
	unsupported := []string{"randn_f64"}

	f := torchOpen(t, "ops/rng_torch_cpu.safetensors")
	pattern := regexp.MustCompile(
		`^(rand|randn|exponential|randn_f64|dropout2d_p0\.3|sequence|conv_init_weight|conv_init_bias|randn_c64|` +
			`randn_bf16)_(\d+)(_\d+)?$`,
	)
	count := map[string]int{}
	for _, name := range f.Names() {
		m := pattern.FindStringSubmatch(name)
		if m == nil {
			t.Errorf("tensor %s is unknown", name)
			continue
		}
		count[m[1]]++
		if slices.Contains(unsupported, m[1]) {
			continue
		}
		seed, err := strconv.ParseUint(m[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		shape, want := torchTensor(t, f, name)
		s := torchStream(t, "1.13", seed)
		got := make([]float64, len(want))
		switch m[1] {
		case "rand":
			s.Uniform(got, 0, 1)
		case "randn":
			s.Normal(got)
		case "exponential":
			s.Exponential(got)
		case "randn_c64":
			s.ComplexNormal(got)
		case "randn_bf16":
			if err := s.NormalHalf(got, fp16.BFloat16); err != nil {
				t.Fatal(err)
			}
		case "dropout2d_p0.3": // of ones
			const p = 0.3
			mask := make([]float64, shape[0]*shape[1])
			s.Bernoulli(mask, 1-p)
			plane := shape[2] * shape[3]
			for i := range got {
				got[i] = mask[i/plane] * torchDropoutScale(p)
			}
		case "sequence":
			s.Normal(got[:105])
			s.Normal(got[105:107])
			s.Uniform(got[107:111], 0, 1)
			s.Normal(got[111:144])
		case "conv_init_weight":
			s.ConvInit(got, nil, 5*3*3)
		case "conv_init_bias":
			s.ConvInit(make([]float64, 7*5*3*3), got, 5*3*3)
		}
		torchDiff(t, name, got, want)
	}
	for kind, want := range map[string]int{"rand": 40, "randn": 40, "exponential": 40, "randn_f64": 40,
		"dropout2d_p0.3": 5, "sequence": 5, "conv_init_weight": 5, "conv_init_bias": 5, "randn_c64": 5, "randn_bf16": 5} {
		if count[kind] != want {
			t.Errorf("%d tensors of kind %s, want %d", count[kind], kind, want)
		}
	}
}

// The draws of one application of a stochastic block, in order, after
// manual_seed(12).
func TestTorchRecordedBlocks(t *testing.T) {
	paths, err := filepath.Glob("../testdata/blocks/noise_*.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	draws := 0
	for _, path := range paths {
		base := filepath.Base(path)
		f := torchOpen(t, filepath.Join("blocks", base))
		s := torchStream(t, "1.13", 12)
		if base == "noise_dropout.safetensors" {
			// The mask shows in the output: x times the scale, or zero.
			const p = 0.3
			shape, x := torchTensor(t, f, "input")
			_, want := torchTensor(t, f, "output_f32")
			mask := make([]float64, shape[0]*shape[1])
			if err := s.Draw(Bernoulli, 1-p, shape[:2], mask); err != nil {
				t.Fatal(err)
			}
			plane := shape[2] * shape[3]
			for i := range x {
				x[i] = float64(float32(x[i] * float64(float32(mask[i/plane]*torchDropoutScale(p)))))
			}
			torchDiff(t, base, x, want)
			draws++
			continue
		}
		for i := 0; ; i++ {
			n := 0
			for _, name := range f.Names() {
				kindName, ok := strings.CutPrefix(name, "draw"+strconv.Itoa(i)+".")
				if !ok {
					continue
				}
				shape, want := torchTensor(t, f, name)
				kind := Kind(slices.Index(kindNames[:], kindName))
				if kind == ComplexNormal {
					shape = shape[:len(shape)-1]
				}
				got := make([]float64, len(want))
				if err := s.Draw(kind, 0, shape, got); err != nil {
					t.Fatal(err)
				}
				torchDiff(t, base+": "+name, got, want)
				n++
			}
			if n == 0 {
				break
			}
			draws += n
		}
	}
	if draws != 11 {
		t.Errorf("%d draws compared, want 11", draws)
	}
}

// torchCase is what the tests need of a rollout's case.json.
type torchCase struct {
	Operator struct {
		KernelSize int `json:"kernel_size"`
	}
	Rollout struct {
		Timesteps    int    `json:"num_timesteps"`
		Realizations int    `json:"num_realizations"`
		BaseSeed     uint64 `json:"base_seed"`
		EngineBatch  int    `json:"engine_batch"`
	}
	WeightsSeed uint64 `json:"weights_seed"`
}

// torchCases calls test for every rollout that has the file.
func torchCases(t *testing.T, file string, test func(t *testing.T, c *torchCase, f *safetensors.File)) (n int) {
	paths, err := filepath.Glob("../testdata/rollouts/*/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		dir := filepath.Dir(path)
		text, err := os.ReadFile(filepath.Join(dir, "case.json"))
		if err != nil {
			t.Fatal(err)
		}
		c := new(torchCase)
		if err := json.Unmarshal(text, c); err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) { test(t, c, torchOpen(t, filepath.Join("rollouts", name, file))) })
	}
	return len(paths)
}

// The engine seeds before step t = 1, 2, ... with the base seed plus the first
// realization of the batch plus t.
func TestTorchRecordedTapes(t *testing.T) {
	n := torchCases(t, "noise.safetensors", func(t *testing.T, c *torchCase, f *safetensors.File) {
		s := torchStream(t, "1.13", 0)
		batches := 0
		for first := 0; first < c.Rollout.Realizations; first += c.Rollout.EngineBatch {
			name := "batch" + strconv.Itoa(batches)
			batches++
			shape, want := torchTensor(t, f, name)
			if shape[0] != c.Rollout.Timesteps-1 || shape[1] != min(c.Rollout.EngineBatch, c.Rollout.Realizations-first) {
				t.Fatalf("%s has shape %v", name, shape)
			}
			got := make([]float64, len(want)/shape[0])
			for step := 1; step <= shape[0]; step++ {
				s.Seed(c.Rollout.BaseSeed + uint64(first+step))
				if err := s.Draw(Normal, 0, shape[1:], got); err != nil {
					t.Fatal(err)
				}
				torchDiff(t, name+" step "+strconv.Itoa(step), got, want[(step-1)*len(got):step*len(got)])
			}
		}
		if batches != len(f.Names()) {
			t.Errorf("%d batches compared of %v", batches, f.Names())
		}
	})
	if n != 4 {
		t.Errorf("%d tapes, want 4", n)
	}
}

// The first step of realization 0, run alone.
func TestTorchRecordedLayers(t *testing.T) {
	const draw = "stochastic_block.draw"
	compared := 0
	torchCases(t, "layers.safetensors", func(t *testing.T, c *torchCase, f *safetensors.File) {
		if !slices.Contains(f.Names(), draw) {
			return
		}
		shape, want := torchTensor(t, f, draw)
		got := make([]float64, len(want))
		if err := torchStream(t, "1.13", c.Rollout.BaseSeed+1).Draw(Normal, 0, shape, got); err != nil {
			t.Fatal(err)
		}
		torchDiff(t, draw, got, want)
		compared++
	})
	if compared != 4 {
		t.Errorf("%d draws compared, want 4", compared)
	}
}

// Convolutions are initialised in the order in which they are constructed,
// which is that of the file.
func TestTorchRecordedWeights(t *testing.T) {
	convs := 0
	torchCases(t, "weights.safetensors", func(t *testing.T, c *torchCase, f *safetensors.File) {
		s := torchStream(t, "1.13", c.WeightsSeed)
		for _, name := range f.Names() {
			module, ok := strings.CutSuffix(name, ".weight")
			if !ok || !strings.Contains(name, "conv.") && !strings.HasSuffix(module, ".block.0") &&
				!strings.HasSuffix(module, ".projection") {
				continue // only convolutions draw
			}
			shape, want := torchTensor(t, f, name)
			weight := make([]float64, len(want))
			var bias, wantBias []float64
			if slices.Contains(f.Names(), module+".bias") {
				_, wantBias = torchTensor(t, f, module+".bias")
				bias = make([]float64, len(wantBias))
			}
			s.ConvInit(weight, bias, shape[1]*shape[2]*shape[3])
			torchDiff(t, name, weight, want)
			if bias != nil {
				torchDiff(t, module+".bias", bias, wantBias)
			}
			convs++
		}
	})
	if convs < 40 {
		t.Errorf("only %d convolutions compared", convs)
	}
}
