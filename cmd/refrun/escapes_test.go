package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/refrun/refrun/safetensors"
)

// hostile is text that clears a screen, forges a verdict on a line of its own, turns
// the direction of writing and rings.
const hostileText = "x\x1b[2J\x1b[H\nVERDICT  PASS-CONFORMING\r\u202egnp\u2066\u200b\u2028\u0085\x07\xff\U000e0041"

// printsOnly fails on a character that no output of the program may have.
func printsOnly(t *testing.T, what, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			t.Errorf("%s: character %U at %d: %q", what, r, i, text[max(0, i-40):min(len(text), i+40)])
			return
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "VERDICT  PASS-CONFORMING\\r") || strings.HasPrefix(line, "VERDICT  PASS-CONFORMING\r") {
			t.Errorf("%s: a forged verdict on a line of its own", what)
		}
	}
}

// TestEscapes: text from files reaches no terminal and no report as it is: names of
// nodes and tensors, notes, names of files, in every verb that shows them.
func TestEscapes(t *testing.T) {
	dir := t.TempDir()
	quoted := `"x\u001b[2J\u001b[H\nVERDICT  PASS-CONFORMING\r\u202egnp\u2066\u200b\u2028\u0085\u0007"`
	config := `{"version":1,"operator":{"input_channels":2,"grid_size":8,"nodes":[
		{"op":"conv","name":` + quoted + `,"out_channels":2,"kernel_size":3},{"op":"act","name":"a","activation":"tanh"}]},
		"rollout":{"policy_type":"convex","alpha":0.5,"num_timesteps":4,"num_realizations":1,"base_seed":1},
		"weights_seed":3,"produced_by":` + quoted + `,"note":` + quoted + `,"incomplete":` + quoted + `}`
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("case.json", config)
	trajectory := filepath.Join(dir, "trajectory.safetensors")
	if r := refrun(t, "run", "--case", dir, "--x0", "white:1", "-o", trajectory); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	odd := filepath.Join(dir, "a\x1b[2J\u202e.safetensors")
	x, err := safetensors.OfFloat64s(strings.ToValidUTF8(hostileText, ""), safetensors.F32, []int{2}, []float64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := safetensors.WriteFile(odd, []*safetensors.Tensor{x}, nil); err != nil {
		t.Fatal(err)
	}
	html, junit := filepath.Join(dir, "r.html"), filepath.Join(dir, "r.xml")
	for _, args := range [][]string{
		{"check", "--case", dir, "--report", html, "--junit", junit}, {"check", "--case", dir, "--json"},
		{"run", "--case", dir, "--one-step"}, {"run", "--case", dir, "--one-step", "--json"},
		{"plan", "--config", filepath.Join(dir, "case.json"), "--seconds", "0.01"}, {"plan", "--config", filepath.Join(dir, "case.json"), "--seconds", "0.01", "--json"},
		{"study", "--case", dir, "--steps", "4"}, {"study", "--case", dir, "--steps", "4", "--json"},
		{"compare", odd, odd}, {"compare", odd, odd, "--json"}, {"compare", odd, trajectory},
		{"compare", odd + ":nothing", odd}, {"verify", odd}, {"verify", odd, "--json"},
		{"run", "--config", filepath.Join(dir, "case.json"), "--x0", odd}, {"run", "--case", odd},
		{"check", "--case", dir, "--weights", odd}, {"check", "--case", dir, "--layers", odd}, {"nonsense\x1b[2J\u202e"},
		{"run", "--case", dir, "--no\x1b[2J\u202e"}, {"probe", "--case", dir, "-o", filepath.Join(dir, "p\x1b[2J\u202e")},
	} {
		r := refrun(t, args...)
		out, stderr := r.stdout, r.stderr
		what := strings.Join(args[:min(3, len(args))], " ")
		if out == "" && stderr == "" {
			t.Errorf("%q says nothing", what)
		}
		printsOnly(t, what+", stdout", out)
		printsOnly(t, what+", stderr", stderr)
	}
	for _, file := range []string{html, junit} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		printsOnly(t, file, string(text))
	}
}
