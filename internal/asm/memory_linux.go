package asm

import "golang.org/x/sys/unix"

// advise asks for large pages; a system that has none says no, and nothing is lost.
func advise(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
