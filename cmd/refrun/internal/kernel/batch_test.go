package kernel

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// softmaxOf is a file with a softmax of four numbers, as a kernel returned it.
func softmaxOf(t testing.TB, output ...float64) string {
	shapes := map[string][]int{"input": {1, 4}, "output": {1, 4}}
	return clitest.KernelFile(t, map[string][]float64{"input": {0, 1, 2, 3}, "output": output}, shapes)
}

// softmaxed is the right output.
var softmaxed = []float64{0.032058604061603546, 0.08714432269334793, 0.23688282072544098, 0.6439142227172852}

// TestKernelBatch: a batch answers each question as `refrun kernel --json` does alone, and says of those that it cannot
// answer why; its exit code is that of the worst.
func TestKernelBatch(t *testing.T) {
	right := softmaxOf(t, softmaxed...)
	wrong := softmaxOf(t, 0.5, 0.25, 0.125, 0.125)
	one := map[string][]int{"input": {2, 1}, "output": {2, 1}}
	nothing := clitest.KernelFile(t, map[string][]float64{"input": {1, 1}, "output": {1, 1}}, one)
	line := func(args ...string) string {
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	defer func() { cli.Stdin = os.Stdin }()
	for i, c := range []struct {
		lines []string
		code  int
		exits []int
	}{
		{[]string{line(right), line(right, "--variance", "one_pass")}, cli.ExitOK, []int{0, 0}},
		{[]string{line(right), line(nothing)}, cli.ExitNoPower, []int{0, 3}},
		{[]string{line(nothing), line(wrong), line(right)}, cli.ExitFailed, []int{3, 1, 0}},
		{[]string{line(wrong), line("no such file"), `{"op": 1}`, line(right, "--batch"), line("--help"), line(right)},
			cli.ExitUsage, []int{1, 2, 2, 2, 2, 0}},
	} {
		path, questions := filepath.Join(t.TempDir(), "batch.jsonl"), strings.Join(c.lines, "\n")
		if err := os.WriteFile(path, []byte(questions), 0o666); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			path, cli.Stdin = "-", strings.NewReader(questions)
		}
		r := refrun(t, "kernel", "--batch", path, "--json", "--op", "softmax", "--attr", "dim=-1")
		answers := strings.Split(strings.TrimSpace(r.Stdout), "\n")
		if len(answers) != len(c.lines) {
			t.Fatalf("%d answers to %d questions: %s%s", len(answers), len(c.lines), r.Stderr, r.Stdout)
		}
		for k, text := range answers {
			var a answer
			err := json.Unmarshal([]byte(text), &a)
			if err != nil || a.Exit != c.exits[k] || (a.Error == "") == (a.Exit == cli.ExitUsage) {
				t.Errorf("%s: %s (%v): want exit code %d", c.lines[k], text, err, c.exits[k])
			}
			if a.Exit == cli.ExitUsage {
				continue
			}
			var args []string
			if err := json.Unmarshal([]byte(c.lines[k]), &args); err != nil {
				t.Fatal(err)
			}
			args = append([]string{"kernel", "--op", "softmax", "--attr", "dim=-1", "--json"}, args...)
			var is any
			if err := json.Unmarshal(a.Report, &is); err != nil {
				t.Fatal(err)
			}
			if want := refrun(t, args...).Decode(t); !reflect.DeepEqual(is, any(want)) {
				t.Errorf("%s: %s\nalone %v", c.lines[k], a.Report, want)
			}
		}
		if r.Code != c.code {
			t.Errorf("%q: exit code %d: want %d", c.lines, r.Code, c.code)
		}
	}
}

// BenchmarkKernelBatch is a batch of 100 questions: a process has no more to do for one than to read, judge and print
// it.
func BenchmarkKernelBatch(b *testing.B) {
	question := `["` + filepath.ToSlash(softmaxOf(b, softmaxed...)) + `"]` + "\n"
	defer func() { cli.Stdin = os.Stdin }()
	for b.Loop() {
		cli.Stdin = strings.NewReader(strings.Repeat(question, 100))
		args := []string{"kernel", "--batch", "-", "--op", "softmax", "--attr", "dim=-1"}
		if code := cli.Main([]cli.Verb{Verb}, args, io.Discard, io.Discard); code != cli.ExitOK {
			b.Fatal("exit code ", code)
		}
	}
}
