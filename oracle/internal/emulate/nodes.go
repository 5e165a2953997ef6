package emulate

import (
	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/operator"
)

func IsConv(n *operator.Node) bool { return n.Op == operator.OpConv }

func IsNorm(n *operator.Node) bool { return n.Op == operator.OpNorm }

func IsAct(n *operator.Node) bool { return n.Op == operator.OpAct && n.Act != act.Identity }

func IsAdd(n *operator.Node) bool { return n.Op == operator.OpAdd }

func IsNoise(n *operator.Node) bool { return n.Op == operator.OpNoise }

// IsIdentity says that nothing is done at a place for an activation, such as
// behind the operator's last layer.
func IsIdentity(n *operator.Node) bool { return n.Op == operator.OpAct && n.Act == act.Identity }

// IsWindow says that a convolution reads more than one pixel.
func IsWindow(n *operator.Node) bool { return IsConv(n) && n.Weight.Shape[2] > 1 }

// IsBiased says that a convolution has a bias.
func IsBiased(n *operator.Node) bool { return IsConv(n) && n.Bias != nil }
