package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestProbe writes probes, lets refrun itself be the device that runs them, and
// checks its answers.
func TestProbe(t *testing.T) {
	t.Parallel()
	dir, out := newFolder(t).write(), filepath.Join(t.TempDir(), "probes")
	r := refrun(t, "probe", "--case", dir, "-o", out, "--json")
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("exit code %d, stderr %q", r.code, r.stderr)
	}
	files := r.decode(t)["files"].([]any)
	folders := map[string]bool{}
	for _, f := range files {
		folders[filepath.Dir(f.(string))] = true
	}
	if len(files) < 6 || !folders[filepath.Join(out, "integers")] || !folders[filepath.Join(out, "ladders")] {
		t.Fatalf("files %v: want cases in integers and ladders", files)
	}
	for folder := range folders {
		answer := filepath.Join(folder, "trajectory.safetensors")
		if r := refrun(t, "run", "--case", folder, "-o", answer, "--force", "--allow-nonfinite", "--quiet"); r.code != 0 {
			t.Fatalf("%s: run: exit code %d, stderr %q", folder, r.code, r.stderr)
		}
		if r := refrun(t, "check", "--case", folder); r.code != 0 {
			t.Errorf("%s: exit code %d, %s\n%s", folder, r.code, r.stderr, r.stdout)
		}
	}

	refrun(t, "probe", "--case", dir, "-o", out).refused(t, "probe",
		"-o: "+out+": holds 2 files: want a folder that is new or empty")
	refrun(t, "probe", "-o", out).refused(t, "probe", "--case: want the folder of a case")
	refrun(t, "probe", "--case", dir).refused(t, "probe", "-o: want the folder to write the probes to")
	refrun(t, "probe", "--case", dir, "-o", dir+"/case.json").refused(t, "probe",
		"-o: "+dir+"/case.json: not a directory: want a folder that is new or empty")
	if r := refrun(t, "probe", "--case", dir, "-o", out+"2"); r.code != 0 || !strings.Contains(r.stdout,
		"integers/case.json\n") || !strings.Contains(r.stdout, "refrun check --case FOLDER") {
		t.Errorf("exit code %d, text\n%s", r.code, r.stdout)
	}
}
