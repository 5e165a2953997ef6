//go:build darwin || freebsd || linux

package disk

import (
	"math"
	"math/bits"
	"syscall"
)

func free(dir string) (bytes uint64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil || int64(s.Bavail) < 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(s.Bavail), uint64(s.Bsize))
	if hi != 0 {
		return math.MaxUint64, true
	}
	return lo, true
}
