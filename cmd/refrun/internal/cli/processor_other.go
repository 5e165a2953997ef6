//go:build !unix

package cli

import "time"

// ProcessorTime is not known here.
func ProcessorTime() time.Duration { return 0 }
