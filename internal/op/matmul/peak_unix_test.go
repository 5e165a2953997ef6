//go:build unix

package matmul

import "golang.org/x/sys/unix"

// processTime returns the processor time of this process in seconds.
func processTime() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
