//go:build !unix

package cli

// PeakBytes returns 0: this system is not asked.
func PeakBytes() int64 { return 0 }
