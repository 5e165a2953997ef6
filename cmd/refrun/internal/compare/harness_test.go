package compare

import (
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// verbs are the program that these tests run.
var verbs = []cli.Verb{Verb, Verify}

func refrun(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, verbs, args...)
}

func lines(t *testing.T, args ...string) string {
	t.Helper()
	return clitest.Lines(t, verbs, args...)
}
