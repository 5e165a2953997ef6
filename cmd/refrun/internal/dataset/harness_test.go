package dataset

import (
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// verbs are the program that these tests run.
var verbs = []cli.Verb{Verb}

func lines(t *testing.T, args ...string) string {
	t.Helper()
	return clitest.Lines(t, verbs, args...)
}
