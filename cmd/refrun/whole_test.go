package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/safetensors"
)

// TestConfigRefuses: what is wrong with a configuration is said of its line.
func TestConfigRefuses(t *testing.T) {
	for _, k := range []struct{ text, want string }{
		{"", "run.yaml: empty: want operator and rollout"},
		{"# nothing", "run.yaml: empty: want operator and rollout"},
		{"42", "run.yaml:1: not an object: want one with operator and rollout"},
		{"\xff\xfe\x00", "run.yaml: incomplete UTF-16 character: want YAML or JSON"},
		{"a:\n\tb: 1", "run.yaml: line 2: found character that cannot start any token: want YAML or JSON"},
		{"a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "run.yaml:1: a: nested too deeply"},
		{"a: " + strings.Repeat("[", 100000), "run.yaml: exceeded max depth of 10000: want YAML or JSON"},
		{"operator: &x {num_layers: 1}\nrollout: *x", "run.yaml:2: rollout: want no anchors and aliases"},
		{"operator: {num_layers: 1,\n num_layers: 2}",
			"run.yaml:2: operator.num_layers: given twice, first on line 1: want it once"},
		{"? [a]\n: 1", "run.yaml:1: root: want names as keys"},
		{"operator: {? [a] : 1}", "run.yaml:1: operator: want names as keys"},
		{"operator:\n num_layers: .nan", "run.yaml:2: operator.num_layers: .nan: want a number, text, true, false or null"},
		{"operator:\n num_layers: .inf", "run.yaml:2: operator.num_layers: .inf: want a number, text, true, false or null"},
		{clitest.Config + "---\noperator: {}", "run.yaml: text after the first document: want one document"},
		{clitest.Config + "---\n", "run.yaml: text after the first document: want one document"},
		{clitest.Config + "operator: {}", "run.yaml:4: operator: given twice, first on line 1: want it once"},
		{strings.Replace(clitest.Config, "base_seed", "\n  base_sede", 1),
			"run.yaml:3: rollout.base_sede: unknown key: did you mean base_seed? want one of ..."},
		{strings.Replace(clitest.Config, "noise_scale: 0.5", "noise_scale: yes", 1),
			"run.yaml:1: operator.noise_scale: \"yes\": want a finite number"},
		{strings.Replace(clitest.Config, "num_timesteps: 3", "num_timesteps: 3.5", 1),
			"run.yaml:2: rollout.num_timesteps: 3.5: want an integer from 1 to 16777216"},
		{strings.Replace(clitest.Config, "num_layers: 0", "activation: geglu, num_layers: 0", 1),
			`run.yaml:1: operator.activation: unknown activation "geglu": want ...`},
		{strings.Replace(clitest.Config, "num_layers: 0", "\n activation: '', num_layers: 0", 1),
			`run.yaml:2: operator.activation: unknown activation "": want ...`},
		{strings.Replace(clitest.Config, "num_layers: 0", "\n normalization: spectral, num_layers: 0", 1),
			`run.yaml:2: operator.normalization: "spectral": want instance, batch, group, layer or none`},
		{strings.Replace(
			clitest.Config, "num_layers: 0, base_channels: 2", "num_layers: 2,\n normalization: group, base_channels: 20", 1,
		), `run.yaml:2: operator.normalization: group norm of 40 channels: want a number of channels that its 32 ` +
			`groups divide`},
		{strings.Replace(clitest.Config, "noise_type: gaussian", "\n noise_type: pink", 1),
			`run.yaml:2: operator.noise_type: unknown noise type "pink": want one of ...`},
		{strings.Replace(clitest.Config, "noise_type: gaussian", "\n noise_type: ''", 1),
			`run.yaml:2: operator.noise_type: unknown noise type "": want one of ...`},
		{strings.Replace(clitest.Config, "base_seed: 7", "precision: bfloat8", 1),
			`run.yaml:2: rollout.precision: unknown number format "bfloat8": want ...`},
		{strings.Replace(clitest.Config, "weights_seed: 1", "", 1),
			"--weights: missing: want a file, or weights_seed in the configuration"},
		{strings.Replace(clitest.Config, "grid_size: 3,", "", 1), "operator.grid_size: missing: ..."},
		{strings.Replace(clitest.Config, "base_channels: 2", "base_channels: 65536, kernel_size: 255, num_layers: 9", 1),
			"run.yaml:1: operator.num_layers: given twice..."},
	} {
		clitest.InFolder(t, k.text)
		refrun(t, "run", "--config", "run.yaml", "--x0", "zeros", "--json").Refused(t, "run", k.want)
	}
}

// TestConfigWithoutEnd: what goes on for ever is not read for ever.
func TestConfigWithoutEnd(t *testing.T) {
	const zero = "/dev/zero"
	if _, err := os.Stat(zero); err != nil {
		t.Skip(err)
	}
	refrun(t, "run", "--config", zero, "--x0", "zeros").Refused(t, "run", zero+": file: a device: want a regular file")
}

// TestRunRefuses: flags of a whole rollout.
func TestRunRefuses(t *testing.T) {
	clitest.InFolder(t, clitest.Config)
	if err := os.Mkdir("run.npy", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("flat.safetensors", safetensorsOf(t, clitest.Zeros(t, "x", "F32", 9)), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		flags string
		want  string
	}{
		{"", "--x0: missing: want an initial condition (a file, zeros or white:SEED)..."},
		{"--x0 white:", `--x0: white:"": want an integer of 64 bits`},
		{"--x0 white:1.5", `--x0: white:"1.5": want an integer of 64 bits`},
		{"--x0 white", "--x0: white: no seed: want white:SEED, such as white:7"},
		{"--x0 zeros -o=", "-o: empty: want a file"},
		{"--x0 zeros --weights=", "--weights: empty: want a file"},
		{"--x0 zeros --noise=", "--noise: empty: want a stream"},
		{"--x0=", "--x0: empty: want a file"},
		{"--x0 White:1", "--x0: White:1: no such file or directory: want ..., or zeros or white:SEED"},
		{"--x0 flat.safetensors", "flat.safetensors:x: shape [9]: want [1,H,W] or [2,1,H,W]"},
		{"--x0 zeros --seed 0x10", `--seed: "0x10": want an integer of 64 bits`},
		{"--x0 zeros --seed 18446744073709551616", `--seed: "18446744073709551616": want an integer of 64 bits`},
		{"--x0 zeros --steps 0", "--steps: 0: want 1 or more"},
		{"--x0 zeros --realizations=0", "--realizations: 0: want 1 or more"},
		{"--x0 zeros --resume", "--resume: want -o as well"},
		{"--x0 zeros --store float16", "--store: want -o as well"},
		{"--x0 zeros --steps -1", "--steps: -1: want 1 to 16777215"},
		{fmt.Sprint("--x0 zeros --steps ", 1<<31-1), "--steps: 2147483647: want 1 to 16777215"},
		{"--x0 zeros --steps 9223372036854775807", "--steps: 9223372036854775807: want 1 to 16777215"},
		{"--x0 zeros --realizations -2", "--realizations: -2: want 1 or more"},
		{"--x0 zeros --realizations 2147483647", "num_realizations: 2147483647: want at most 1048576 in one run"},
		{"--x0 zeros -o x.npy --store int8", `--store: "int8": want float64, float32, float16 or bfloat16`},
		{"--x0 zeros -o x.npy --store tf32", `--store: "tf32": want float64, float32, float16 or bfloat16`},
		{"--x0 zeros -o x.npy --record ./x.npy", "x.npy: both the output and the tape: want two files"},
		{"--x0 zeros -o x.npy --resume --force", "--resume and --force: want one of them"},
		{"--x0 zeros -o run.npy", "run.npy: a directory: want a regular file, or none"},
		{"--x0 zeros --noise tape",
			"--noise: tape: run.yaml has none: want a case folder with noise.safetensors, or another stream"},
		{"--x0 zeros -o x.txt", `x.txt: file type ".txt": want ...`},
		{"--x0 zeros -o none/x.safetensors",
			"none/x.safetensors.partial: no such file or directory: want a place to write to"},
		{"--x0 zeros --weights none.safetensors", "none.safetensors: no such file or directory: want a safetensors file"},
		{"--x0 zeros --weights flat.safetensors",
			"flat.safetensors: conv_blocks.0.block.0.weight: missing: want a tensor of shape [2 1 3 3]"},
		{"--x0 zeros --precision half", `--precision: unknown number format "half": want one of ...`},
		{"--x0 zeros --checkpoint soon", `--checkpoint: "soon": want a time, such as 30s, 5m or 1h30m`},
		{"--x0 zeros --record t.safetensors", "--record: want -o as well"},
		{"--x0 zeros --case .", "--case: want the folder of a recorded case, or --config FILE, one of them"},
		{"--x0 zeros --force", "--force: want -o as well"},
		{"--x0 zeros --checkpoint 1s", "--checkpoint: want -o as well"},
		{"--x0 zeros -o x.npy --checkpoint -1s", "--checkpoint: -1s: want 0 (after every step) or more"},
		{"--one-step", "--one-step: want --case, the folder of a case with recorded states"},
	} {
		args := append([]string{"run", "--json", "--config", "run.yaml"}, strings.Fields(k.flags)...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		refrun(t, args...).Refused(t, "run", k.want)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%s: %d bytes were allocated for a claim", k.flags, used)
		}
	}
	clitest.InFolder(t, strings.Replace(clitest.Config, "grid_size: 3", "grid_size: 65536", 1))
	refrun(t, "run", "--config", "run.yaml", "--x0", "zeros").Refused(t, "run", "states of an engine batch: "+
		"1 of 1x65536x65536 numbers: want at most 2^31 numbers; operator.grid_size makes them fewer")
	clitest.InFolder(t, strings.Replace(clitest.Config, "grid_size: 3", "grid_size: 4096", 1))
	refrun(t, "run", "--config", "run.yaml", "--x0", "flat.safetensors").Refused(t, "run",
		"--x0: flat.safetensors: no such file or directory: want ...")
}

func safetensorsOf(t *testing.T, tensors ...*safetensors.Tensor) []byte {
	t.Helper()
	b, err := os.ReadFile(clitest.Save(t, "x.safetensors", tensors...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRunJSON: the object of a whole rollout, and a file that compare finds
// equal to itself.
func TestRunJSON(t *testing.T) {
	clitest.InFolder(t, clitest.Config)
	r := refrun(t, "run", "--config", "run.yaml", "--x0", "white:3", "-o", "out.safetensors", "--json")
	if r.Code != 0 || r.Stderr != "" {
		t.Fatalf("exit code %d, stderr %q", r.Code, r.Stderr)
	}
	out := r.Decode(t)
	clitest.Has(t, "run", out, object{
		"digest": word, "mode": word, "contract": word, "steps_per_s": number, "sample_steps_per_s": number, "gflops": number,
		"precision_requested": word, "precision_used": word, "noise": word, "isa": word, "threads": number,
		"peak_bytes": number, "shape": []any{number},
		"memory": object{"state_bytes": number, "arena_bytes": number, "weight_bytes": number, "sink_bytes": number,
			"input_bytes": number},
	})
	if out["mode"] != "float32/state-float32/noise-counter" || fmt.Sprint(out["shape"]) != "[2 3 1 3 3]" {
		t.Errorf("mode %v, shape %v", out["mode"], out["shape"])
	}
	for _, flags := range [][]string{{"--threads", "1"}, {"--batch", "1"}, {"--seed", "7"}, {"--steps=2"}} {
		args := append([]string{"run", "--config", "run.yaml", "--x0", "white:3", "--json"}, flags...)
		if got := refrun(t, args...).Decode(t)["digest"]; got != out["digest"] {
			t.Errorf("%v: digest %v, want %v", flags, got, out["digest"])
		}
	}
	for _, flags := range [][]string{{"--seed", "8"}, {"--x0", "white:4"}, {"--steps", "1"}, {"--noise", "none"},
		{"--precision", "float64"}, {"--realizations", "1"}} {
		args := append([]string{"run", "--config", "run.yaml", "--x0", "white:3", "--json"}, flags...)
		if got := refrun(t, args...).Decode(t)["digest"]; got == out["digest"] {
			t.Errorf("%v does not change the digest", flags)
		}
	}
	if r := refrun(t, "compare", "out.safetensors", "out.safetensors", "--max-ulp", "0"); r.Code != 0 {
		t.Errorf("the output and itself: %s%s", r.Stdout, r.Stderr)
	}
}

// TestRunInputs: files stay on disk, those of a case and those of flags.
func TestRunInputs(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	const start = 8 * 3 * 20 * 20
	for _, flags := range [][]string{nil, {"--weights", filepath.Join(dir, "weights.safetensors")}} {
		out := refrun(t, append([]string{"run", "--case", dir, "--json"}, flags...)...).Decode(t)
		if got := out["memory"].(object)["input_bytes"]; got != float64(start) {
			t.Errorf("%v bytes with %v: want %d, those of the initial condition", got, flags, start)
		}
	}
}

// TestRunMemory: the parts are what the shapes say, and do not know how long
// the rollout is.
func TestRunMemory(t *testing.T) {
	clitest.InFolder(t, clitest.Config)
	var first object
	for _, steps := range []string{"2", "200"} {
		out := refrun(t, "run", "--config", "run.yaml", "--x0", "white:3", "-o", steps+".safetensors", "--steps", steps,
			"--isa", "purego", "--json").Decode(t)
		m, _ := out["memory"].(object)
		// Two states of 1x3x3, weights of 2x1x3x3 and 1x2x1x1 (held twice, the
		// latter filled up to two channels), gamma, beta, noise_scale and bias;
		// and what a kernel keeps for its bound, 2+1+2 and 1+2+1 numbers.
		if m["state_bytes"] != 8*2*9. || m["weight_bytes"] != 8*(18+18+2+4+4+1+1+5+4.) || m["input_bytes"] != 8*9. {
			t.Errorf("memory %v", m)
		}
		if peak, _ := out["peak_bytes"].(float64); peak != 0 && peak < m["state_bytes"].(float64)+m["arena_bytes"].(float64) {
			t.Errorf("peak_bytes %v is less than %v", peak, m)
		}
		if first == nil {
			first = m
		} else if !reflect.DeepEqual(m, first) {
			t.Errorf("after %s steps %v, after fewer %v", steps, m, first)
		}
	}
	r := refrun(t, "run", "--config", "run.yaml", "--x0", "white:3")
	if want := "memory: states 144 B, activations "; r.Code != 0 || !strings.Contains(r.Stdout, want) {
		t.Errorf("stdout %q, want %q in it", r.Stdout, want)
	}
}

// TestRunOverwrites: a finished output is kept, found complete by its own run
// only, and overwritten if that is said.
func TestRunOverwrites(t *testing.T) {
	clitest.InFolder(t, clitest.Config)
	for _, file := range []string{"a.safetensors", "a.h5", "a.npy", "a.npz"} {
		run := func(flags ...string) clitest.Result {
			return refrun(t,
				append([]string{"run", "--config", "run.yaml", "--x0", "white:3", "--json", "-o", file}, flags...)...)
		}
		r := run()
		if r.Code != 0 {
			t.Fatal(r.Stderr)
		}
		whole := r.Decode(t)["digest"]
		run().Refused(t, "run", file+": exists: want --force to overwrite it, another name, or --resume")
		out := run("--resume").Decode(t)
		if out["already_complete"] != true || out["digest"] != whole || out["memory"] != nil {
			t.Errorf("%s: resumed when complete: %v", file, out)
		}
		for flags, want := range map[string]string{
			"--seed=8":            `base_seed: the finished run had "7", this one has "8"`,
			"--x0=white:4":        "initial condition: the finished run had ...",
			"--steps=1":           `steps: the finished run had "2", this one has "1"`,
			"--store=float16":     `store: the finished run had "float32", this one has "float16"`,
			"--precision=float64": `mode: the finished run had ...`,
		} {
			run("--resume", flags).Refused(t, "run",
				file+": "+want+": want the same run, another name, or --force to overwrite it")
		}
		if r := run("--seed=8", "--force"); r.Code != 0 {
			t.Error(r.Stderr)
		}
		if out := run("--seed=8", "--resume").Decode(t); out["already_complete"] != true {
			t.Errorf("%s: resumed after --force: %v", file, out)
		}
	}
}

// TestRunStepsItself: single steps from the states of a whole rollout are the rollout's,
// in half precision too, where an operator may read its input in more than convolutions.
func TestRunStepsItself(t *testing.T) {
	t.Chdir(t.TempDir())
	err := os.WriteFile("case.json", []byte(`{"operator": {"grid_size": 8, "nodes": [
		{"op": "conv", "name": "a", "out_channels": 3, "kernel_size": 3},
		{"op": "add", "name": "b", "in": ["a", "input"]},
		{"op": "act", "name": "c", "activation": "gelu"},
		{"op": "conv", "name": "d", "out_channels": 3, "kernel_size": 3}]},
		"rollout": {"num_timesteps": 5, "num_realizations": 2, "policy_type": "autoregressive"}, "weights_seed": 1}`), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	for _, precision := range []string{"bfloat16", "float16", "float32"} {
		r := refrun(t, "run", "--config", "case.json", "--x0", "white:3", "--precision", precision, "-o",
			"trajectory.safetensors", "--force")
		if r.Code != 0 {
			t.Fatal(r.Stderr)
		}
		got := refrun(t, "run", "--case", ".", "--one-step", "--precision", precision,
			"--json").Decode(t)["one_step"].(map[string]any)
		if got["max_abs"] != 0. {
			t.Errorf("%s: single steps differ by up to %v", precision, got["max_abs"])
		}
	}
}
