//go:build unix && !linux

package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// peakBytes returns the greatest resident size the process had, 0 if the
// system does not say.
func peakBytes() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss) // bytes there, kilobytes elsewhere
	}
	return int64(u.Maxrss) << 10
}
