package bench

import (
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// verbs are the program that these tests run.
var verbs = []cli.Verb{Verb, Plan}

func refrun(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, verbs, args...)
}

// object abbreviates JSON objects.
type object = map[string]any

// Values that stand for their type.
const (
	word   = "text"
	number = 1.0
	truth  = true
)
