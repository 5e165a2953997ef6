package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/safetensors"
)

// TestWidth: no help is wider than a terminal.
func TestWidth(t *testing.T) {
	pages := [][]string{{"help"}}
	for _, v := range verbs {
		pages = append(pages, []string{v.name, "--help"})
	}
	for _, v := range datasetVerb.parts {
		pages = append(pages, append(strings.Fields(v.name), "--help"))
	}
	for _, args := range pages {
		refrun(t, args...) // which looks at every text that any test prints
	}
}

// TestNarrow: lines break at spaces, below the text of a list's entry; a word stays whole.
func TestNarrow(t *testing.T) {
	word := strings.Repeat("x", 90)
	for line, want := range map[string]string{
		"short":                   "short",
		strings.Repeat("ab ", 30): strings.Repeat("ab ", 26) + "ab\n  ab ab ab ",
		"note     " + strings.Repeat("abcd ", 17): "note     " + strings.Repeat("abcd ", 13) +
			"abcd\n         abcd abcd abcd ",
		"  a: " + word + " z":   "  a:\n    " + word + "\n    z",
		word:                    word,
		word + " z":             word + "\n  z",
		"    " + word:           "    " + word,
		strings.Repeat("é", 80): strings.Repeat("é", 80),
	} {
		if got := narrow(line); got != want {
			t.Errorf("%q:\n%q, want\n%q", line, got, want)
		}
	}
	var out strings.Builder
	c := &command{stdout: &out}
	c.say("a")
	c.say("b\nc")
	c.say("d")
	c.ended()
	if got := out.String(); got != "ab\ncd" {
		t.Errorf("%q", got)
	}
}

// TestNumbers: numbers and times are taken as people write them.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"1e6": "1000000", "2.5e3": "2500", "500": "500", "1.0": "1", "1e-3": "", "x": "x", "0x10": "0x10",
	} {
		got, ok := readCount(text)
		if ok && got != want || !ok && want != "" {
			t.Errorf("%s: %q %v, want %q", text, got, ok, want)
		}
	}
	for text, want := range map[string]string{
		"5min": "5m", "30 sec": "30s", "2 hours": "2h", "90s": "90s", "1h30m": "1h30m",
	} {
		if got, _ := readTime(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestNumbersOfFlags: so do flags.
func TestNumbersOfFlags(t *testing.T) {
	dir := newFolder(t).write()
	refrun(t, "check", dir, "--budget", "5").refused(t, "check", `--budget: "5": want a time, such as 30s, 5m or 1h30m`)
	refrun(t, "run", dir, "--batch", "0").refused(t, "run", "--batch: 0: want 1 or more")
	for args, want := range map[string]string{
		"bench --grid 0": "--grid", "plan --grid 0": "--grid", "plan --operators 0": "--operators",
		"dataset plan x --dry-run --shards 0": "--shards", "dataset plan x --dry-run --rate 0": "--rate",
	} {
		words := strings.Fields(args)
		refrun(t, words...).refused(t, words[0], want+": 0: want more than 0")
	}
	if a, err := seed("1e6"); a != 1000000 || err != nil {
		t.Errorf("%d %v", a, err)
	}
	if r := refrun(t, "run", dir, "--steps", "1e0", "--json"); r.code != 0 || r.decode(t)["shape"].([]any)[1] != 2.0 {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}

// TestMan: the manual page has every verb and flag, and no text of it is taken for a command.
func TestMan(t *testing.T) {
	page := refrun(t, "man").stdout
	for _, v := range verbs {
		if !strings.Contains(page, ".SS \"refrun "+v.name) {
			t.Errorf("no %s", v.name)
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

// TestRoff: no text is a command of man.
func TestRoff(t *testing.T) {
	if got := roff(".a\n'b -c\\"); got != "\\&.a\n\\&'b \\-c\\e" {
		t.Errorf("%q", got)
	}
}

// TestWrapped: weights of a module that torch.compile or DataParallel wrapped are read, and it is said.
func TestWrapped(t *testing.T) {
	dir := newFolder(t).write()
	plain := refrun(t, "run", "--case", dir, "--json").decode(t)["digest"]
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
	if r.code != 0 || !strings.Contains(r.stdout, "note: weights: module._orig_mod. before all names is left out") ||
		!strings.Contains(r.stdout, "digest "+plain.(string)) {
		t.Errorf("exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
}

// TestMixedUp: a hint says which axes may have changed places.
func TestMixedUp(t *testing.T) {
	dir := newFolder(t).write()
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
		if r := refrun(t, "run", "--one-step", "--case", dir); r.code != 2 ||
			!strings.HasSuffix(r.stderr, "as case.json says"+hint+"\n") {
			t.Errorf("%v: exit code %d, %s", shape, r.code, r.stderr)
		}
	}
}
