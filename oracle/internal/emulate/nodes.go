package emulate

import (
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
)

// IsConv says that a node is a convolution.
func IsConv(n *operator.Node) bool { return n.Op == operator.OpConv }

// IsNorm says that a node is a norm.
func IsNorm(n *operator.Node) bool { return n.Op == operator.OpNorm }

// IsAct says that a node is an activation that does something.
func IsAct(n *operator.Node) bool { return n.Op == operator.OpAct && n.Act != act.Identity }

// IsAdd says that a node is a sum.
func IsAdd(n *operator.Node) bool { return n.Op == operator.OpAdd }

// IsNoise says that a node is a stochastic block.
func IsNoise(n *operator.Node) bool { return n.Op == operator.OpNoise }

// Noise returns the block of a noise node in a mode: under PyTorch 1.13's autocast on a CPU its scale has the
// type of the tensor.
func Noise(n *operator.Node, m graph.Mode) noise.Block {
	b := n.Noise
	b.NarrowScale = m.Autocast == graph.CPU113
	return b
}

// IsIdentity says that nothing is done at a place for an activation, such as
// behind the operator's last layer.
func IsIdentity(n *operator.Node) bool { return n.Op == operator.OpAct && n.Act == act.Identity }

// IsWindow says that a convolution reads more than one pixel.
func IsWindow(n *operator.Node) bool { return IsConv(n) && n.Weight.Shape[2] > 1 }

// IsBiased says that a convolution has a bias.
func IsBiased(n *operator.Node) bool { return IsConv(n) && n.Bias != nil }
