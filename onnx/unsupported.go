package onnx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

// Unsupported is the error of [Model.Graph] that lists everything which no graph can hold, in the
// order of the file. What only follows from another fault is not listed.
type Unsupported []Fault

// Fault is what is not supported of one node, or of what is no node.
type Fault struct {
	Op  string // the operation; "" of what is no node
	At  string // the operation and the node's name or its outputs, as messages name it
	Why string
}

func (f Fault) String() string { return f.At + ": " + f.Why }

// Clauses returns the faults for people, those for one reason together: a few by their nodes, and many by
// the numbers of each operation, as in "MatMulInteger 89, LSTM 2: not supported".
func (u Unsupported) Clauses() (all []string) {
	const few = 3
	for k, f := range u {
		if slices.ContainsFunc(u[:k], func(g Fault) bool { return g.Why == f.Why }) {
			continue
		}
		var at, ops []string
		count := map[string]int{}
		for _, g := range u[k:] {
			if g.Why != f.Why {
				continue
			}
			if at = append(at, g.At); count[g.Op] == 0 {
				ops = append(ops, g.Op)
			}
			count[g.Op]++
		}
		if len(at) > few {
			slices.SortStableFunc(ops, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
			at = nil
			for _, op := range ops {
				at = append(at, fmt.Sprintf("%s %d", op, count[op]))
			}
		}
		all = append(all, listed(at, ", ")+": "+f.Why)
	}
	return all
}

// listed joins what fits into a line, and says how many more there are.
func listed(all []string, by string) string {
	const most = 10
	if more := len(all) - most; more > 0 {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, by)
}

// Error returns the list in one line.
func (u Unsupported) Error() string { return listed(u.Clauses(), "; ") }

// Strings returns every fault in a line of its own.
func (u Unsupported) Strings() (all []string) {
	for _, f := range u {
		all = append(all, f.String())
	}
	return all
}

// refuse notes a fault of what is no node.
func (b *builder) refuse(at, format string, a ...any) {
	b.faults = append(b.faults, Fault{At: fault.Printable(at), Why: fault.Printable(fmt.Sprintf(format, a...))})
}

// fault returns all faults as one error.
func (b *builder) fault() error {
	if len(b.faults) == 0 {
		return nil
	}
	return Unsupported(b.faults)
}
