package main

import (
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// refrun runs the command in this process. Tests that do nothing else of the whole process may be
// parallel: they run when the others have ended.
func refrun(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, verbs, args...)
}

// object abbreviates JSON objects.
type object = map[string]any
