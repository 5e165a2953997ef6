package emulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/operator"
)

// Unrounded has the convolutions that take their input as it is: a compiler that drops the cast
// of a number which it has in float32 (XLA does, unless xla_allow_excess_precision is off)
// multiplies it, unrounded, with weights that were rounded before.
type Unrounded uint8

// The convolutions of the operator's input, whose numbers are states, and the others.
const (
	WideState Unrounded = 1 << iota
	WideInner
	WideAll = WideState | WideInner
)

// Takes reports whether node n is one of them.
func (w Unrounded) Takes(n *operator.Node) bool {
	if n.In[0] == operator.Input {
		return w&WideState != 0
	}
	return w&WideInner != 0
}

// String says so in words, "" for none.
func (w Unrounded) String() string {
	return [...]string{"", "takes the state unrounded", "takes inputs of convolutions unrounded but for the state", "takes inputs of convolutions unrounded"}[w]
}

// OperandModes are those whose operands a convolution may have that is claimed to be
// in TF32, and the first two also in a half type: some keep the last layer, say, out of
// autocast. Libraries choose a kernel for each shape: convolutions of few channels, or
// those of 1x1, may run without tensor cores, and some kernels cut off where others
// round.
var OperandModes = []operator.Mode{MustParse("float32"), MustParse("tf32"), MustParse("tf32:away"), MustParse("tf32:truncate")}

func MustParse(precision string) operator.Mode {
	m, err := operator.ParseMode(precision, "")
	if err != nil {
		panic("oracle: " + err.Error())
	}
	return m
}

// With returns the pattern whose nodes have the operands of operandModes[k], or the
// pattern's own if that is its mode, or k is -1.
func (p Pattern) With(k int, at []int, nodes int) Pattern {
	if k >= 0 && OperandModes[k] == p.Mode {
		k = -1
	}
	of := []byte(p.Operands)
	if p.Operands == "" {
		of = make([]byte, nodes)
	}
	for _, i := range at {
		of[i] = byte(k + 1)
	}
	p.Operands = string(of)
	if strings.Trim(p.Operands, "\x00") == "" {
		p.Operands = ""
	}
	return p
}

// Modes returns the modes of all nodes, nil if they are the pattern's.
func (p Pattern) Modes(nodes int) []operator.Mode {
	if p.Operands == "" {
		return nil
	}
	of := slices.Repeat([]operator.Mode{p.Mode}, nodes)
	for i, k := range []byte(p.Operands) {
		if k > 0 {
			of[i] = OperandModes[k-1]
		}
	}
	return of
}

// Differ says in words which convolutions have other operands.
func (p Pattern) Differ(nodes []operator.Node) string {
	var all []string
	for k, m := range OperandModes {
		var names []string
		for i, of := range []byte(p.Operands) {
			if int(of) == k+1 {
				names = append(names, nodes[i].Name)
			}
		}
		if names != nil {
			all = append(all, fmt.Sprintf("%v operands in %s", m, strings.Join(names, ", ")))
		}
	}
	if all == nil {
		return ""
	}
	return "takes " + strings.Join(all, "; ")
}
