package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/cmd/refrun/internal/dataset"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/safetensors"
)

// TestWidth: no help is wider than a terminal.
func TestWidth(t *testing.T) {
	pages := [][]string{{"help"}}
	for _, v := range verbs {
		pages = append(pages, []string{v.Name, "--help"})
	}
	for _, v := range dataset.Verb.Parts {
		pages = append(pages, append(strings.Fields(v.Name), "--help"))
	}
	for _, args := range pages {
		refrun(t, args...) // which looks at every text that any test prints
	}
}

// TestNumbersOfFlags: so do flags.
func TestNumbersOfFlags(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	refrun(t, "check", dir, "--budget", "5").Refused(t, "check", `--budget: "5": want a time, such as 30s, 5m or 1h30m`)
	refrun(t, "run", dir, "--batch", "0").Refused(t, "run", "--batch: 0: want 1 or more")
	for args, want := range map[string]string{
		"bench --grid 0": "--grid", "plan --grid 0": "--grid", "plan --operators 0": "--operators",
		"dataset plan x --dry-run --shards 0": "--shards", "dataset plan x --dry-run --rate 0": "--rate",
	} {
		words := strings.Fields(args)
		refrun(t, words...).Refused(t, words[0], want+": 0: want more than 0")
	}
	if a, err := setup.Seed("1e6"); a != 1000000 || err != nil {
		t.Errorf("%d %v", a, err)
	}
	if r := refrun(t, "run", dir, "--steps", "1e0", "--json"); r.Code != 0 || r.Decode(t)["shape"].([]any)[1] != 2.0 {
		t.Errorf("exit code %d, %s", r.Code, r.Stderr)
	}
}

// TestMan: the manual page has every verb and flag, and no text of it is taken for a command.
func TestMan(t *testing.T) {
	page := refrun(t, "man").Stdout
	for _, v := range verbs {
		if !strings.Contains(page, ".SS \"refrun "+v.Name) {
			t.Errorf("no %s", v.Name)
		}
	}
	if !strings.Contains(page, `\-\-one\-step`) {
		t.Error("no --one-step")
	}
	commands := []string{".TH", ".SH", ".SS", ".TP", ".B", ".PP", ".nf", ".fi", ".in", ".nh", ".ad"}
	for line := range strings.Lines(page) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") &&
			!slices.Contains(commands, word) || strings.HasPrefix(line, "'") {
			t.Errorf("not a command: %s", line)
		}
	}
	// Inside .nf man breaks no line. It would set each 7 to the right.
	kept := false
	for line := range strings.Lines(page) {
		kept = strings.HasPrefix(line, ".nf") || kept && !strings.HasPrefix(line, ".fi")
		if strings.HasPrefix(line, ".nf") && strings.Count(page, ".nf\n") != strings.Count(page, ".nf\n.in -7n\n") {
			t.Error("a kept line is set to the right")
		}
		if shown := strings.NewReplacer("\\e", "\\", "\\-", "-", "\\(dq", "\"", "\\&", "", "\n",
			"").Replace(line); kept && len([]rune(shown)) > 80 {
			t.Errorf("wider than a terminal: %s", shown)
		}
	}
}

// TestWrapped: weights of a module that torch.compile or DataParallel wrapped are read, and it is said.
func TestWrapped(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	plain := refrun(t, "run", "--case", dir, "--json").Decode(t)["digest"]
	path := filepath.Join(dir, "weights.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []*safetensors.Tensor
	for _, name := range f.Names() {
		w, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Name = "module._orig_mod." + name
		all = append(all, w)
	}
	_ = os.Remove(filepath.Join(dir, "SHA256SUMS"))
	if err := safetensors.WriteFile(path, all, nil); err != nil {
		t.Fatal(err)
	}
	r := refrun(t, "run", "--case", dir)
	if r.Code != 0 || !strings.Contains(r.Stdout, "note: weights: module._orig_mod. before all names is left out") ||
		!strings.Contains(r.Stdout, "digest "+plain.(string)) {
		t.Errorf("exit code %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// TestMixedUp: a hint says which axes may have changed places.
func TestMixedUp(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	path := filepath.Join(dir, "trajectory.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := f.Tensor("trajectory")
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(dir, "SHA256SUMS"))
	s := slices.Clone(x.Shape)
	for hint, shape := range map[string][]int{"; steps and realizations seem to have changed places": {s[1], s[0], s[2],
		s[3], s[4]}, "; the channels seem to stand last: want them before H and W": {s[0], s[1], s[3], s[4], s[2]}} {
		y, err := safetensors.New("trajectory", x.DType, shape, x.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if err := safetensors.WriteFile(path, []*safetensors.Tensor{y}, nil); err != nil {
			t.Fatal(err)
		}
		if r := refrun(t, "run", "--one-step", "--case", dir); r.Code != 2 ||
			!strings.HasSuffix(r.Stderr, "as case.json says"+hint+"\n") {
			t.Errorf("%v: exit code %d, %s", shape, r.Code, r.Stderr)
		}
	}
}
