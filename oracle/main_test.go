package oracle

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// full is for devices that are alike but for their precision or their policy.
var full = flag.Bool("oracle.full", false, "all devices of each test in all precisions, and not a share of them")

// TestMain lets the heap grow: what a test keeps is small, and collecting each few megabytes would take a fifth of the
// time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	flag.Parse()
	os.Exit(m.Run())
}
