package steps

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
)

// neighbours returns the contracts that a device may keep in place of the
// claimed one, and be as accurate: other lists of autocast, other roundings of
// TF32 operands, and wider modes.
func neighbours(claim graph.Mode) (l []graph.Mode) {
	add := func(precision, autocast string) {
		if m, err := graph.ParseMode(precision, autocast); err == nil && m != claim {
			l = append(l, m)
		}
	}
	switch claim.Precision {
	case fp16.Float16, fp16.BFloat16:
		for _, a := range []string{"cuda", "cpu", "cuda:1.13", "cpu:1.13"} {
			add(claim.Precision.String(), a)
		}
		fallthrough
	case fp16.TF32:
		for _, p := range []string{"float32", "tf32", "tf32:away", "tf32:truncate"} {
			add(p, "")
		}
	}
	return l
}

// fused are points that compilers leave out together.
var fused = []emulate.Points{
	emulate.AtNorm,
	emulate.AtAct,
	emulate.AtConv | emulate.AtBias | emulate.AtNorm,
	emulate.AtBias,
	emulate.AtConv, // beside a bias that is added apart
	emulate.AtConv | emulate.AtNorm,
	emulate.AtProduct,
	emulate.AtDraw | emulate.AtProduct,
	emulate.AtNorm | emulate.AtAct | emulate.AtSum,
	emulate.AtAct | emulate.AtDraw | emulate.AtProduct | emulate.AtNoise,
	emulate.AtShare,
	emulate.AtOut | emulate.AtShare,
	emulate.AtKept,
	emulate.AtShare | emulate.AtKept,
	emulate.AtOut | emulate.AtShare | emulate.AtKept,
	emulate.AllPoints &^ (emulate.AtConv | emulate.AtOut),
	emulate.AllPoints,
}

// unrounded are the patterns of compilers that drop every cast between two operations: only
// weights are half numbers, and perhaps the output; and those that fold batch norms, if
// there are such, and store what follows them.
func unrounded(claim emulate.Pattern, folds bool) (l []emulate.Pattern) {
	for _, kept := range []emulate.Points{0, emulate.AtOut} {
		for _, wide := range []emulate.Unrounded{emulate.WideAll, emulate.WideInner} {
			p := claim
			p.Points, p.Wide = claim.Points&kept, wide
			l = append(l, p)
			if folds {
				p.Folded, p.Wide, p.Points = true, 0, claim.Points&^(emulate.AtConv|emulate.AtNorm)|kept
				l = append(l, p)
				p.Points &^= emulate.AtBias | emulate.AtDraw | emulate.AtProduct | emulate.AtShare // float32's, too
				l = append(l, p)
			}
		}
	}
	return l
}

// chained are the patterns of compilers that store what a chain of operations on single numbers
// ends with, alone or with norms before their scale, or with batch norms in the weights.
func (g *stepGate) chained() (l []emulate.Pattern) {
	nodes := g.e.Machine.Nodes
	for _, acts := range []bool{true, false} {
		p := g.claim
		if p.Odd = emulate.Chained(nodes, acts); p.Odd == 0 {
			continue
		}
		l = append(l, p)
		if slices.ContainsFunc(nodes, emulate.Splits) {
			p.Split = true
			l = append(l, p)
		}
		if g.folds() {
			p.Split, p.Folded = false, true
			p.Points &^= emulate.AtConv | emulate.AtNorm
			for i := range nodes[:min(len(nodes), emulate.MostTraced)] {
				if emulate.PointOf(nodes, i)&(emulate.AtConv|emulate.AtNorm) != 0 {
					p.Odd &^= 1 << i
				}
			}
			l = append(l, p)
		}
	}
	for _, p := range l { // noise and policy are float32's, too
		p.Points &^= emulate.AtDraw | emulate.AtShare
		l = append(l, p)
	}
	return l
}

// folds reports whether there is a batch norm that weights can take in.
func (g *stepGate) folds() bool {
	return slices.ContainsFunc(emulate.Folds(g.e.Machine.Nodes), func(i int) bool { return i > 0 })
}

