package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestFindings: every finding has an ID and a line for a shell that shows it again, alone; an
// ID that no finding has is refused.
func TestFindings(t *testing.T) {
	f := newFolder(t)
	v, err := f.tensor("trajectory", "trajectory").Float64s()
	if err != nil {
		t.Fatal(err)
	}
	for i := range v[2400:2600] { // in states 2 and 0 of the realizations
		v[2400+i] = -v[2400+i]
	}
	kind, format := f.tensor("trajectory", "trajectory").DType, []int{2, 3, 3, 20, 20}
	f.put("trajectory", floats(t, "trajectory", kind, format, v...))
	dir := f.write()
	done := refrun(t, "check", "--case", dir, "--noise", "unknown", "--json")
	var r struct {
		Findings []struct{ ID, Command, Text string }
	}
	if err := json.Unmarshal([]byte(done.stdout), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Findings) == 0 {
		t.Fatalf("no findings:\n%s", done.stdout)
	}
	for _, x := range r.Findings {
		words := strings.Fields(x.Command)
		if x.ID == "" || len(words) < 3 || words[0] != "refrun" {
			t.Fatalf("finding %+v: want an id and a command", x)
		}
		if again := refrun(t, words[1:]...); again.code != done.code ||
			!strings.Contains(unfolded(again.stdout), unfolded(x.Text)) {
			t.Errorf("%s: code %d:\n%s\nwant code %d and %q", x.Command, again.code, again.stdout, done.code, x.Text)
		}
	}
	if none := refrun(t, "check", "--case", dir, "--noise", "unknown", "--finding", "no.such"); none.code != 2 ||
		!strings.Contains(none.stderr, `--finding: "no.such": the check finds no such`) {
		t.Errorf("an ID that no finding has: code %d, %s", none.code, none.stderr)
	}
}

// TestAgain: the line for a shell has the words of the flags as a shell takes them.
func TestAgain(t *testing.T) {
	w := checkFlags{dir: "it's a case", noise: "torch-cuda:108", budget: usualBudget}
	if got, want := w.again("norm.eps:0.0001"),
		`refrun check --case 'it'\''s a case' --noise torch-cuda:108 --finding norm.eps:0.0001`; got != want {
		t.Errorf("command %s: want %s", got, want)
	}
}

// TestOnlyProved: with --only proved a fault that is known by odds is told and fails no build; NaNs do, since no right
// device returns them there.
func TestOnlyProved(t *testing.T) {
	f := newFolder(t)
	v, err := f.tensor("trajectory", "trajectory").Float64s()
	if err != nil {
		t.Fatal(err)
	}
	kind, shape := f.tensor("trajectory", "trajectory").DType, []int{2, 3, 3, 20, 20}
	checked := func(v []float64, flags ...string) result {
		f.put("trajectory", floats(t, "trajectory", kind, shape, v...))
		return refrun(t, append([]string{"check", "--case", f.write(), "--json"}, flags...)...)
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
		{"odds", off, nil, exitFailed, "odds"},
		{"odds, only proved", off, []string{"--only", "proved"}, exitOK, "odds"},
		{"proved", none, nil, exitFailed, "proved"},
		{"proved, only proved", none, []string{"--only", "proved"}, exitFailed, "proved"},
	} {
		got := checked(c.of, c.flags...)
		var r struct {
			Verdict  string
			Findings []struct{ Known string }
		}
		if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
			t.Fatal(err)
		}
		if got.code != c.code || !strings.HasPrefix(r.Verdict, "FAIL") || len(r.Findings) == 0 ||
			r.Findings[0].Known != c.known {
			t.Errorf("%s: code %d, %+v", c.name, got.code, r)
		}
	}
	if got := refrun(t, "check", "--case", f.write(), "--only", "odds"); got.code != exitUsage ||
		!strings.Contains(got.stderr, `--only: "odds": want proved`) {
		t.Errorf("--only odds: code %d, %s", got.code, got.stderr)
	}
}
