package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/safetensors"
)

// TestLinksAreNotFollowed puts a link in the place of each file that a call writes, or that it
// writes on the way: what the link leads to stays as it was, whether the call replaces the link
// or refuses it, and whatever it holds.
func TestLinksAreNotFollowed(t *testing.T) {
	root := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	t.Chdir(root)
	done := func(args ...string) {
		t.Helper()
		if r := refrun(t, append(args, "--quiet")...); r.Code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, r.Code, r.Stderr)
		}
	}
	for name, text := range map[string]string{"op.json": faultCase, "spec.json": fmt.Sprintf(faultSet, `{}`),
		"measured.json": fmt.Sprintf(faultSet, `{"states":false,"file":".h5"}`), "case/case.json": faultCase} {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var x []*safetensors.Tensor
	for _, name := range []string{"input", "output"} {
		v, err := safetensors.OfFloat64s(name, safetensors.F32, []int{64}, make([]float64, 64))
		if err != nil {
			t.Fatal(err)
		}
		x = append(x, v)
	}
	if err := safetensors.WriteFile("relu.safetensors", x, nil); err != nil {
		t.Fatal(err)
	}
	done("run", "--case", "case", "--x0", "white:7", "-o", "case/trajectory.safetensors", "--record",
		"case/noise.safetensors")
	done("dataset", "plan", "spec.json", "-o", "made", "--rate", "10")
	done("dataset", "run", "made")
	done("dataset", "plan", "measured.json", "-o", "measured", "--rate", "10")
	calls := []string{
		"dataset plan spec.json -o set --rate 10", "dataset run made --units 1 --force", "dataset run measured",
		"dataset merge made -o all.safetensors --force", "dataset merge made -o all.h5 --force",
		"dataset export made -o out --format well --force", "dataset export made -o out --format zarr --force",
		"dataset export made -o out --format safetensors --force",
		"dataset sample made -o sheet.svg --force", "check --case case --report report.html --junit report.xml",
		"kernel --op relu relu.safetensors --report kernel.html",
		"probe --case case -o probes", "study --config op.json --x0 white:7 --steps 8 --svg study.svg",
	}
	for _, ext := range []string{".safetensors", ".npy", ".npz", ".h5"} {
		calls = append(calls, "run --config op.json --x0 white:7 --force --record tape.safetensors -o out"+ext,
			"run --config op.json --x0 white:7 --resume -o out"+ext)
	}
	before := readFiles(t, root)
	infos := func() map[string]os.FileInfo {
		all := map[string]os.FileInfo{}
		for name := range readFiles(t, root) {
			all[name], _ = os.Stat(name)
		}
		return all
	}
	n := 0
	for _, call := range calls {
		args := append(strings.Fields(call), "--quiet")
		before.restore(t, root)
		was := infos()
		if r := refrun(t, args...); r.Code == cli.ExitUsage {
			t.Fatalf("%s: %s", call, r.Stderr)
		}
		after, is := readFiles(t, root), infos()
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if os.SameFile(was[name], is[name]) {
				continue // not written
			}
			for k, suffix := range []string{"", "", ".refrun.tmp", ".partial", ".resume", ".partial.npz"} {
				if k < 3 || strings.HasPrefix(call, "run ") || strings.HasPrefix(call, "dataset run ") {
					text := []string{"somebody's\n", after[name]}[min(k, 1)]
					before.restore(t, root)
					os.Remove(name + suffix)
					os.MkdirAll(filepath.Dir(name), 0o777)
					if err := os.WriteFile(outside, []byte(text), 0o666); err != nil {
						t.Fatal(err)
					}
					if err := os.Symlink(outside, name+suffix); err != nil {
						t.Skip("no links here: ", err)
					}
					r := refrun(t, args...)
					if got, err := os.ReadFile(outside); err != nil || string(got) != text {
						t.Errorf("%s: %s: written through the link: exit code %d, %v", call, name+suffix, r.Code, err)
					}
					os.Remove(name + suffix)
					n++
				}
			}
		}
	}
	t.Logf("%d links", n)
}
