// Package scratch keeps the small files of tests in memory. A test that stops a rollout
// at each of its states and resumes it waits for the disk more than ten times as long as
// it computes, as every checkpoint is made durable.
package scratch

import (
	"os"

	"github.com/refrun/refrun/internal/ground/disk"
)

// InMemory makes /dev/shm the folder for temporary files, where there is one with 4 GB
// free and TMPDIR does not name another. Call it from TestMain, before any file is made.
func InMemory() {
	const memory = "/dev/shm"
	if os.Getenv("TMPDIR") != "" {
		return
	}
	if free, ok := disk.Free(memory); ok && free >= 4<<30 {
		os.Setenv("TMPDIR", memory)
	}
}
