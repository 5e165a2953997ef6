package main

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
)

// TestOneVersion: the Python package and the citation name the version of the program.
func TestOneVersion(t *testing.T) {
	for path, want := range map[string]string{
		"interop/python/pyproject.toml":         "\nversion = \"" + cli.Version + "\"\n",
		"interop/python/src/refrun/__init__.py": "\n__version__ = \"" + cli.Version + "\"\n",
		"CITATION.cff":                          "\nversion: " + cli.Version + "\n",
		"CHANGELOG.md":                          "\n## " + cli.Version,
	} {
		if !strings.Contains(string(readFile(t, "../../"+path)), want) {
			t.Errorf("%s: want %q", path, want)
		}
	}
}
