package emulate

import (
	"math"
	"slices"

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
