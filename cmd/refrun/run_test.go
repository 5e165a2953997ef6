package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/safetensors"
)

// digestOf runs a case and returns the digest of its steps.
func digestOf(t *testing.T, f *clitest.Folder, flags ...string) string {
	t.Helper()
	r := oneStep(t, f.Write(), flags...)
	if r.Code != 0 || r.Stderr != "" {
		t.Fatalf("exit code %d, stderr %q", r.Code, r.Stderr)
	}
	d, ok := r.Decode(t)["digest"].(string)
	if !ok || len(d) != 64 {
		t.Fatalf("digest %q", d)
	}
	return d
}

// TestSameDigest changes what must not change a bit of the steps, and what must.
func TestSameDigest(t *testing.T) {
	want := digestOf(t, clitest.NewFolder(t))
	for _, k := range []struct {
		name  string
		edit  func(f *clitest.Folder)
		flags []string
		same  bool
	}{
		{"one thread", nil, []string{"--threads", "1"}, true},
		{"seven threads", nil, []string{"--threads=7"}, true},
		{"batch 1", nil, []string{"--batch", "1"}, true},
		{"batch 3", nil, []string{"-batch", "3"}, true},
		{"a huge batch", nil, []string{"--batch", fmt.Sprint(math.MaxInt)}, true},
		{"purego", nil, []string{"--isa", "purego"}, true},
		{"the best kernels", nil, []string{"--isa", "auto"}, true},
		{"quiet", nil, []string{"--quiet"}, true},
		{"PyTorch's stream for its tape", nil, []string{"--noise", "torch-cpu"}, true},
		{"no version, but a stream that names it", func(f *clitest.Folder) {
			f.Set("torch", nil)
			f.Drop("layers", "stochastic_block.draw")
		}, []string{"--noise", "torch-cpu:1.13"}, true},
		{"the weights' seed for the weights", func(f *clitest.Folder) { delete(f.File, "weights") }, nil, true},
		{"names of an nn.Sequential", sequential, nil, true},
		{"a scalar for a number", func(f *clitest.Folder) {
			x := f.Tensor("weights", "stochastic_block.noise_scale")
			f.Put("weights", clitest.TensorOf(f.T, x.Name, "F32", []int{}, x.Bytes()))
		}, nil, true},
		{"states in float64", func(f *clitest.Folder) { f.Retype("F64", 0) }, nil, true},
		{"keys that nothing reads", func(f *clitest.Folder) {
			f.Set("operator.use_batch_norm", true)
			f.Set("operator.dropout_rate", 0.3)
			f.Set("machine", object{"gpu": nil})
			f.Set("torch.threads", 12)
		}, nil, true},
		{"null for a default", func(f *clitest.Folder) { f.Json["operator"].(object)["dropout_rate"] = any(nil) }, nil, true},
		{"no layers, no truth", func(f *clitest.Folder) { delete(f.File, "layers"); delete(f.File, "one_step_f64") }, nil,
			true},
		{"a layer that no module has",
			func(f *clitest.Folder) { f.Put("layers", clitest.Zeros(f.T, "conv_blocks.9.block.0", "F32", 7)) }, nil, true},

		{"float64", nil, []string{"--precision", "float64"}, false},
		{"no noise", nil, []string{"--noise", "none"}, false},
		{"another seed", func(f *clitest.Folder) { f.Set("rollout.base_seed", 12) }, []string{"--noise", "torch-cpu"}, false},
		{"another weight", func(f *clitest.Folder) { f.Poke("weights", "output_layer.conv.bias", 2, 0.125) }, nil, false},
		{"another policy", func(f *clitest.Folder) { f.Set("rollout.policy_type", "convex") }, nil, false},
		{"a clamp", func(f *clitest.Folder) { f.Set("rollout.clamp_range", []any{-0.1, 0.1}) }, nil, false},
		{"z-score", func(f *clitest.Folder) { f.Set("rollout.normalization", "zscore") }, nil, false},
	} {
		t.Run(k.name, func(t *testing.T) {
			f := clitest.NewFolder(t)
			if k.edit != nil {
				k.edit(f)
			}
			if got := digestOf(t, f, k.flags...); (got == want) != k.same {
				t.Errorf("digest %.12s, without the change %.12s", got, want)
			}
		})
	}
}

// sequential renames the weights as an nn.Sequential does.
func sequential(f *clitest.Folder) {
	rename := strings.NewReplacer("conv_blocks.", "", "stochastic_block", "3", "output_layer", "4")
	for i, x := range f.File["weights"] {
		y := *x
		y.Name = rename.Replace(x.Name)
		f.File["weights"][i] = &y
	}
}

