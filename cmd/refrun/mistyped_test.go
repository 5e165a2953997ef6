package main

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestMistyped: what was probably meant is said, in one line, and nothing where nothing is near.
func TestMistyped(t *testing.T) {
	for args, meant := range map[string]string{
		"rnu": "run", "chekc": "check", "chck": "check", "comapre": "compare", "comp": "compare", "verfy": "verify",
		"selftets": "selftest", "self-test": "selftest",
		"becnh": "bench", "versoin": "version", "datset": "dataset", "kernal": "kernel", "proeb": "probe",
		"stduy": "study", "inof": "info", "CHECK": "check",
		"run --onestep": "--one-step", "run --one_step": "--one-step", "run --precison x": "--precision",
		"run --thread 2": "--threads", "check --clam x": "--claim",
		"compare --maxulp 2": "--max-ulp", "compare --max_abs 2": "--max-abs", "run --resum": "--resume",
		"run --jsno": "--json", "check --Case x": "--case", "run --autocats x": "--autocast",
		"kernel --accumlate x": "--accumulate", "dataset pln": "plan", "dataset mising": "missing",
		"dataset verfy": "verify", "run --qiuet": "--quiet",
		"demmo": "demo", "paln": "plan", "molecul": "molecule", "completon": "completion", "hlep": "help",
		"srudy": "study", "check --reprot x": "--report", "run --seeed 2": "--seed",
		"kernel --oop x": "--op", "kernel --presicion x": "--precision", "study --step 3": "--steps",
		"bench --thraeds 2": "--threads", "dataset mereg": "merge",
	} {
		r := refrun(t, strings.Fields(args)...)
		if r.Code != cli.ExitUsage || !strings.Contains(r.Stderr, "did you mean "+meant+"?") ||
			strings.Count(r.Stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %s", args, r.Code, r.Stderr)
		}
	}
	for _, args := range []string{"nonsense", "x", "run --nonsense", "run --x", "dataset nonsense"} {
		if r := refrun(t, strings.Fields(args)...); r.Code != cli.ExitUsage || strings.Contains(r.Stderr, "did you mean") {
			t.Errorf("%s: exit code %d, %s", args, r.Code, r.Stderr)
		}
	}
}

// TestHelpOf: help VERB is VERB --help.
func TestHelpOf(t *testing.T) {
	for _, v := range []string{"run", "check", "dataset"} {
		if a, b := refrun(t, "help", v), refrun(t, v, "--help"); a != b || a.Code != 0 {
			t.Errorf("%s: exit code %d, %s%s", v, a.Code, a.Stderr, a.Stdout)
		}
	}
	if a, b := refrun(t, "help", "dataset", "plan"), refrun(t, "dataset", "plan", "--help"); a != b || a.Code != 0 {
		t.Errorf("dataset plan: exit code %d, %s%s", a.Code, a.Stderr, a.Stdout)
	}
	if r := refrun(t, "help", "rnu"); r.Code != cli.ExitUsage || !strings.Contains(r.Stderr, "did you mean run?") {
		t.Errorf("exit code %d, %s", r.Code, r.Stderr)
	}
}

// TestFolder: a folder alone is that of --case; with --case it is one too many.
func TestFolder(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	a, b := refrun(t, "run", "--one-step", dir, "--json"), refrun(t, "run", "--one-step", "--case", dir, "--json")
	if a.Code != 0 || a.Decode(t)["digest"] != b.Decode(t)["digest"] {
		t.Errorf("exit code %d, %s", a.Code, a.Stderr)
	}
	if r := refrun(t, "check", dir); r.Code == cli.ExitUsage || r.Stderr != "" {
		t.Errorf("check: exit code %d, %s", r.Code, r.Stderr)
	}
	refrun(t, "check", dir+"/nowhere").Refused(t, "check",
		dir+"/nowhere: no such file or directory: want the folder of a case")
	refrun(t, "info", "m.onnx").Refused(t, "info", `"m.onnx": unexpected argument: want flags only, here --onnx m.onnx`)
	refrun(t, "run", "--one-step", "--case", dir, dir).Refused(t, "run", `"`+dir+`": unexpected argument: want flags only`)
	for _, args := range [][]string{{dir + "/case.json"}, {"--case", dir + "/case.json"}} {
		refrun(t, append([]string{"check"}, args...)...).Refused(t, "check",
			dir+"/case.json: a file: want the folder of a case, here "+dir)
	}
	refrun(t, "run", "--one-step", dir+"/weights.safetensors").Refused(t, "run", dir+"/weights.safetensors: a file: "+
		"want the folder of a case; a configuration is given with --config "+dir+"/weights.safetensors")
	refrun(t, "run", "--one-step", dir, dir).Refused(t, "run", `"`+dir+`": unexpected argument: want flags only`)
}
