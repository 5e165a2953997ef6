//go:build unix

package cli

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time of this process so far.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
