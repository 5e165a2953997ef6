package main

import (
	"os"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/internal/asm"
)

// fastConfig is an operator whose convolutions all have fast arithmetic.
const fastConfig = `{"operator": {"num_layers": 2, "base_channels": 8, "grid_size": 14,
 "noise_type": "gaussian", "noise_scale": 0.05},
"rollout": {"policy_type": "convex", "alpha": 0.5, "num_timesteps": 9, "num_realizations": 5, "base_seed": 3},
 "weights_seed": 1}
`

// TestFastRun: a run in fast arithmetic has one digest, another than that of exact
// arithmetic, for any instruction set, threads and batch; its mode is named; and a check
// passes it as float32, and as what it is.
func TestFastRun(t *testing.T) {
	clitest.InFolder(t, fastConfig)
	run := func(args ...string) map[string]any {
		t.Helper()
		out := refrun(t, append([]string{
			"run", "--json", "--config", "run.yaml", "--x0", "white:7", "-o", "t.safetensors", "--force",
		}, args...)...).Decode(t)
		return out
	}
	exact := run()
	fast := run("--arith", "fast")
	if mode := "float32:fast-7/state-float32/noise-counter"; fast["mode"] != mode || fast["digest"] == exact["digest"] {
		t.Errorf("mode %v, digests %v and exact %v: want mode %s and another digest", fast["mode"], fast["digest"],
			exact["digest"], mode)
	}
	for _, args := range []string{"--threads 1", "--threads 7", "--batch 1", "--batch 2 --threads 2"} {
		if r := run(append(strings.Fields(args), "--arith", "fast")...); r["digest"] != fast["digest"] {
			t.Errorf("%s: digest %v, want %v", args, r["digest"], fast["digest"])
		}
	}
	for _, isa := range asm.ISAs() {
		if r := run("--arith", "fast", "--isa", isa); r["digest"] != fast["digest"] {
			t.Errorf("--isa %s: digest %v, want %v", isa, r["digest"], fast["digest"])
		}
	}
	if r := run("--precision", "float32:fast"); r["digest"] != fast["digest"] {
		t.Errorf("--precision float32:fast: digest %v, want %v", r["digest"], fast["digest"])
	}
	if r := run("--precision", "float32:fast", "--arith", "exact"); r["digest"] != exact["digest"] {
		t.Errorf("--arith exact: digest %v, want %v", r["digest"], exact["digest"])
	}

	run("--arith", "fast")
	if err := os.Mkdir("case", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename("t.safetensors", "case/trajectory.safetensors"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("case/case.json", []byte(fastConfig), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, claim := range []string{"float32", "float32:fast"} {
		r := refrun(t, "check", "--json", "--case", "case", "--noise", "counter", "--claim", claim)
		if v, _ := r.Decode(t)["verdict"].(string); r.Code != 0 || !strings.HasPrefix(v, "PASS") {
			t.Errorf("claim %s: exit code %d, verdict %v", claim, r.Code, v)
		}
	}
}

func TestFastRefuses(t *testing.T) {
	clitest.InFolder(t, fastConfig)
	for _, k := range []struct{ args, want string }{
		{"--arith quick", `--arith: "quick": want exact or fast`},
		{"--arith fast --precision float16", "--arith: fast: float16 has no such arithmetic: want float32"},
		{"--precision float32:quick",
			`--precision: precision "float32:quick": want a rounding after tf32 only, and fast after float32 only`},
	} {
		refrun(
			t, append([]string{"run", "--config", "run.yaml", "--x0", "zeros", "--json"}, strings.Fields(k.args)...)...,
		).Refused(t, "run", k.want)
	}
}