// TestSeeds: -1 and 2^64-1 are the same 64 bits.
func TestSeeds(t *testing.T) {
	seed := func(literal string) string {
		f := clitest.NewFolder(t)
		if literal == "" {
			f.Set("rollout.base_seed", nil)
		} else {
			row := literalSeed(literal)
			row(f)
		}
		return digestOf(t, f, "--noise", "torch-cpu")
	}
	minus, top, zero, none := seed("-1"), seed("18446744073709551615"), seed("0"), seed("")
	if minus != top {
		t.Errorf("seeds -1 and 2^64-1 give %.12s and %.12s", minus, top)
	}
	if minus == zero {
		t.Error("seeds -1 and 0 give the same")
	}
	if zero != none {
		t.Errorf("without base_seed %.12s, with 0 %.12s", none, zero)
	}
}

func literalSeed(v string) func(*clitest.Folder) { return literal("rollout.base_seed", v, "").edit }

// TestStateTypes takes recordings in every type, and names it.
func TestStateTypes(t *testing.T) {
	for d, format := range map[safetensors.DType]string{
		"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
	} {
		f := clitest.NewFolder(t)
		f.Retype(d, 0)
		out := oneStep(t, f.Write()).Decode(t)
		one := out["one_step"].(object)
		if one["format"] != format || one["count"] != 4800. {
			t.Errorf("%s: compared %v elements as %v", d, one["count"], one["format"])
		}
		// The step from a rounded state is still near the next one.
		if v := one["rms_over_std"].(float64); v > 0.02 || d == "F32" && v > 1e-6 || d == "F16" && v < 1e-5 {
			t.Errorf("%s: RMS difference %v of the std", d, v)
		}
	}
}

// tiny returns a case of one block on an image of h x w, weights from a seed.
func tiny(t *testing.T, m, c, h, w int) *clitest.Folder {
	f := &clitest.Folder{T: t, File: map[string][]*safetensors.Tensor{}, Raw: map[string][]byte{}}
	f.Json = object{
		"operator": object{"num_layers": 0, "base_channels": 1, "input_channels": c, "output_channels": c},
		"rollout":  object{"num_timesteps": 2, "num_realizations": m},
		"torch":    object{"version": "2.3.1"}, "weights_seed": -3,
	}
	v := make([]float64, m*2*c*h*w)
	for i := range v {
		v[i] = float64(i%7)/4 - 0.5
	}
	f.Put("trajectory", clitest.Floats(t, "trajectory", "F32", []int{m, 2, c, h, w}, v...))
	return f
}

// TestSmallest runs the smallest cases there are through every choice.
func TestSmallest(t *testing.T) {
	digests := map[string]string{}
	for _, size := range [][4]int{{1, 1, 1, 1}, {1, 2, 1, 1}, {2, 1, 1, 3}, {1, 1, 3, 1}} {
		for path, values := range map[string][]any{
			"operator.normalization": {"instance", "batch", "group", "layer", "none"},
			"operator.activation":    {"relu", "gelu", "gelu_tanh", "silu", "tanh", "none"},
			"operator.kernel_size":   {1, 3, 255},
			"operator.num_layers":    {1, 4},
			"operator.noise_type":    {"gaussian", "laplace", "dropout", "multiplicative"},
			"rollout.policy_type":    {"autoregressive", "residual", "convex"},
			"rollout.normalization":  {"minmax", "zscore", "none"},
			"rollout.clamp_range":    {[]any{0, 0}, []any{-1e300, 1e300}},
		} {
			for _, v := range values {
				f := tiny(t, size[0], size[1], size[2], size[3])
				f.Set(path, v)
				if path == "operator.noise_type" {
					f.Set("operator.noise_scale", 0.5)
				}
				r := oneStep(t, f.Write())
				if r.Code != 0 {
					t.Errorf("%v, %s %v: %s", size, path, v, r.Stderr)
					continue
				}
				out := r.Decode(t)
				if n := float64(size[0] * size[1] * size[2] * size[3]); out["one_step"].(object)["count"] != n {
					t.Errorf("%v: compared %v elements, want %v", size, out["one_step"].(object)["count"], n)
				}
				digests[fmt.Sprintf("%v %s %v", size, path, v)] = out["digest"].(string)
			}
		}
	}
	same := func(a, b string) bool {
		if digests[a] == "" || digests[b] == "" {
			t.Fatalf("no digest of %q or %q", a, b)
		}
		return digests[a] == digests[b]
	}
	if !same("[1 1 1 1] rollout.normalization minmax", "[1 1 1 1] rollout.normalization none") {
		t.Error("min-max changes a single number")
	}
	if same("[1 1 1 1] rollout.normalization zscore", "[1 1 1 1] rollout.normalization none") {
		t.Error("z-score leaves a single number as it is: want NaN")
	}
	if same("[2 1 1 3] operator.noise_type gaussian", "[2 1 1 3] operator.noise_type laplace") {
		t.Error("the type of noise does not matter")
	}
}

