//go:build (!amd64 && !arm64) || purego

package asm

// backends are the instruction sets of this CPU that kernels exist for.
var backends = []backend{{name: "purego"}}
