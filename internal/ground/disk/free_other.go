//go:build !(darwin || freebsd || linux || windows)

package disk

// free returns false: this system is not asked.
func free(string) (bytes uint64, ok bool) { return 0, false }
