package onnx

import (
	"errors"
	"fmt"
	"strings"

	"github.com/refrun/refrun/internal/fault"
)

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

// Unsupported is the error of [Model.Graph] that lists every node which no graph can hold, in
// the order of the file: the operation, the node's name or its outputs, and what is not
// supported of it. What only follows from one of them is not listed.
type Unsupported []string

// mostFaults is how many faults a message lists.
const mostFaults = 10

// Error returns the first of the list in one line.
func (u Unsupported) Error() string {
	list, more := []string(u), ""
	if len(list) > mostFaults {
		more = fmt.Sprintf("; and %d more", len(list)-mostFaults)
		list = list[:mostFaults]
	}
	return strings.Join(list, "; ") + more
}

// fault returns all faults as one error.
func (b *builder) fault() error {
	if len(b.faults) == 0 {
		return nil
	}
	for i, f := range b.faults {
		b.faults[i] = fault.Printable(f)
	}
	return Unsupported(b.faults)
}
