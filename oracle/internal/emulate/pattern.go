package emulate

import (
	"fmt"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// Points are places where a device may round to its half type.
type Points uint16

// The points, in the order of execution.
const (
	AtConv    Points = 1 << iota
	AtBias           // the convolution before its bias is added, beside the sum after it
	AtNorm           // a norm
	AtAct            // an activation
	AtSum            // of a residual block
	AtDraw           // the noise's draw,
	AtProduct        // its product with the scale,
	AtNoise          // and the noisy tensor
	AtOut            // the operator's output
	AtShare          // the output's share of the next state, dt O or (1-alpha) O
	AtKept           // the last state's share of it, alpha X, where states are kept in a half type
	AllPoints = AtKept<<1 - 1
)

var pointNames = []string{"conv", "bias", "norm", "act", "sum", "draw", "product", "noise", "out", "share", "old share"}

// String returns the points in words.
func (p Points) String() string {
	var names []string
	for i, name := range pointNames {
		if p>>i&1 != 0 && name != "bias" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "stores nothing"
	}
	s := "stores " + strings.Join(names, ", ")
	if p&AtBias != 0 {
		s += "; bias apart"
	}
	return s
}

// Pattern is one way in which a correct device may compute a step: a mode, and
// the points at which it rounds to the mode's half type. In modes without a
// half type the points are none.
type Pattern struct {
	Mode   graph.Mode
	Points Points
	// Odd has the nodes, by their bits, that are stored where points has not
	// their kind, and those that are not where it has.
	Odd uint64
	// Operands has the modes of single convolutions, a byte for each node: an index to
	// operandModes, from 1 on, or 0 for mode. It is empty if mode is that of all.
	Operands string
	// Twice rounds the products of half numbers and float32 constants, noise's
	// and the share, to float32 before the half type, as most devices do.
	Twice bool
	// Narrow rounds every operation inside SiLU to the half type, as the CPU of
	// PyTorch 1.13 does.
	Narrow bool
	// Plain keeps the statistics of instance norms without parameters in the
	// half type, as the CPU of PyTorch 2 does.
	Plain bool
	// Added makes multiplicative noise of draws n and scale s as x + x (n s), which
	// loses less than x (1 + n s).
	Added bool
	// Once has no rounding within the factor that noise multiplies by: see [OnceHow].
	Once bool
	// Wide has the convolutions whose input is not rounded.
	Wide Unrounded
	// Constants are rounded to the half type, as frameworks do that give a constant the type of
	// the tensor beside it (JAX).
	Constants Constants
	// Folded multiplies the weights of convolutions by the factors of the batch norms that
	// follow them before they are rounded, and adds the shifts as a bias.
	Folded bool
	// Split stores what a norm has normalized in the half type, before it multiplies and
	// shifts it: see [Machine.SplitNorm].
	Split bool
	// Flat takes subnormal operands of convolutions for zeros: see [Flush].
	Flat bool
}

// Constants are those beside a tensor of the half type.
type Constants uint8

// The scale of noise, and dt or 1-alpha. A model may have the one in its own type, and the loop around
// it the other one in float32.
const (
	OfNoise Constants = 1 << iota
	OfPolicy
	AllConstants = OfNoise | OfPolicy
)

// String says so in words.
func (c Constants) String() string {
	return [...]string{"no constants", "the scale of noise", "constants of the policy", "constants"}[c]
}

// MostTraced is how many nodes a pattern can tell apart.
const MostTraced = 64

// Half reports whether a pattern is one of a half precision.
func (p Pattern) Half() bool { return p.Mode.Precision.Half() }

// IsOdd reports whether node i rounds at other points than its kind: see Odd.
func (p Pattern) IsOdd(i int) bool { return i < MostTraced && p.Odd>>i&1 != 0 }

// Whole reports whether the pattern rounds wherever its mode's contract does.
func (p Pattern) Whole(nodes []operator.Node, c rollout.Config) bool {
	return p.Odd == 0 && p.Wide == 0 && !p.Folded && p.Operands == "" && p.Points == Contract(nodes, c, p.Mode).Points
}

// Discrete reports whether the pattern rounds coarsely somewhere, so that
// float32 errors decide about few roundings, and an emulation of it is close.
func (p Pattern) Discrete() bool { return p.Half() || p.Mode.Precision == fp16.TF32 }

// Contract returns the pattern of the contract of a mode.
func Contract(nodes []operator.Node, c rollout.Config, m graph.Mode) Pattern {
	p := Pattern{Mode: m}
	if p.Half() {
		p.Points = PointsOf(nodes, c, m)
	}
	return p
}

// PointsOf returns the points that an operator in a half mode has at all: in the first
// step, whose input is wide, or in those from states that may be half numbers.
func PointsOf(nodes []operator.Node, c rollout.Config, m graph.Mode) (p Points) {
	out := FormatsOf(nodes, m, m.Wide())[len(nodes)-1]
	for _, input := range [2]fp16.Format{c.StartFormat(m), c.StateFormat(out)} {
		of := FormatsOf(nodes, m, input)
		for i := range nodes {
			if of[i] != m.Precision {
				continue
			}
			p |= PointOf(nodes, i)
			switch n := &nodes[i]; {
			case n.Op == operator.OpConv && n.Bias != nil && m.BiasApart():
				p |= AtBias
			case n.Op == operator.OpNoise && n.Noise.Type != noise.Dropout:
				p |= AtDraw | AtProduct
			}
		}
	}
	if c.Policy != rollout.Autoregressive && out == m.Precision {
		p |= AtShare
	}
	if (c.Policy == rollout.Convex || c.Policy == "") && c.StateFormat(out).Half() {
		p |= AtKept
	}
	return p
}

// PointOf returns the point at which node i is stored; none for an identity,
// which hands on what is.
func PointOf(nodes []operator.Node, i int) Points {
	last := len(nodes) - 1
	for IsIdentity(&nodes[last]) && nodes[last].In[0] != operator.Input {
		last = nodes[last].In[0]
	}
	switch n := &nodes[i]; {
	case IsIdentity(n):
		return 0
	case i == last:
		return AtOut
	case n.Op == operator.OpConv:
		return AtConv
	case n.Op == operator.OpNorm:
		return AtNorm
	case n.Op == operator.OpAct:
		return AtAct
	case n.Op == operator.OpOther && KindOf(n.Other) == Products:
		return AtConv
	case n.Op == operator.OpAdd, n.Op == operator.OpOther:
		return AtSum
	}
	return AtNoise
}

// FormatsOf returns the format in which the contract stores each node's output
// for an input of that format.
func FormatsOf(nodes []operator.Node, m graph.Mode, input fp16.Format) []fp16.Format {
	return Pattern{Mode: m}.Formats(nodes, input)
}

// Formats returns the format that each node's output has at least: what follows from a
// convolution that runs in another mode has that one's.
func (p Pattern) Formats(nodes []operator.Node, input fp16.Format) []fp16.Format {
	of, modes := make([]fp16.Format, len(nodes)), p.Modes(len(nodes))
	for i := range nodes {
		in := make([]fp16.Format, len(nodes[i].In))
		for k, j := range nodes[i].In {
			in[k] = input
			if j != operator.Input {
				in[k] = of[j]
			}
		}
		m := p.Mode
		if modes != nil {
			m = modes[i]
		}
		var err error
		if _, of[i], err = nodes[i].Formats(m, in...); err != nil {
			of[i] = fp16.Float32 // what PyTorch refuses, a device may still compute
		}
	}
	return of
}

// Stores says in words what a pattern stores, kind by kind as most nodes of a kind are.
func (p Pattern) Stores(nodes []operator.Node) string {
	p = p.mostly(nodes, func(int) bool { return true })
	var also, not []string
	for i := range nodes {
		switch {
		case !p.IsOdd(i):
		case p.Points&PointOf(nodes, i) != 0:
			not = append(not, nodes[i].Name)
		default:
			also = append(also, nodes[i].Name)
		}
	}
	s := p.Points.String()
	if also != nil {
		s += "; also " + strings.Join(also, ", ")
	}
	if not != nil {
		s += "; not " + strings.Join(not, ", ")
	}
	if p.Wide != 0 {
		s += "; " + p.Wide.String()
	}
	return s
}

// Name names a pattern among the contracts: the claim's own name, or a
// neighbour's.
func (p Pattern) Name(state fp16.Format, stream string, whole bool) string {
	s := fmt.Sprintf("%v/state-%v/noise-%s", p.Mode, state, stream)
	if p.Half() && !whole {
		s += " with fewer roundings"
	}
	if p.Operands != "" {
		s += " with other operands"
	}
	if p.Narrow {
		s += " with SiLU in " + p.Mode.Precision.String()
	}
	if p.Plain {
		s += " with " + PlainHow(p.Mode.Precision)
	}
	if p.Added {
		s += " with noise " + AddedHow
	}
	if p.Once {
		s += " with noise " + OnceHow
	}
	if p.Folded {
		s += " with batch norms in the weights"
	}
	if p.Split {
		s += " with norms before their scale in " + p.Mode.Precision.String()
	}
	if p.Constants != 0 {
		s += " with " + p.Constants.String() + " in " + p.Mode.Precision.String()
	}
	if p.Flat {
		s += " with " + flushed
	}
	return s
}

// ByKind returns the same pattern, told by kinds where most nodes of a kind are
// stored; of has the formats of the contract.
func (p Pattern) ByKind(nodes []operator.Node, of []fp16.Format) Pattern {
	return p.mostly(nodes, func(i int) bool { return of[i] == p.Mode.Precision })
}

// mostly turns the kinds of which most of the nodes that count are odd.
func (p Pattern) mostly(nodes []operator.Node, counts func(i int) bool) Pattern {
	odd, turned := map[Points]int{}, Points(0)
	for i := range nodes {
		if counts(i) && i < MostTraced {
			odd[PointOf(nodes, i)] += 2*int(p.Odd>>i&1) - 1
		}
	}
	for i := range nodes {
		if at := PointOf(nodes, i); counts(i) && i < MostTraced && odd[at] > 0 {
			turned |= at
			p.Odd ^= 1 << i
		}
	}
	p.Points ^= turned
	return p
}
