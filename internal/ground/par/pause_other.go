//go:build (!amd64 && !arm64) || purego

package par

func pause() {}
