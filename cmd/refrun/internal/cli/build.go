package cli

import (
	"runtime"
	"runtime/debug"
)

// Build says what the compiler was told: the platform, its level and the tags.
func Build() string {
	s := runtime.GOOS + "/" + runtime.GOARCH
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s
	}
	for _, b := range info.Settings {
		switch b.Key {
		case "GOAMD64", "GOARM64":
			s += ", " + b.Key + "=" + b.Value
		case "-tags":
			s += ", tags " + b.Value
		}
	}
	return s
}
