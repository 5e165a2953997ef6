package main

import (
	"os"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestFormats: docs/FORMATS.md has every key of every object that a verb prints.
func TestFormats(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/FORMATS.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(text), "\n### ") {
		title, body, _ := strings.Cut(s, "\n")
		sections[title] = body
	}
	dir := clitest.NewFolder(t).Write()
	file, probes := clitest.StudyFile(t, "", ""), t.TempDir()
	for section, args := range map[string][]string{
		"run --one-step":       {"run", "--one-step", "--case", dir},
		"run, a whole rollout": {"run", "--case", dir},
		"compare A B":          {"compare", dir, dir},
		"probe":                {"probe", "--case", dir, "-o", probes},
		"study":                {"study", "--config", file, "--x0", "white:1", "--steps", "8"},
		"plan":                 {"plan", "--seconds", "0.001", "--grid", "8", "--operators", "2"},
		"bench":                {"bench", "--seconds", "0.001", "--grid", "8"},
		"info":                 {"info"},
		"kernel":               {"kernel", clitest.RecordedDot, "--op", "dot", "--precision", "fp16", "--output", "d_fp32"},
	} {
		out := refrun(t, append(args, "--json")...).Decode(t)
		described := sections[section]
		if strings.Contains(described, "the keys of a difference") {
			described += sections["The differences of two arrays"]
		}
		if described == "" || len(out) == 0 {
			t.Errorf("%s: a section of %d bytes, %d keys", section, len(described), len(out))
		}
		for key := range out {
			if !strings.Contains(described, "`"+key+"`") {
				t.Errorf("%s: `%s` is not described", section, key)
			}
		}
		rows, ok := out["rows"].([]any)
		if !ok {
			rows, ok = out["kernels"].([]any)
		}
		if !ok {
			continue
		}
		for key := range rows[len(rows)-1].(map[string]any) {
			if !strings.Contains(described, "`"+key+"`") {
				t.Errorf("%s: `%s` of a row is not described", section, key)
			}
		}
	}
}
