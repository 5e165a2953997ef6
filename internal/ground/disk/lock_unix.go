//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"syscall"
)

// Lock reports whether another process, or another part of this one, holds a file; if not,
// this one holds it until it closes f. Where a file system has no locks none is held, and
// none is true.
func Lock(f File) (held, none bool) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	held = errors.Is(err, syscall.EWOULDBLOCK)
	return held, err != nil && !held
}
