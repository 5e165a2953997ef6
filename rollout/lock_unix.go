//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rollout

import (
	"errors"
	"syscall"

	"github.com/refrun/refrun/internal/disk"
)

// locked reports whether another process, or another job of this one, holds the
// file; if not, this one holds it until it closes f. File systems that have no
// locks report none.
func locked(f disk.File) bool {
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
