package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/cmd/refrun/internal/dataset"
)

var helpFlag = regexp.MustCompile(`(?m)^  --(\S+) (\S+)? `)

// hostileFlags: every flag of every verb without its value, and with values that it
// cannot have.
func hostileFlags(t *testing.T) (all []hostile) {
	t.Helper()
	add := func(args ...string) { all = append(all, hostile{"flags", args}) }
	long := strings.Repeat("9", 5000)
	odd := []string{"\x1b[2J\x1b[HPASS", "a\nb", "\u202egpj", "\xff\xfe", strings.Repeat("é", 3000), "\x00"}
	for _, o := range append(odd, "", "-", "--", "---", "RUN", "run ", "--version=1") {
		add(o)
	}
	numbers := []string{"", "x", "1e", "0x", "NaN", "99999999999999999999", long, "1\n2", "\x1b[2J"}
	never := map[string]bool{"allow-nonfinite": true, "exhaustive": true, "force": true, "json": true, "lines": true,
		"one-step": true, "quiet": true, "resume": true}
	for _, v := range verbs {
		var help bytes.Buffer
		if code := realMain([]string{v.Name, "--help"}, &help, &help); code != 0 {
			t.Fatal(v.Name, help.String())
		}
		var flags []string
		for _, m := range helpFlag.FindAllStringSubmatch(help.String(), -1) {
			flags = append(flags, m[1])
		}
		if !slices.Contains(flags, "threads") || !slices.Contains(flags, "isa") {
			t.Fatalf("the flags of %s are not found in its help: %q", v.Name, flags)
		}
		for _, f := range flags {
			if never[f] {
				add(v.Name, "--"+f+"=maybe")
				continue
			}
			add(v.Name, "--"+f)
			if f != "isa" {
				add(v.Name, "--"+f, "")
			}
		}
		for _, n := range append(numbers, "0", "-1", "1025", "1.5") {
			add(v.Name, "--threads="+n)
		}
		for _, o := range odd {
			add(v.Name, "--"+o)
			add(v.Name, "--isa", o)
			add(v.Name, "--threads", o)
			add(v.Name, o, o, o)
		}
		add(v.Name, "--nonsense", long)
		add(v.Name, strings.Repeat("x/", 2000))
	}
	for _, v := range dataset.Verb.Parts {
		words := strings.Fields(v.Name)
		for _, o := range append(odd, numbers...) {
			for _, f := range []string{"-o", "--shard", "--shard-offset", "--shards", "--workers", "--rate", "--units",
				"--unit", "--recompute", "--threads", "--checkpoint"} {
				add(append(slices.Clone(words), "none", f, o)...)
			}
			add(append(slices.Clone(words), o)...)
		}
	}
	for verb, flags := range map[string][]string{
		"run":     {"steps", "realizations", "batch", "seed", "checkpoint"},
		"study":   {"steps", "realizations", "operator-seeds", "seed", "seeds"},
		"check":   {"budget"},
		"compare": {"max-abs", "mean-abs", "max-ulp"},
		"bench":   {"grid", "batch", "seconds"},
		"plan":    {"grid", "batch", "seconds", "operators", "realizations", "steps"},
	} {
		for _, f := range flags {
			for _, n := range append(numbers, "-1") {
				if n == "-1" && strings.HasPrefix(f, "seed") || n == "99999999999999999999" && verb == "compare" ||
					n == long && verb == "compare" {
					continue // numbers
				}
				args := []string{verb, "--" + f, n}
				switch verb {
				case "run", "study":
					args = append(args, "--config", "good.yaml", "--x0", "zeros")
				case "check":
					args = append(args, "--config", "good.yaml", "--trajectory", "good.safetensors")
				case "compare":
					args = append(args, "good.safetensors", "good.safetensors")
				}
				add(args...)
			}
		}
	}
	for _, f := range []string{"precision", "autocast", "noise", "x0", "store", "claim", "report", "svg"} {
		for _, o := range odd {
			for _, v := range []string{"run", "check", "study"} {
				add(v, "--config", "good.yaml", "--"+f, o)
			}
		}
	}
	for _, args := range [][]string{
		{"bench", "--grid", "2147483647"}, {"bench", "--batch", "2147483647"}, {"bench", "--seconds", "1e300"},
		{"bench", "--seconds", "0"},
		{"bench", "--grid", "65536"}, {"bench", "--config", "good.yaml", "--grid", "65536", "--batch", "65536"},
		{"plan", "--grid", "2147483647"}, {"plan", "--batch", "2147483647"}, {"plan", "--seconds", "1e300"},
		{"plan", "--grid", "65536"},
		{"run", "--config", "good.yaml", "--x0", "zeros", "--steps", "2147483647"},
		{"run", "--config", "good.yaml", "--x0", "zeros", "--steps", "9223372036854775807"},
		{"run", "--config", "good.yaml", "--x0", "zeros", "--realizations", "2147483647"},
		{"run", "--config", "good.yaml", "--x0", "zeros", "--batch", "-9223372036854775808"},
		{"run", "--config", "good.yaml", "--x0", "white:"}, {"run", "--config", "good.yaml", "--x0", "white:" + long},
		{"run", "--config", "good.yaml", "--x0", "zeros", "--noise", "torch-cuda:" + long},
		{"run", "--config", "good.yaml", "--x0", "zeros", "--noise", "torch-cuda:1:2:3:4:5"},
		{"study", "--config", "good.yaml", "--x0", "zeros", "--steps", "2147483647"},
		{"study", "--config", "good.yaml", "--x0", "zeros", "--operator-seeds", "2147483647"},
		{"study", "--config", "good.yaml", "--x0", "zeros", "--realizations", "2147483647"},
		{"study", "--config", "good.yaml", "--x0", "zeros", "--seeds", strings.Repeat("1,", 100_000)},
		{"study", "--config", "good.yaml", "--x0", "zeros", "--seeds", ",,,"},
		{"check", "--config", "good.yaml", "--budget", "-1s"},
		{"compare", "good.safetensors", "good.safetensors", "--max-abs", "nan"},
		{"compare", "good.safetensors", "good.safetensors", "--max-ulp", "-0.1"},
		{"compare", "good.safetensors:" + strings.Repeat("x", 5000), "good.safetensors"},
		{"compare", strings.Repeat(":", 5000), "good.safetensors"},
		{"compare", "good.safetensors::::", "good.safetensors"},
	} {
		add(args...)
	}
	return all
}

