package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/safetensors"
)

// TestCheckRefuses: whatever cannot be checked is one line that says why not,
// naming file, field, value and expectation.
func TestCheckRefuses(t *testing.T) {
	good := clitest.NewFolder(t).Write()
	for _, k := range []struct {
		name  string
		edit  func(f *clitest.Folder)
		flags string // DIR is the folder, OK one without fault
		want  string
	}{
		{"nothing", nil, "", "--case: want the folder of a recorded case, " +
			"or --config FILE with --weights and --trajectory, one of them"},
		{"both", nil, "--case OK --config OK/case.json", "--case: want the folder..."},
		{"claim", nil, "--case OK --claim float17",
			`--claim: unknown number format "float17": want one of float64, float32, tf32, float16, bfloat16`},
		{"autocast", nil, "--case OK --claim float16 --autocast mps", `--autocast: unknown autocast "mps": want...`},
		{"noise", nil, "--case OK --noise pink",
			`noise: "pink": want counter, tape, torch-cpu[:1.13|:2.x], torch-cuda:SMS or none, or unknown`},
		{"budget", nil, "--case OK --budget -1s", "--budget: -1s: want 0 (no limit) or more"},
		{"report", nil, "--case OK --report OK/none/r.html",
			"--report: OK/none/r.html: no such file or directory: want a file in a folder that exists"},
		{"junit", nil, "--case OK --junit OK", "--junit: OK: is a directory: want the name of a file"},
		{"two reports", nil, "--case OK --report x.html --junit ./x.html",
			"--junit: ./x.html: that of --report: want two files"},
		{"report on the case", nil, "--case OK --report OK/./case.json",
			"--report: OK/./case.json: is OK/case.json, which is read: want another name"},
		{"report on an input", nil, "--case OK --weights OK/weights.safetensors --junit OK/weights.safetensors",
			"--junit: OK/weights.safetensors: is OK/weights.safetensors, which is read: want another name"},
		{"no case", nil, "--case OK/none",
			"OK/none/case.json: no such file or directory: want a case folder with a case.json"},
		{"no trajectory file", nil, "--config OK/case.json --weights OK/weights.safetensors",
			"--trajectory: missing: want the safetensors file that the device wrote"},
		{"no such trajectory", nil, "--case OK --trajectory OK/none.safetensors",
			"OK/none.safetensors: no such file or directory: want a safetensors file"},
		{"no weights", func(f *clitest.Folder) { f.Set("weights_seed", nil) },
			"--config DIR/case.json --trajectory OK/trajectory.safetensors",
			"--weights: missing: want the safetensors file of the weights, or weights_seed in DIR/case.json"},

		{"one state", func(f *clitest.Folder) {
			f.Set("rollout.num_timesteps", 1)
			f.Put("trajectory", clitest.Cut(f.T, f.Tensor("trajectory", "trajectory"), 1, 1))
		}, "--case DIR", "DIR/trajectory.safetensors: trajectory: 1 state: want at least 2 to check a step"},
		{"no trajectory", func(f *clitest.Folder) { delete(f.File, "trajectory") }, "--case DIR",
			"DIR/trajectory.safetensors: missing: want the recorded trajectory"},
		{"no noise", func(f *clitest.Folder) { delete(f.File, "noise"); f.Set("torch", nil) }, "--case DIR",
			"DIR/noise.safetensors: missing, and DIR/case.json has no torch.version: " +
				"want the draws of the device there or with --tape FILE, the stream they are from with --noise " +
				"(counter, torch-cpu:1.13, torch-cpu:2.x or torch-cuda:SMS), or --noise unknown"},
		{"no noise of a configuration", func(f *clitest.Folder) {
			delete(f.File, "noise")
			f.Set("torch", nil)
		}, "--config DIR/case.json --trajectory DIR/trajectory.safetensors", "--tape: " +
			"missing, and DIR/case.json has no torch.version: want the file of the device's draws, the stream they " +
			"are from with --noise (counter, torch-cpu:1.13, torch-cpu:2.x or torch-cuda:SMS), or --noise unknown"},
		{"no tape of a configuration", nil, "--config DIR/case.json --trajectory DIR/trajectory.safetensors --noise tape",
			"--tape: missing: want the file of the device's draws, or another --noise"},
		{"steps", func(f *clitest.Folder) { f.Set("rollout.num_timesteps", 9) }, "--case DIR",
			"DIR/trajectory.safetensors: trajectory: shape [2 3 3 20 20]: want [2,9,3,H,W] as case.json says"},
		{"another operator's", func(f *clitest.Folder) {
			f.Put("trajectory", clitest.Zeros(f.T, "trajectory", safetensors.F32, 2, 3, 4, 20, 20))
		}, "--case DIR", "DIR/trajectory.safetensors: trajectory: shape [2 3 4 20 20]: want [2,3,3,H,W] as case.json says"},
		{"integers", func(f *clitest.Folder) {
			f.Put("trajectory", clitest.Zeros(f.T, "trajectory", safetensors.I32, 2, 3, 3, 20, 20))
		}, "--case DIR", `DIR/trajectory.safetensors: "trajectory" dtype: I32: want F64, F32, F16 or BF16`},
		{"doubles", func(f *clitest.Folder) {
			v, _ := f.Tensor("trajectory", "trajectory").Float64s()
			v[7] = 0.1
			f.Put("trajectory", clitest.Floats(f.T, "trajectory", safetensors.F64, []int{2, 3, 3, 20, 20}, v...))
		}, "--case DIR", "DIR/trajectory.safetensors: trajectory: element 7 is 0.1: want float32 numbers, as float32 claims"},
		{"tape", func(f *clitest.Folder) {
			f.Put("noise", clitest.Cut(f.T, f.Tensor("noise", "batch0"), 0, 1))
		}, "--case DIR", "..."},
	} {
		t.Run(k.name, func(t *testing.T) {
			dir := good
			if k.edit != nil {
				f := clitest.NewFolder(t)
				k.edit(f)
				dir = f.Write()
			}
			paths := strings.NewReplacer("DIR", dir, "OK", good)
			refrun(t, append([]string{"check"}, strings.Fields(paths.Replace(k.flags))...)...).Refused(t, "check",
				paths.Replace(k.want))
		})
	}
}

