package about

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/graph"
)

// TestVersionReport: everything that a build knows of itself is told.
func TestVersionReport(t *testing.T) {
	info := &debug.BuildInfo{
		Main: debug.Module{Path: "example.org/main", Version: "v1.2.3"},
		Deps: []*debug.Module{{Path: "example.org/dep", Version: "v0.1.0", Sum: "h1:abc="},
			{Path: "example.org/fork", Version: "v0.2.0", Replace: &debug.Module{Path: "../fork"}}},
		Settings: []debug.BuildSetting{
			{Key: "-trimpath", Value: "true"},
			{Key: "-tags", Value: "purego"},
			{Key: "GOAMD64", Value: "v3"},
			{Key: "vcs", Value: "git"},
			{Key: "vcs.revision", Value: "0123456789abcdef"},
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: "false"},
		},
	}
	got := newVersionReport(info)
	want := versionReport{
		Version: cli.Version, Contract: graph.Contract, Go: runtime.Version(), OS: runtime.GOOS,
		Arch: runtime.GOARCH, Level: "v3",
		VCS: &vcsReport{"0123456789abcdef", "2026-01-02T03:04:05Z", false},
		Settings: map[string]string{"-trimpath": "true", "-tags": "purego", "GOAMD64": "v3",
			"vcs": "git", "vcs.revision": "0123456789abcdef", "vcs.time": "2026-01-02T03:04:05Z", "vcs.modified": "false"},
		Main: moduleReport{Path: "example.org/main", Version: "v1.2.3"},
		Modules: []moduleReport{{Path: "example.org/dep", Version: "v0.1.0", Sum: "h1:abc="},
			{Path: "example.org/fork", Version: "v0.2.0", Replace: &moduleReport{Path: "../fork"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if s := got.String(); s != "refrun "+cli.Version+" (0123456789ab)" {
		t.Errorf("%q", s)
	}
	info.Settings[6].Value = "true"
	if s := newVersionReport(info).String(); s != "refrun "+cli.Version+" (0123456789ab, modified)" {
		t.Errorf("%q", s)
	}
	empty := newVersionReport(new(debug.BuildInfo))
	if empty.VCS != nil || empty.String() != "refrun "+cli.Version {
		t.Errorf("without data: %+v, %s", empty.VCS, empty)
	}
}

// TestVersionJSON: the modules and hashes of a real build are those that go version -m
// reads from the program.
func TestVersionJSON(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "refrun")
	if out, err := exec.Command("go", "build", "-tags", "example", "-o", program,
		"github.com/refrun/refrun/cmd/refrun").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(program, "version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var r versionReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	read, err := exec.Command("go", "version", "-m", "-json", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var info debug.BuildInfo
	if err := json.Unmarshal(read, &info); err != nil {
		t.Fatal(err)
	}
	if want := newVersionReport(&info); !reflect.DeepEqual(r, want) {
		t.Errorf("%+v, want %+v", r, want)
	}
	if r.Settings["-tags"] != "example" || len(r.Modules) == 0 {
		t.Errorf("settings %v, %d modules", r.Settings, len(r.Modules))
	}
	for _, m := range r.Modules {
		if m.Path == "" || m.Version == "" || m.Sum == "" {
			t.Errorf("module %+v", m)
		}
	}
}