// beside returns the patterns that differ from p in which inputs of convolutions are
// rounded or flushed, in whether constants are rounded, in the rules of autocast, or in whether the
// convolutions that a sum follows are stored.
func (g *stepGate) beside(p emulate.Pattern) (l []emulate.Pattern) {
	for _, w := range emulate.Ways(p.Mode) {
		q := p
		switch {
		case w.Wide: // and of activations: to keep one cast of two is to keep both
			for _, wide := range []emulate.Unrounded{emulate.WideState, emulate.WideInner} {
				q.Wide, q.Points = p.Wide^wide, p.Points
				l = append(l, q)
				q.Points &^= emulate.AtAct
				l = append(l, q)
			}
		case w.Flat:
			q.Flat = !p.Flat
			l = append(l, q)
		}
	}
	if slices.ContainsFunc(g.e.Machine.Nodes, func(n operator.Node) bool {
		return emulate.IsNoise(&n) && (n.Noise.Type == noise.Multiplicative || n.Noise.Type == noise.Dropout)
	}) {
		q := p
		q.Once = p.Half() && !p.Once
		l = append(l, q)
	}
	for _, c := range g.constants() {
		q := p
		q.Constants ^= c
		l = append(l, q)
	}
	own := emulate.Contract(g.e.Machine.Nodes, g.e.Case.Rollout, p.Mode).Points
	for _, m := range neighbours(p.Mode) {
		if m.Precision == p.Mode.Precision {
			q := p
			q.Mode = m
			l = append(l, q)
			// What only these rules store; as long as it is not, the rules may look the same.
			more := emulate.Contract(g.e.Machine.Nodes, g.e.Case.Rollout, m).Points &^ own &^ p.Points
			for _, add := range []emulate.Points{more, more &^ (emulate.AtNorm | emulate.AtAct)} {
				if q.Points = p.Points | add; add != 0 {
					l = append(l, q)
				}
			}
		}
	}
	nodes := g.e.Machine.Nodes
	if g.folds() {
		q := p
		q.Folded = !p.Folded
		q.Points &^= emulate.AtConv
		l = append(l, q)
	}
	if p.Half() && slices.ContainsFunc(nodes, emulate.Splits) {
		q := p
		q.Split = !p.Split
		l = append(l, q)
	}
	other := p
	other.Odd ^= g.added()
	return append(l, other)
}

// constants are the sets of them that a device may round: those that the operator and its policy have.
func (g *stepGate) constants() (l []emulate.Constants) {
	noisy := slices.ContainsFunc(g.e.Machine.Nodes,
		func(n operator.Node) bool { return emulate.IsNoise(&n) && n.Noise.Type != noise.Dropout })
	if noisy {
		l = append(l, emulate.OfNoise)
	}
	if g.e.Case.Rollout.Policy != rollout.Autoregressive {
		l = append(l, emulate.OfPolicy)
	}
	if len(l) == 2 {
		l = append(l, emulate.AllConstants)
	}
	return l
}

// added are the convolutions that a sum follows: nothing is fused with them.
func (g *stepGate) added() (odd uint64) {
	nodes := g.e.Machine.Nodes
	for i := range nodes[:min(len(nodes), emulate.MostTraced)] {
		for _, j := range nodes[i].In {
			if nodes[i].Op == operator.OpAdd && j != operator.Input && nodes[j].Op == operator.OpConv &&
				emulate.PointOf(nodes, j) == emulate.AtConv {
				odd |= 1 << j
			}
		}
	}
	return odd
}

// alone are the patterns of compilers that fuse convolutions with what follows them, but for those that a sum follows.
func (g *stepGate) alone() (l []emulate.Pattern) {
	p := g.claim
	p.Points, p.Odd = p.Points&^emulate.AtConv, g.added()
	if p.Odd == 0 {
		return nil
	}
	constants := p
	constants.Constants = emulate.AllConstants
	return []emulate.Pattern{p, constants}
}
