package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
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
	if r := refrun(t, "run", "--case", dir, "--x0", "white:1", "-o", trajectory); r.Code != cli.ExitOK {
		t.Fatal(r.Stderr)
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
		{"plan", "--config", filepath.Join(dir, "case.json"), "--seconds", "0.01"},
		{"plan", "--config", filepath.Join(dir, "case.json"), "--seconds", "0.01", "--json"},
		{"study", "--case", dir, "--steps", "4"}, {"study", "--case", dir, "--steps", "4", "--json"},
		{"compare", odd, odd}, {"compare", odd, odd, "--json"}, {"compare", odd, trajectory},
		{"compare", odd + ":nothing", odd}, {"verify", odd}, {"verify", odd, "--json"},
		{"run", "--config", filepath.Join(dir, "case.json"), "--x0", odd}, {"run", "--case", odd},
		{"check", "--case", dir, "--weights", odd}, {"check", "--case", dir, "--layers", odd}, {"nonsense\x1b[2J\u202e"},
		{"run", "--case", dir, "--no\x1b[2J\u202e"}, {"probe", "--case", dir, "-o", filepath.Join(dir, "p\x1b[2J\u202e")},
	} {
		r := refrun(t, args...)
		out, stderr := r.Stdout, r.Stderr
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

// TestEscapesOfDatasets: the name of a specification, which may be anything, is text wherever it
// is shown: it makes no tag, link or table in README.md, no element of a picture, and nothing on a
// terminal.
func TestEscapesOfDatasets(t *testing.T) {
	t.Chdir(t.TempDir())
	names := []string{
		"</text></svg><script>alert(1)</script>", "--><img src=x onerror=alert(1)>",
		"[here](javascript:alert(1)) ![x](http://x/y.png)", "a | b | c", "```\n<b>", "<!-- ", "&lt;b&gt; &#60;",
		"*x* _y_ ~~z~~ `c`", "x\x1b[2J\x1b[H\x07", "\u202egnp.exe\u2066", "x\u200b\u2028\u0085y", "x\r\n# forged",
		"\\[x\\](y)", "]]>&'\"",
	}
	for i, name := range names {
		dir := fmt.Sprint("set", i)
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(fmt.Sprintf(faultSet, `{}`), "{", `{"name": `+string(quoted)+`,`, 1)
		if err := os.WriteFile("spec.json", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{"plan spec.json --rate 10 -o ", "run ", "status ", "info ", "verify ",
			"merge -o " + dir + ".h5 ", "sample --rows 2 --times 2 -o " + dir + ".svg "} {
			r := refrun(t, append([]string{"dataset"}, strings.Fields(args+dir)...)...)
			if r.Code != cli.ExitOK {
				t.Fatalf("%q: %s: %s", name, args, r.Stderr)
			}
			printsOnly(t, args, r.Stdout+r.Stderr)
		}
		picture, err := os.ReadFile(dir + ".svg")
		if err != nil {
			t.Fatal(err)
		}
		printsOnly(t, "the picture", string(picture))
		elements := map[string]int{}
		for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			if e, ok := token.(xml.StartElement); ok {
				elements[e.Name.Local]++
			}
		}
		if elements["svg"] != 1 || elements["script"]+elements["img"]+elements["b"] > 0 || elements["image"] != 4 {
			t.Errorf("%q: elements %v", name, elements)
		}
		card, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		printsOnly(t, "the card", string(card))
		prose, _, _ := strings.Cut(string(card), "## Specification")
		for _, markup := range []string{"<script", "<img", "<b>", "-->\n<", "](", "`c`", "*x*", "~~z", " _y_", "a | b",
			"\n# forged", "&lt;b&gt; &#60;"} {
			if _, after, _ := strings.Cut(prose, "-->\n"); strings.Contains(strings.ReplaceAll(after, `\](`, ""), markup) {
				t.Errorf("%q: %q in the card", name, markup)
			}
		}
	}
}
