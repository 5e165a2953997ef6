package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
)

// TestCompletion: bash completes verbs, flags of each verb, and files, from the script.
func TestCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "refrun.bash")
	if err := os.WriteFile(script, []byte(refrun(t, "completion", "bash").Stdout), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "zstate.npy"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string][]string{
		"che":               {"check"},
		"co":                {"compare", "completion"},
		"run --one":         {"--one-step"},
		"run --xyz":         nil,
		"check --cl":        {"--claim"},
		"compare zst":       {"zstate.npy"},
		"dataset ver":       {"verify"},
		"dataset plan --dr": {"--dry-run"},
		"completion z":      {"zsh", "zstate.npy"},
		"help ver":          {"verify", "version"},
		"run --isa pu":      {"purego"},
		"run --x0 w":        {"white:"},
		"bench --arith f":   {"fast"},
	} {
		words := strings.Fields(line)
		cmd := exec.Command(bash, "-c",
			`source "$0"; COMP_WORDS=(refrun "$@"); COMP_CWORD=$#; _refrun; printf '%s\n' "${COMPREPLY[@]}"`)
		cmd.Args = append(cmd.Args, append([]string{script}, words...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		if got := strings.Fields(string(out)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestCompletionScripts: every shell has every verb and a flag of it, and other shells are refused.
func TestCompletionScripts(t *testing.T) {
	for shell, flag := range map[string]string{"bash": "--one-step", "zsh": "--one-step", "fish": "-l one-step"} {
		r := refrun(t, "completion", shell)
		if r.Code != 0 || r.Stderr != "" || !strings.Contains(r.Stdout, flag) {
			t.Errorf("%s: exit code %d, %s", shell, r.Code, r.Stderr)
		}
		for _, name := range cli.VerbNames(verbs) {
			if !strings.Contains(r.Stdout, name) {
				t.Errorf("%s has no %s", shell, name)
			}
		}
	}
	for _, want := range []string{"-l isa -r -a 'auto avx512 avx2 neon purego'", "-l one-step -d", "-l x0 -r",
		"-n '__fish_seen_subcommand_from help' -f -a 'demo run"} {
		if !strings.Contains(refrun(t, "completion", "fish").Stdout, want) {
			t.Errorf("fish has no %s", want)
		}
	}
	for _, line := range strings.Split(refrun(t, "completion", "fish").Stdout, "\n") {
		if strings.Count(strings.ReplaceAll(line, `\'`, ""), "'")%2 != 0 {
			t.Errorf("quotes that do not close: %s", line)
		}
	}
	refrun(t, "completion", "tcsh").Refused(t, "completion", `"tcsh": want bash, zsh or fish`)
	refrun(t, "completion", "bash", "--json").Refused(t, "completion", "--json: a script is no JSON: want it without")
}
