package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// TestWords decodes every instruction that the NEON kernels give as a number,
// and compares with the comment beside it.
func TestWords(t *testing.T) {
	files, err := filepath.Glob("../*_arm64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly: %v", err)
	}
	word := regexp.MustCompile(`(?m)^\tWORD \$(0x[0-9a-f]{8}) // (.*)$`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all := word.FindAllSubmatch(text, -1)
		if want := regexp.MustCompile(`WORD`).FindAll(text, -1); len(all) == 0 || len(all) != len(want) {
			t.Errorf("%s: %d words have a comment, of %d", name, len(all), len(want))
		}
		for _, w := range all {
			code, err := strconv.ParseUint(string(w[1]), 0, 32)
			if err != nil {
				t.Fatal(err)
			}
			if got := decode(uint32(code)); got != string(w[2]) {
				t.Errorf("%s: %s is %q, not %q", name, w[1], got, w[2])
			}
		}
	}
}
