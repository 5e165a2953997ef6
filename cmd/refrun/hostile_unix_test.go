//go:build unix

package main

import (
	"net"
	"syscall"
	"testing"
)

// special makes what is no file but can be opened: a pipe that nobody writes to, a
// socket; and names devices without an end and without room.
func special(t *testing.T) []string {
	t.Helper()
	for _, name := range []string{"pipe.npy", "pipe.safetensors"} {
		if err := syscall.Mkfifo(name, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", "socket.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return []string{"pipe.npy", "pipe.safetensors", "socket.safetensors", "/dev/zero", "/dev/full", "/dev/null"}
}

// processorSeconds is what this process took of all processors.
func processorSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
