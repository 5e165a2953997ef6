//go:build (amd64 || arm64) && !purego

package par

// pause lets the processor rest for a moment, 100 ns or less.
//
//go:noescape
func pause()
