package emulate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
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
	return [...]string{"", "takes the state unrounded", "takes inputs of convolutions unrounded but for the state",
		"takes inputs of convolutions unrounded"}[w]
}

// OperandModes are those whose operands a convolution may have that is claimed to be
// in TF32, and the first two also in a half type: some keep the last layer, say, out of
// autocast. Libraries choose a kernel for each shape: convolutions of few channels, or
// those of 1x1, may run without tensor cores, and some kernels cut off where others
// round.
var OperandModes = []graph.Mode{
	MustParse("float32"), MustParse("tf32"), MustParse("tf32:away"), MustParse("tf32:truncate"),
}

// Way is how a right device may take the operands of a convolution.
type Way struct {
	How  string // in what it differs from the claim, "" if in nothing
	Mode graph.Mode
	Wide bool // the input is not rounded
	Flat bool // subnormal operands are zeros, as MI200's units have it
}

// Ways are those that are legal for a claimed mode, the claim's own first. The gate of steps has patterns of them.
func Ways(m graph.Mode) []Way {
	all := []Way{{Mode: m}}
	half := m.Precision.Half()
	if half {
		all = append(all, Way{How: "input not rounded to operands", Mode: m, Wide: true})
	}
	if m.Precision == fp16.Float16 {
		all = append(all, Way{How: flushed, Mode: m, Flat: true})
	}
	for _, o := range OperandModes {
		switch {
		case o == m || !half && m.Precision != fp16.TF32:
		case o.Precision == fp16.Float32:
			all = append(all, Way{How: "float32 operands", Mode: o})
		case !half:
			all = append(all, Way{How: "TF32 operands rounded by " + o.TF32.String(), Mode: o})
		}
	}
	return all
}

const flushed = "subnormal operands flushed"

// Flush returns x without the numbers that float16 has as subnormal ones only; x itself if it
// has none.
func Flush(x *tensor.Tensor) *tensor.Tensor {
	subnormal := func(v float64) bool { return v != 0 && math.Abs(v) < 0x1p-14 }
	if !slices.ContainsFunc(x.Data, subnormal) {
		return x
	}
	y := x.Clone()
	for k, v := range y.Data {
		if subnormal(v) {
			y.Data[k] = 0
		}
	}
	return y
}

// MustParse returns the mode of a precision that is known to be one.
func MustParse(precision string) graph.Mode {
	m, err := graph.ParseMode(precision, "")
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
func (p Pattern) Modes(nodes int) []graph.Mode {
	if p.Operands == "" {
		return nil
	}
	of := slices.Repeat([]graph.Mode{p.Mode}, nodes)
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
