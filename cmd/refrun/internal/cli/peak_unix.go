//go:build unix && !linux

package cli

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// PeakBytes returns the greatest resident size the process had, 0 if the
// system does not say.
func PeakBytes() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss) // bytes there, kilobytes elsewhere
	}
	return int64(u.Maxrss) << 10
}
