package clitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
)

// Result is what a call of the command leaves.
type Result struct {
	Code           int
	Stdout, Stderr string
}

var allThreads = runtime.GOMAXPROCS(0)

// Run runs a program of these verbs in this process.
func Run(t *testing.T, verbs []cli.Verb, args ...string) Result {
	t.Helper()
	defer runtime.GOMAXPROCS(allThreads) // --threads sets it
	var stdout, stderr bytes.Buffer
	code := cli.Main(verbs, args, &stdout, &stderr)
	r := Result{code, stdout.String(), stderr.String()}
	if !slices.Contains([]string{"serve", "man", "completion"}, strings.Join(args[:min(1, len(args))], "")) &&
		!slices.Contains(args, "--json") {
		inColumns(t, r.Stdout)
	}
	return r
}

// inColumns: no line for a person is wider than a terminal, but for a word that is itself.
func inColumns(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > cli.LineWidth && len(strings.Fields(line)) > 1 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// Unfolded is a text whose lines do not matter.
func Unfolded(text string) string { return strings.Join(strings.Fields(text), " ") }

// Refused checks that a call did nothing but say in one line why not: exit
// code 2, empty stdout, and "refrun VERB: <want>" on stderr. want may hold
// "..." once, for anything.
func (r Result) Refused(t *testing.T, verb, want string) {
	t.Helper()
	if r.Code != 2 {
		t.Errorf("exit code %d, want 2", r.Code)
	}
	if r.Stdout != "" {
		t.Errorf("stdout is not empty: %.200q", r.Stdout)
	}
	line, ok := strings.CutSuffix(r.Stderr, "\n")
	if !ok || strings.ContainsFunc(line, func(c rune) bool { return !strconv.IsPrint(c) || c == utf8.RuneError }) {
		t.Errorf("stderr is not one clean line: %.400q", r.Stderr)
	}
	if strings.Contains(line, "internal error") {
		t.Errorf("a bug instead of an answer: %s", line)
	}
	want = "refrun " + verb + ": " + want
	head, tail, open := strings.Cut(want, "...")
	if !open {
		want = cli.Shorten(want)
	}
	if len(line) > cli.MostLine {
		t.Errorf("%d characters on stderr: %s", len(line), line)
	}
	if open && (!strings.HasPrefix(line, head) || !strings.HasSuffix(line, tail) || len(line) < len(head)+len(tail)) ||
		!open && line != want {
		t.Errorf("stderr\n  %s\nwant\n  %s", line, want)
	}
}

// Decode reads stdout as exactly one JSON object.
func (r Result) Decode(t *testing.T) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(r.Stdout))
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("stdout is not a JSON object: %v (stderr %q)", err, r.Stderr)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("stdout holds more than one JSON object: %v", err)
	}
	return v
}

// Has checks that a JSON object holds the keys of want, with values of the
// same types; objects and the first elements of lists recursively.
func Has(t *testing.T, where string, got, want any) {
	t.Helper()
	if fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
		t.Errorf("%s is %T %v, want %T", where, got, got, want)
		return
	}
	switch w := want.(type) {
	case map[string]any:
		g := got.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(w)) {
			if _, ok := g[key]; !ok {
				t.Errorf("%s.%s is missing", where, key)
				continue
			}
			Has(t, where+"."+key, g[key], w[key])
		}
	case []any:
		g := got.([]any)
		if len(w) == 0 {
			return
		}
		if len(g) == 0 {
			t.Errorf("%s is empty", where)
			return
		}
		Has(t, where+"[0]", g[0], w[0])
	case string:
		if got == "" {
			t.Errorf("%s is empty", where)
		}
	}
}
