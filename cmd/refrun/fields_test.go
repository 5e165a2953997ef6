package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestFieldTables: the errors by step and channel are written as a table, of compare and of
// single steps, and never in the place of what is read or where there is nothing to list.
func TestFieldTables(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	a := clitest.Save(t, "a.safetensors", clitest.Floats(t, "x", "F32", []int{1, 2, 2, 1, 2}, 1, 3, 0, 4, 1, 3, 6, -6))
	b := clitest.Save(t, "b.safetensors", clitest.Floats(t, "x", "F32", []int{1, 2, 2, 1, 2}, 1, 3, 0, 4, 1, 3, 4, -4))
	flat := clitest.Row1(t, "F32", 1, 2)
	table := filepath.Join(t.TempDir(), "t.csv")
	const head = "step,channel,max_abs,mean_abs,rel_l2,vrmse\n"
	for _, k := range []struct {
		args []string
		want string
	}{
		{[]string{"compare", a, b}, head + "0,0,0,0,0,0\n0,1,0,0,0,0\n1,0,0,0,0,0\n1,1,2,2,0.5,0.5\n"},
		{[]string{"compare", flat, flat}, head},
	} {
		if r := refrun(t, append(k.args, "--csv", table)...); r.Code != 0 || r.Stderr != "" {
			t.Errorf("%v: exit code %d, %s", k.args, r.Code, r.Stderr)
		}
		if is, err := os.ReadFile(table); err != nil || string(is) != k.want {
			t.Errorf("%v: %q, %v, want %q", k.args, is, err, k.want)
		}
	}
	for _, args := range [][]string{{"run", "--one-step", "--case", dir}, {"check", "--case", dir}} {
		if r := refrun(t, append(args, "--csv", table)...); r.Code == 2 || r.Stderr != "" {
			t.Errorf("%v: exit code %d, %s", args, r.Code, r.Stderr)
		}
		if is, err := os.ReadFile(table); err != nil || !strings.HasPrefix(string(is), head+"1,0,") {
			t.Errorf("%v: %.80q, %v", args, is, err)
		}
		if err := os.Remove(table); err != nil {
			t.Error(err)
		}
	}
	for _, k := range []struct {
		want string
		args []string
	}{
		{"is " + b + ", which is read: want another name", []string{"compare", a, b, "--csv", b}},
		{"is a directory", []string{"compare", a, b, "--csv", dir}},
		{"case.json, which is read: want another name",
			[]string{"run", "--one-step", "--case", dir, "--csv", filepath.Join(dir, "case.json")}},
		{"case.json, which is read: want another name",
			[]string{"check", "--case", dir, "--csv", filepath.Join(dir, "case.json")}},
		{"want a file of its own", []string{"check", "--case", dir, "--csv", table, "--report", table}},
		{"--csv: want --one-step as well", []string{"run", "--case", dir, "--csv", table}},
	} {
		if r := refrun(t, k.args...); r.Code != 2 || !strings.Contains(r.Stderr, k.want) ||
			strings.Count(r.Stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, %q, want 2 and %q", k.args, r.Code, r.Stderr, k.want)
		}
	}
}
