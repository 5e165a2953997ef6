package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestForCI: verbs that judge write their verdict as JUnit and as SARIF, with the outcome that the exit code says.
func TestForCI(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	out := t.TempDir()
	right, wrong := filepath.Join(dir, "trajectory.safetensors"), filepath.Join(out, "wrong.safetensors")
	b, err := os.ReadFile(right)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) / 2; i < len(b); i++ {
		b[i] ^= 1
	}
	if err := os.WriteFile(wrong, b, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		args        []string
		code        int
		kind, level string
	}{
		{[]string{"compare", right, right, "--max-ulp", "0"}, cli.ExitOK, "pass", "none"},
		{[]string{"compare", wrong, right, "--max-ulp", "0"}, cli.ExitFailed, "fail", "error"},
		{[]string{"verify", right}, cli.ExitNoPower, "open", "none"},
		{[]string{"check", "--case", dir}, cli.ExitOK, "pass", "none"},
	} {
		junit, sarif := filepath.Join(out, "r.xml"), filepath.Join(out, "r.sarif")
		args := append(k.args, "--junit", junit, "--sarif", sarif)
		r := refrun(t, args...)
		if r.Code != k.code {
			t.Errorf("%v: exit code %d, want %d: %s", args, r.Code, k.code, r.Stderr)
			continue
		}
		var log struct {
			Runs []struct {
				Results []struct {
					RuleID, Kind, Level string
					Message             struct{ Text string }
				}
			}
		}
		b, err := os.ReadFile(sarif)
		if err == nil {
			err = json.Unmarshal(b, &log)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := log.Runs[0].Results[0]
		said := s.Message.Text
		if s.Kind != k.kind || s.Level != k.level || !strings.Contains(unbroken(r.Stdout), unbroken(said)) || said == "" {
			t.Errorf("%v: %s", args, b)
		}
		x, err := os.ReadFile(junit)
		if failed := strings.Contains(string(x), "<failure"); err != nil || failed != (k.code == cli.ExitFailed) {
			t.Errorf("%v: %v, %s", args, err, x)
		}
	}
	path := filepath.Join(out, "x")
	for _, args := range [][]string{
		{"verify", right, "--sarif", path, "--junit", path}, {"verify", right, "--sarif", right},
		{"compare", right, right, "--junit", out},
	} {
		if r := refrun(t, args...); r.Code != cli.ExitUsage {
			t.Errorf("%v: exit code %d, %s", args, r.Code, r.Stderr)
		}
	}
}

// unbroken is a text without its line breaks, which depend on where it is printed.
func unbroken(text string) string { return strings.Join(strings.Fields(text), "") }
