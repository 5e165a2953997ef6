package forward_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// full is for networks that are alike but for their precision.
var full = flag.Bool("forward.full", false, "all networks and claims, and not a share of them")

// TestMain lets the heap grow: what a test keeps is small, and collecting each few megabytes would take a fifth of the
// time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	flag.Parse()
	os.Exit(m.Run())
}
