package judge

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// full is for what a test asks of many kernels that are alike but for their sizes, formats and numbers.
var full = flag.Bool("judge.full", false, "all kernels of each test, and not a share of them")

// TestMain lets the heap grow: what a test keeps is small, and collecting each few megabytes would take a fifth of the
// time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	flag.Parse()
	os.Exit(m.Run())
}