// TestCheckFiles: a case folder and the same files named one by one give one
// report, and the report's files are what they are called.
func TestCheckFiles(t *testing.T) {
	dir, out := clitest.NewFolder(t).Write(), t.TempDir()
	html, junit := filepath.Join(out, "r.html"), filepath.Join(out, "r.xml")
	whole := refrun(t, "check", "--case", dir, "--json", "--report", html, "--junit", junit)
	parts := refrun(t, "check", "--json", "--config", dir+"/case.json", "--weights", dir+"/weights.safetensors",
		"--trajectory", dir+"/trajectory.safetensors", "--layers", dir+"/layers.safetensors", "--tape",
		dir+"/noise.safetensors")
	a, b := whole.Decode(t), parts.Decode(t)
	if whole.Code != parts.Code || whole.Stderr != "" || parts.Stderr != "" {
		t.Errorf("exit codes %d and %d, stderr %q and %q", whole.Code, parts.Code, whole.Stderr, parts.Stderr)
	}
	for _, key := range []string{"verdict", "reason", "claim", "subject"} {
		if a[key] != b[key] || a[key] == "" {
			t.Errorf("%s: %v of the folder, %v of its files", key, a[key], b[key])
		}
	}
	for path, want := range map[string]string{html: "<h1 class=", junit: "<testsuites>"} {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), a["verdict"].(string)) {
			t.Errorf("%s: %v, %d bytes: want %s and the verdict in it", path, err, len(text), want)
		}
	}
	// Text says what JSON says.
	if r := refrun(t, "check", "--case", dir); r.Code != whole.Code ||
		!strings.Contains(r.Stdout, "\nVERDICT  "+a["verdict"].(string)) {
		t.Errorf("exit code %d, text\n%s", r.Code, r.Stdout)
	}
}

