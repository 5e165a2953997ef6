package run

import (
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// verbs are the program that these tests run.
var verbs = []cli.Verb{Verb, Demo}

func refrun(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, verbs, args...)
}

func lines(t *testing.T, args ...string) string {
	t.Helper()
	return clitest.Lines(t, verbs, args...)
}

func oneStep(t *testing.T, dir string, flags ...string) clitest.Result {
	t.Helper()
	return refrun(t, append([]string{"run", "--one-step", "--json", "--case", dir}, flags...)...)
}

// object abbreviates JSON objects.
type object = map[string]any

// Values that stand for their type.
const (
	word   = "text"
	number = 1.0
	truth  = true
)
