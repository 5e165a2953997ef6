package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
)

const GoodConfig = `
operator: {num_layers: 1, base_channels: 2, grid_size: 4, noise_type: gaussian, noise_scale: 1.0e-2}
rollout:
  num_timesteps: 3
  num_realizations: 2
  clamp_range: [-3, 3]
weights_seed: 1
`

// DatasetSpec is a space of small operators, in YAML.
const DatasetSpec = `name: small
operators: COUNT
seed: 5
operator: {grid_size: 12, noise_type: gaussian}
rollout: {num_timesteps: STEPS, num_realizations: 2}
space:
  operator.num_layers: {integer: [0, 2]}
  operator.base_channels: {choice: [4, 6]}
  operator.noise_scale: {log: [0.01, 0.3]}
  rollout.policy_type: {choice: [convex, residual]}
  initial: {choice: [{type: white}, {type: localized, num_blobs: 2}]}
`

// DatasetFile writes a specification into the working folder, a new one.
func DatasetFile(t *testing.T, count, steps int) {
	t.Helper()
	t.Chdir(t.TempDir())
	text := strings.NewReplacer("COUNT", fmt.Sprint(count), "STEPS", fmt.Sprint(steps+1)).Replace(DatasetSpec)
	if err := os.WriteFile("spec.yaml", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "PARALLEL_SEQ"} {
		t.Setenv(s, "")
	}
}

// RecordedDot is what an A100 returned, wherever a test goes.
var RecordedDot = filepath.Join(Root, "tensorcore", "testdata", "A100_fp16.safetensors")

// KernelFile writes a file of a kernel's tensors.
func KernelFile(t testing.TB, tensors map[string][]float64, shapes map[string][]int) string {
	path := filepath.Join(t.TempDir(), "k.safetensors")
	var all []*safetensors.Tensor
	for name, v := range tensors {
		x, err := safetensors.OfFloat64s(name, safetensors.DTypeOf(fp16.Float32), shapes[name], v)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	if err := safetensors.WriteFile(path, all, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func ServedTensor(t *testing.T, name string, shape []int, at func(i int) float64) *safetensors.Tensor {
	t.Helper()
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = at(i)
	}
	x, err := safetensors.OfFloat64s(name, safetensors.F32, shape, v)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// studyConfig is an operator small enough to be studied in a test.
const studyConfig = `
operator: {num_layers: 1, base_channels: 2, grid_size: 6, noise_type: gaussian, noise_scale: 1.0e-2}
rollout: {num_timesteps: 3, num_realizations: 3}
weights_seed: 1
`

func StudyFile(t *testing.T, old, new string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "study.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(studyConfig, old, new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Config is a configuration that runs in no time.
const Config = `operator: {num_layers: 0, base_channels: 2, input_channels: 1, output_channels: 1, grid_size: 3, ` +
	`noise_type: gaussian, noise_scale: 0.5}
rollout: {num_timesteps: 3, num_realizations: 2, base_seed: 7}
weights_seed: 1
`

// InFolder goes to a new folder with this text in run.yaml.
func InFolder(t *testing.T, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("run.yaml", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
