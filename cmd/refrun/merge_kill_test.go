package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestMergeKills: a merge or an export that is killed while it writes leaves nothing of the size of its file behind
// once it is called again, and that makes what one makes that nobody disturbs.
func TestMergeKills(t *testing.T) {
	clitest.DatasetFile(t, 4, 30)
	ok(t, "dataset", "plan", "spec.yaml", "-o", "set", "--rate", "10")
	ok(t, "dataset", "run", "set")
	for _, c := range []struct{ verb, out, file string }{
		{"merge", "all.safetensors", "all.safetensors"}, {"merge", "all.h5", "all.h5"},
		{"export", "out", "out/00000003.safetensors"},
	} {
		args := []string{"dataset", c.verb, "set", "-o", c.out, "--force"}
		if c.verb == "export" {
			args = append(args, "--format", "safetensors")
		}
		ok(t, args...)
		want, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if len(left(t, c.out)) != 0 {
			t.Fatalf("%s: undisturbed: left %v", c.verb, left(t, c.out))
		}
		killed := 0
		for range 40 { // it may end before it is killed
			p := asCommand(t, append(args, "--quiet")...)
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			for began := time.Now(); len(left(t, c.out)) == 0 && time.Since(began) < time.Second; {
				time.Sleep(50 * time.Microsecond)
			}
			p.Process.Kill()
			p.Wait()
			if len(left(t, c.out)) == 0 {
				continue
			}
			killed++
			ok(t, args...)
			if got, err := os.ReadFile(c.file); err != nil || string(got) != string(want) || len(left(t, c.out)) != 0 {
				t.Errorf("%s to %s: %v, or other bytes; left %v", c.verb, c.out, err, left(t, c.out))
			}
			if killed == 1 {
				break
			}
		}
		if killed == 0 {
			t.Errorf("%s to %s: never killed in time", c.verb, c.out)
		}
	}
}

// left are the unfinished files beside one, or in a folder.
func left(t *testing.T, path string) []string {
	t.Helper()
	beside, _ := filepath.Glob(path + "*.tmp")
	within, _ := filepath.Glob(filepath.Join(path, "*.tmp"))
	return append(beside, within...)
}
