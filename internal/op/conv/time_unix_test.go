//go:build unix

package conv

import "golang.org/x/sys/unix"

// processTime returns the processor time of this process in nanoseconds.
func processTime() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
