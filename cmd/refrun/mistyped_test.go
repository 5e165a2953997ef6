package main

import (
	"strings"
	"testing"
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
		if r.code != exitUsage || !strings.Contains(r.stderr, "did you mean "+meant+"?") ||
			strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %s", args, r.code, r.stderr)
		}
	}
	for _, args := range []string{"nonsense", "x", "run --nonsense", "run --x", "dataset nonsense"} {
		if r := refrun(t, strings.Fields(args)...); r.code != exitUsage || strings.Contains(r.stderr, "did you mean") {
			t.Errorf("%s: exit code %d, %s", args, r.code, r.stderr)
		}
	}
}

// TestHelpOf: help VERB is VERB --help.
func TestHelpOf(t *testing.T) {
	for _, v := range []string{"run", "check", "dataset"} {
		if a, b := refrun(t, "help", v), refrun(t, v, "--help"); a != b || a.code != 0 {
			t.Errorf("%s: exit code %d, %s%s", v, a.code, a.stderr, a.stdout)
		}
	}
	if a, b := refrun(t, "help", "dataset", "plan"), refrun(t, "dataset", "plan", "--help"); a != b || a.code != 0 {
		t.Errorf("dataset plan: exit code %d, %s%s", a.code, a.stderr, a.stdout)
	}
	if r := refrun(t, "help", "rnu"); r.code != exitUsage || !strings.Contains(r.stderr, "did you mean run?") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}

// TestFolder: a folder alone is that of --case; with --case it is one too many.
func TestFolder(t *testing.T) {
	dir := newFolder(t).write()
	a, b := refrun(t, "run", "--one-step", dir, "--json"), refrun(t, "run", "--one-step", "--case", dir, "--json")
	if a.code != 0 || a.decode(t)["digest"] != b.decode(t)["digest"] {
		t.Errorf("exit code %d, %s", a.code, a.stderr)
	}
	if r := refrun(t, "check", dir); r.code == exitUsage || r.stderr != "" {
		t.Errorf("check: exit code %d, %s", r.code, r.stderr)
	}
	refrun(t, "check", dir+"/nowhere").refused(t, "check",
		dir+"/nowhere: no such file or directory: want the folder of a case")
	refrun(t, "info", "m.onnx").refused(t, "info", `"m.onnx": unexpected argument: want flags only, here --onnx m.onnx`)
	refrun(t, "run", "--one-step", "--case", dir, dir).refused(t, "run", `"`+dir+`": unexpected argument: want flags only`)
	for _, args := range [][]string{{dir + "/case.json"}, {"--case", dir + "/case.json"}} {
		refrun(t, append([]string{"check"}, args...)...).refused(t, "check",
			dir+"/case.json: a file: want the folder of a case, here "+dir)
	}
	refrun(t, "run", "--one-step", dir+"/weights.safetensors").refused(t, "run", dir+"/weights.safetensors: a file: "+
		"want the folder of a case; a configuration is given with --config "+dir+"/weights.safetensors")
	refrun(t, "run", "--one-step", dir, dir).refused(t, "run", `"`+dir+`": unexpected argument: want flags only`)
}
