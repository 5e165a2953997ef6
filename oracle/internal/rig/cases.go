package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
)

// AutocastCases calls f for every case of testdata/autocast with its name,
// SET/NAME, and the mode that PyTorch ran it in.
func AutocastCases(t *testing.T, f func(t *testing.T, name string, c *rollout.Case, m graph.Mode)) {
	dirs, err := filepath.Glob(Testdata("autocast", "*", "rollouts", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, dir := range dirs {
		set := filepath.Base(filepath.Dir(filepath.Dir(dir)))
		name := set + "/" + filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := rollout.OpenCase(dir)
			if err != nil {
				t.Fatal(err)
			}
			autocast := "cpu"
			if strings.HasPrefix(set, "1.13-") {
				autocast = "cpu:1.13"
			}
			m, err := graph.ParseMode(c.Rollout.Precision, autocast)
			if err != nil {
				t.Fatal(err)
			}
			f(t, name, c, m)
		})
	}
}

func OpenCase(t *testing.T, name string) *rollout.Case {
	t.Helper()
	c, err := rollout.OpenCase(Testdata("rollouts", name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Testdata returns the path of a file of the module's test data.
func Testdata(parts ...string) string {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return filepath.Join(append([]string{dir, "testdata"}, parts...)...)
}
