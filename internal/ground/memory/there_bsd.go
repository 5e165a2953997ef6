//go:build darwin || freebsd

package memory

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// there returns the memory of the machine.
func there(string) (most int64, whose string) {
	name := map[string]string{"darwin": "hw.memsize", "freebsd": "hw.physmem"}[runtime.GOOS]
	n, err := unix.SysctlUint64(name)
	if err != nil {
		return 0, ""
	}
	return int64(n), "which the machine has"
}
