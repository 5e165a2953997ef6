//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rollout

import (
	"errors"
	"syscall"

	"github.com/refrun/refrun/internal/disk"
)

// locked reports whether another process, or another job of this one, holds the
// file; if not, this one holds it until it closes f. Where a file system has no locks
// none is held, and none is true.
func locked(f disk.File) (held, none bool) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	held = errors.Is(err, syscall.EWOULDBLOCK)
	return held, err != nil && !held
}