// TestNonfinite puts NaN and infinities into recorded states, for every
// post-processing: the case runs, and the elements they reach are counted.
func TestNonfinite(t *testing.T) {
	const last = (1*3 + 2) * 1200 // the last state of realization 1, which enters no step
	for _, norm := range []any{nil, "minmax", "zscore"} {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			for _, at := range []int{last + 5, 0, 1200 + 7} {
				f := clitest.NewFolder(t)
				f.Set("rollout.normalization", norm)
				f.Poke("trajectory", "trajectory", at, v)
				one := oneStep(t, f.Write()).Decode(t)["one_step"].(object)
				n := one["nonfinite_differ"].(float64)
				if n < 1 || one["max_abs"] != "inf" || at == last+5 && n != 1 {
					t.Errorf("%v at %d, normalization %v: %v elements differ, the largest by %v", v, at, norm, n, one["max_abs"])
				}
			}
		}
	}
}

// TestOverflow runs weights that no arithmetic survives.
func TestOverflow(t *testing.T) {
	for _, w := range []float64{3e38, -3e38, 0x1p-149, 0} {
		f := clitest.NewFolder(t)
		for _, x := range slices.Clone(f.File["weights"]) {
			if strings.HasSuffix(x.Name, ".weight") || strings.HasSuffix(x.Name, ".running_mean") {
				v := make([]float64, x.Len())
				for i := range v {
					v[i] = float64(float32(w))
				}
				f.Put("weights", clitest.Floats(t, x.Name, "F32", x.Shape, v...))
			}
		}
		digestOf(t, f)
		digestOf(t, f, "--precision", "float64")
	}
}

// TestPlaces: messages name the file whatever the folder is called.
func TestPlaces(t *testing.T) {
	root := t.TempDir()
	bad := clitest.NewFolder(t)
	bad.Set("operator.activation", "geglu")
	missing := clitest.NewFolder(t)
	missing.Drop("weights", "output_layer.conv.bias")
	for name, f := range map[string]*clitest.Folder{"o": bad, "w": missing} {
		if err := os.Rename(f.Write(), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	const geglu = `case.json: operator.activation: unknown activation "geglu": want one of ...`
	const bias = `weights.safetensors: output_layer.conv.bias: missing: want a tensor of shape [3]`
	t.Chdir(root)
	oneStep(t, "o").Refused(t, "run", "o/"+geglu)
	oneStep(t, "./o/").Refused(t, "run", "o/"+geglu)
	oneStep(t, "w").Refused(t, "run", "w/"+bias)
	oneStep(t, "./w//").Refused(t, "run", "w/"+bias)
	t.Chdir("w")
	oneStep(t, ".").Refused(t, "run", bias)
	oneStep(t, "../o").Refused(t, "run", "../o/"+geglu)
}

// TestCleanText: text of a case reaches a terminal without its escapes.
func TestCleanText(t *testing.T) {
	f := clitest.NewFolder(t)
	f.Set("produced_by", "me\x1b[2J\nverdict: PASS\u202e")
	r := refrun(t, "run", "--one-step", "--case", f.Write())
	if r.Code != 0 || !strings.Contains(r.Stdout, `recorded by me\x1b[2J\nverdict: PASS\u202e`+"\n") ||
		strings.ContainsAny(r.Stdout, "\x1b\u202e") {
		t.Errorf("exit code %d, stdout %.300q", r.Code, r.Stdout)
	}
	f.Set("rollout."+strings.Repeat("k", 1e6)+"\x00", 1)
	dir := f.Write()
	r = oneStep(t, dir)
	r.Refused(t, "run", dir+`/case.json: rollout."kkk...`)
	if len(r.Stderr) > 1100 {
		t.Errorf("a message of %d bytes", len(r.Stderr))
	}
	f = clitest.NewFolder(t)
	f.Set("rollout.policy_type", strings.Repeat("k", 1e6))
	dir = f.Write()
	r = oneStep(t, dir)
	r.Refused(t, "run", dir+`/case.json: rollout.policy_type: "kkk...kkk": want autoregressive, residual or convex`)
	if len(r.Stderr) > 1100 {
		t.Errorf("a message of %d bytes", len(r.Stderr))
	}
}
