package judge

import (
	"cmp"
	"strings"
)

// A library chooses a kernel for each product, by its sizes: under a claim of TF32 one for float32, where a convolution
// has few channels or groups, or one that rounds operands to TF32 in its own way. What the operands of one product do
// to the result adds to what those of the others do, so each can be found while others are wrong.

// singles are forms in which the operands of one product of a chain are rounded in another way.
func (q *Question) singles(from Form) (all []Form) {
	if q.Operands == "" || len(q.Graph.Nodes) < 2 {
		return nil
	}
	for i := range q.Graph.Nodes {
		if !multiplied(q.Graph.Nodes[i].Op) {
			continue
		}
		now, _ := from.operand(q.Graph.Nodes[i].Op.Name(), i)
		for k, way := range tf32Ways {
			if operands[way] != now {
				all = append(all, q.single(from, i, k))
			}
		}
	}
	return all
}

// single is a form in which the operands of node i are rounded in way k.
func (q *Question) single(from Form, i, k int) Form {
	of := []byte(cmp.Or(from.singles, strings.Repeat("\x00", len(q.Graph.Nodes))))
	of[i] = byte(k + 1)
	f := Form{singles: string(of)}
	var parts []string
	for k, way := range tf32Ways {
		var names []string
		for i := range of {
			if int(of[i]) == k+1 {
				names = append(names, q.Graph.Name(&q.Graph.Nodes[i]))
			}
		}
		if names != nil {
			parts = append(parts, "of "+strings.Join(names, ", ")+" in "+cmp.Or(way, "float32"))
		}
	}
	f.Singles = strings.Join(parts, "; ")
	return f
}
