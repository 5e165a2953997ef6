//go:build darwin || freebsd || linux

package rollout

import "syscall"

// systemFree returns what the system says is free on the disk of a folder.
func systemFree(dir string) (int64, bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil || s.Bavail < 0 {
		return 0, false
	}
	return int64(min(float64(s.Bavail)*float64(s.Bsize), 1<<62)), true
}
