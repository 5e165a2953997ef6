package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestProbe writes probes, lets refrun itself be the device that runs them, and
// checks its answers.
func TestProbe(t *testing.T) {
	t.Parallel()
	dir, out := clitest.NewFolder(t).Write(), filepath.Join(t.TempDir(), "probes")
	r := refrun(t, "probe", "--case", dir, "-o", out, "--json")
	if r.Code != 0 || r.Stderr != "" {
		t.Fatalf("exit code %d, stderr %q", r.Code, r.Stderr)
	}
	files := r.Decode(t)["files"].([]any)
	folders := map[string]bool{}
	for _, f := range files {
		folders[filepath.Dir(f.(string))] = true
	}
	if len(files) < 6 || !folders[filepath.Join(out, "integers")] || !folders[filepath.Join(out, "ladders")] {
		t.Fatalf("files %v: want cases in integers and ladders", files)
	}
	for folder := range folders {
		answer := filepath.Join(folder, "trajectory.safetensors")
		if r := refrun(t, "run", "--case", folder, "-o", answer, "--force", "--allow-nonfinite", "--quiet"); r.Code != 0 {
			t.Fatalf("%s: run: exit code %d, stderr %q", folder, r.Code, r.Stderr)
		}
		if r := refrun(t, "check", "--case", folder); r.Code != 0 {
			t.Errorf("%s: exit code %d, %s\n%s", folder, r.Code, r.Stderr, r.Stdout)
		}
	}

	refrun(t, "probe", "--case", dir, "-o", out).Refused(t, "probe",
		"-o: "+out+": holds 2 files: want a folder that is new or empty")
	refrun(t, "probe", "-o", out).Refused(t, "probe", "--case: want the folder of a case")
	refrun(t, "probe", "--case", dir).Refused(t, "probe", "-o: want the folder to write the probes to")
	refrun(t, "probe", "--case", dir, "-o", dir+"/case.json").Refused(t, "probe",
		"-o: "+dir+"/case.json: not a directory: want a folder that is new or empty")
	if r := refrun(t, "probe", "--case", dir, "-o", out+"2"); r.Code != 0 || !strings.Contains(r.Stdout,
		"integers/case.json\n") || !strings.Contains(r.Stdout, "refrun check --case FOLDER") {
		t.Errorf("exit code %d, text\n%s", r.Code, r.Stdout)
	}
}
