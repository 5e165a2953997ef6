package onnx

import "errors"

// leastMemory is what a graph may take beside its weights, however short the file is.
const leastMemory = 16 << 20

// spend takes some of the memory that a graph may have, and reports whether there was
// enough: functions that call others, and small constants spread to large ones, can make
// much of a small file.
func (b *builder) spend(bytes int) bool {
	b.memory -= int64(bytes)
	return b.memory >= 0
}

var errMemory = errors.New("takes more memory than a file of this size may")
