package cli

import (
	"bytes"
	"fmt"
	"os"
)

// PeakBytes returns the greatest resident size that the process had, 0 if the system does not say.
// It is the high-water mark of the process's own memory: getrusage has the parent's too, from before
// this program took its place.
func PeakBytes() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(status, []byte("\nVmHWM:"))
	var kilobytes int64
	fmt.Sscan(string(after), &kilobytes)
	return kilobytes << 10
}
