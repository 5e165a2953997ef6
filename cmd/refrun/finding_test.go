package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestFindings: every finding has an ID and a line for a shell that shows it again, alone; an
// ID that no finding has is refused.
func TestFindings(t *testing.T) {
	f := clitest.NewFolder(t)
	v, err := f.Tensor("trajectory", "trajectory").Float64s()
	if err != nil {
		t.Fatal(err)
	}
	for i := range v[2400:2600] { // in states 2 and 0 of the realizations
		v[2400+i] = -v[2400+i]
	}
	kind, format := f.Tensor("trajectory", "trajectory").DType, []int{2, 3, 3, 20, 20}
	f.Put("trajectory", clitest.Floats(t, "trajectory", kind, format, v...))
	dir := f.Write()
	done := refrun(t, "check", "--case", dir, "--noise", "unknown", "--json")
	var r struct {
		Findings []struct{ ID, Command, Text string }
	}
	if err := json.Unmarshal([]byte(done.Stdout), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Findings) == 0 {
		t.Fatalf("no findings:\n%s", done.Stdout)
	}
	for _, x := range r.Findings {
		words := strings.Fields(x.Command)
		if x.ID == "" || len(words) < 3 || words[0] != "refrun" {
			t.Fatalf("finding %+v: want an id and a command", x)
		}
		if again := refrun(t, words[1:]...); again.Code != done.Code ||
			!strings.Contains(clitest.Unfolded(again.Stdout), clitest.Unfolded(x.Text)) {
			t.Errorf("%s: code %d:\n%s\nwant code %d and %q", x.Command, again.Code, again.Stdout, done.Code, x.Text)
		}
	}
	if none := refrun(t, "check", "--case", dir, "--noise", "unknown", "--finding", "no.such"); none.Code != 2 ||
		!strings.Contains(none.Stderr, `--finding: "no.such": the check finds no such`) {
		t.Errorf("an ID that no finding has: code %d, %s", none.Code, none.Stderr)
	}
}

// TestOnlyProved: with --only proved a fault that is known by odds is told and fails no build; NaNs do, since no right
// device returns them there.
func TestOnlyProved(t *testing.T) {
	f := clitest.NewFolder(t)
	v, err := f.Tensor("trajectory", "trajectory").Float64s()
	if err != nil {
		t.Fatal(err)
	}
	kind, shape := f.Tensor("trajectory", "trajectory").DType, []int{2, 3, 3, 20, 20}
	checked := func(v []float64, flags ...string) clitest.Result {
		f.Put("trajectory", clitest.Floats(t, "trajectory", kind, shape, v...))
		return refrun(t, append([]string{"check", "--case", f.Write(), "--json"}, flags...)...)
	}
	off, none := slices.Clone(v), slices.Clone(v)
	for i := range 200 {
		off[2400+i] = -v[2400+i]
		none[2400+i] = math.NaN()
	}
	for _, c := range []struct {
		name  string
		of    []float64
		flags []string
		code  int
		known string
	}{
		{"odds", off, nil, cli.ExitFailed, "odds"},
		{"odds, only proved", off, []string{"--only", "proved"}, cli.ExitOK, "odds"},
		{"proved", none, nil, cli.ExitFailed, "proved"},
		{"proved, only proved", none, []string{"--only", "proved"}, cli.ExitFailed, "proved"},
	} {
		got := checked(c.of, c.flags...)
		var r struct {
			Verdict  string
			Findings []struct{ Known string }
		}
		if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil {
			t.Fatal(err)
		}
		if got.Code != c.code || !strings.HasPrefix(r.Verdict, "FAIL") || len(r.Findings) == 0 ||
			r.Findings[0].Known != c.known {
			t.Errorf("%s: code %d, %+v", c.name, got.Code, r)
		}
	}
	if got := refrun(t, "check", "--case", f.Write(), "--only", "odds"); got.Code != cli.ExitUsage ||
		!strings.Contains(got.Stderr, `--only: "odds": want proved`) {
		t.Errorf("--only odds: code %d, %s", got.Code, got.Stderr)
	}
}