// TestCheckFullDisk: a report that cannot be written does not take the verdict
// along, and is nothing that --resume could continue.
func TestCheckFullDisk(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip(err)
	}
	dir := clitest.NewFolder(t).Write()
	for _, flag := range []string{"--report", "--junit"} {
		r := refrun(t, "check", "--case", dir, flag, full)
		if r.Code != 2 || r.Stderr != "refrun check: "+flag+": "+full+": no space left on device\n" ||
			!strings.Contains(r.Stdout, "\nVERDICT  ") {
			t.Errorf("%s: exit code %d, stderr %q, stdout\n%s", flag, r.Code, r.Stderr, r.Stdout)
		}
	}
}

// TestCheckVerdicts: a right trajectory, one with a wrong number, and one that
// could not have shown any; their exit codes and what scripts read of them.
func TestCheckVerdicts(t *testing.T) {
	for _, k := range []struct {
		name    string
		edit    func(f *clitest.Folder)
		code    int
		verdict string
		step, m float64
	}{
		{"right", func(*clitest.Folder) {}, 0, "PASS-CONFORMING", -1, -1},
		{"one number", func(f *clitest.Folder) { f.Poke("trajectory", "trajectory", (1*3+2)*1200+5, 0.25) }, 1, "FAIL-", 2,
			1},
		{"constant", func(f *clitest.Folder) {
			f.Put("trajectory", clitest.Zeros(f.T, "trajectory", safetensors.F32, 2, 3, 3, 20, 20))
			for _, w := range f.File["weights"] { // of an operator that makes zeros of zeros
				if strings.HasSuffix(w.Name, "weight") || strings.HasSuffix(w.Name, "bias") {
					f.Put("weights", clitest.Zeros(f.T, w.Name, w.DType, w.Shape...))
				}
			}
			f.Drop("trajectory", "initial_condition")
			f.Drop("weights", "stochastic_block.noise_scale")
			f.Set("operator.noise_type", nil)
			f.Set("operator.noise_scale", nil)
			delete(f.File, "layers")
			delete(f.File, "one_step_f64")
			delete(f.File, "noise")
		}, 3, "NO-POWER", -1, -1},
	} {
		f := clitest.NewFolder(t)
		k.edit(f)
		dir := f.Write()
		r := refrun(t, "check", "--case", dir, "--json")
		if r.Code != k.code || r.Stderr != "" {
			t.Errorf("%s: exit code %d, want %d; stderr %q", k.name, r.Code, k.code, r.Stderr)
			continue
		}
		out := r.Decode(t)
		clitest.Has(t, k.name, out, object{
			"verdict": word, "reason": word, "first_step": number,
			"one_step": object{"max_abs": number, "mean_abs": number, "rms_over_expected": number},
			"expected": object{"max_abs": number, "mean_abs": number}, "noise": object{"stream": word},
			"blind": []any{}, "claim": word, "text": word,
			"steps": []any{}, "findings": []any{}, "precision_requested": word, "precision_used": word, "case": word,
			"seconds": number,
		})
		for _, key := range []string{
			"first_layer", "horizon", "growth_per_step", "diagnosis", "slice", "contract",
		} {
			if _, ok := out[key]; !ok {
				t.Errorf("%s: %s is missing", k.name, key)
			}
		}
		if v := out["verdict"].(string); !strings.HasPrefix(v, k.verdict) || out["first_step"] != k.step ||
			out["first_realization"] != k.m {
			t.Errorf("%s: %s at step %v of realization %v, want %s at %v of %v: %v",
				k.name, v, out["first_step"], out["first_realization"], k.verdict, k.step, k.m, out["reason"])
		}
	}
}
