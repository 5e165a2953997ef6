// Package share says how much of a campaign tests run. Where many devices are alike but for their precision, size or
// step, a test asks a share of them, and with -full all:
//
//	go test ./oracle -full
package share

import (
	"flag"
	"runtime/debug"
)

var all = flag.Bool("full", false, "ask all devices of each test, and not a share of them")

// All reports whether all devices are asked.
func All() bool { return *all }

// The heap may grow: what these tests keep is small, and collecting each few megabytes would take a fifth of the time.
func init() { debug.SetGCPercent(400) }
