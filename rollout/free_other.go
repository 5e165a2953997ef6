//go:build !(darwin || freebsd || linux)

package rollout

// systemFree returns false: this system is not asked.
func systemFree(string) (int64, bool) { return 0, false }