// hostilePaths: what is no file, or none that can be read or written, for every flag
// that takes one.
func hostilePaths(t *testing.T) (all []hostile) {
	t.Helper()
	put(t, "good.yaml", []byte(clitest.GoodConfig))
	put(t, "good.safetensors",
		withHeader(`{"trajectory":{"dtype":"F32","shape":[1,2,3,4,4],"data_offsets":[0,384]}}`, 384))
	put(t, "empty", nil)
	for _, dir := range []string{"folder.safetensors", "folder.npy", "folder.h5"} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"loop.npy": "loop.npy", "nowhere.safetensors": "no/such/file"} {
		if err := os.Symlink(to, from); err != nil {
			t.Skip(err)
		}
	}
	paths := []string{
		"no/such/file.safetensors", "good.yaml/x.npy", "folder.safetensors", "loop.npy", "empty", ".", "/", "..",
		strings.Repeat("x", 5000) + ".npy", strings.Repeat("d/", 3000) + "x.h5", "\x1b[2J.npy", "\x00.npy",
		"a\nb.safetensors", "\u202e.h5",
	}
	paths = append(paths, special(t)...)
	add := func(args ...string) { all = append(all, hostile{"paths", args}) }
	for _, p := range paths {
		missing := p == "\x1b[2J.npy" || p == "a\nb.safetensors" || p == "\u202e.h5" || strings.HasPrefix(p, "nowhere")
		add("run", "--config", p, "--x0", "zeros")
		add("run", "--case", p)
		add("run", "--config", "good.yaml", "--weights", p, "--x0", "zeros")
		add("run", "--config", "good.yaml", "--x0", p)
		add("check", "--config", p, "--trajectory", "good.safetensors")
		add("check", "--case", p)
		add("check", "--config", "good.yaml", "--trajectory", p)
		add("check", "--config", "good.yaml", "--trajectory", "good.safetensors", "--layers", p)
		add("check", "--config", "good.yaml", "--trajectory", "good.safetensors", "--tape", p)
		add("study", "--config", p)
		add("study", "--case", p)
		add("study", "--config", "good.yaml", "--weights", p, "--x0", "zeros")
		add("plan", "--config", p)
		add("bench", "--config", p)
		add("bench", "--config", "good.yaml", "--weights", p)
		add("probe", "--case", p, "-o", "probes")
		add("compare", p, "good.safetensors")
		add("compare", "good.safetensors", p)
		if slices.ContainsFunc(verbs, func(v cli.Verb) bool { return v.Name == "verify" }) {
			add("verify", p)
		}
		if !missing { // what is not there can be written
			add("run", "--config", "good.yaml", "--x0", "zeros", "-o", p)
			if filepath.Ext(p) != ".safetensors" || p != filepath.Base(p) {
				add("run", "--config", "good.yaml", "--x0", "zeros", "-o", "out.npy", "--record", p)
			}
		}
	}
	return all
}
