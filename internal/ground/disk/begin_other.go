//go:build !linux || arm

package disk

// Begin does nothing here: the system begins by itself, or package syscall cannot ask it to.
func Begin(File) {}
