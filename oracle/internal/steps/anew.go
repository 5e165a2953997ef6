package steps

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/tensor"
)

// The numbers that a scale is taken from.
const (
	wellKnown  = 64 // independent numbers say a variance well
	mostRounds = 16 // that a step is rounded anew, where its own numbers are few
)

// rounds returns how often a step is rounded anew for its scale. Pixels that are alike have
// one error, and where the states are nearly constant, the claim's own emulation has the errors
// of a few numbers only. By chance it has less than the last roundings make one expect.
func (g *stepGate) rounds(b *evidence.BatchStep, alike float64, chance bool) int {
	pixels := float64(b.X.H() * b.X.W())
	switch {
	case !g.claim.Discrete() && pixels < wellKnown*alike:
		return members
	case !g.claim.Half() || g.e.Op.MACs(b.X.H(), b.X.W())*int64(b.X.N()) > evidence.LargeForward:
		return 0
	case pixels < wellKnown*alike:
		return min(int(math.Ceil(wellKnown*alike/pixels))-1, mostRounds)
	case chance:
		return 1
	}
	return 0
}

// another returns the states that follow on one more device: of a fine claim, one that forms convolutions as products
// of matrices, where pixels that are alike have errors that differ by their block, and a norm divides by what differs;
// of a half type, rounded anew.
func (g *stepGate) another(b *evidence.BatchStep, device int) (*tensor.Tensor, error) {
	if g.claim.Half() {
		return g.anew(b, device)
	}
	l := g.legal(b, g.claim, device, 1)
	l.Blocks = true
	return g.stepped(b, g.claim, l)
}

// anew returns the states that follow from exact arithmetic whose numbers are off wherever the
// claim rounds them, but for the last roundings, which a scale knows: by errors of a rounding's
// size that are a function of the number, its channel and the device, as roundings are. Draws,
// which all differ, are rounded.
func (g *stepGate) anew(b *evidence.BatchStep, device int) (*tensor.Tensor, error) {
	nodes, f := g.e.Machine.Nodes, g.claim.Mode.Precision
	of := emulate.FormatsOf(nodes, g.claim.Mode, g.input(g.claim, b.Step))
	l := &emulate.Legal{Member: 1<<33 + uint64(device)}
	return g.after(b, g.claim.Mode, func(d *emulate.Device) {
		d.Perturb = func(i int, y *tensor.Tensor, _ []*tensor.Tensor) {
			stored, apart := g.roundsAt(i, of)
			if !stored && apart == nil {
				return
			}
			for p := range y.N() * y.C() {
				c := p % y.C()
				salt, plane := l.Salt(i, c), y.Plane(p/y.C(), c)
				for k, v := range plane {
					var variance float64
					if stored {
						u := f.Ulp(v)
						variance = float64(u*u) / 12
					}
					if apart != nil {
						u := f.Ulp(v - apart[c])
						variance += float64(u*u) / 12
					}
					plane[k] = v + float64(math.Sqrt(variance)*emulate.Deviate(salt, v))
				}
			}
		}
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if nodes[i].Op != operator.OpNoise || g.draws == nil {
				return nil, nil
			}
			b := emulate.Noise(&nodes[i], g.claim.Mode)
			return g.noisy(i, &b, g.draws, in[0], g.claim, of[i], nil)
		}
	})
}

// roundsAt reports whether the claim rounds what node i gives, but for the last rounding of all,
// and the bias that it adds to a rounded sum, nil if it does not.
func (g *stepGate) roundsAt(i int, of []fp16.Format) (stored bool, bias []float64) {
	nodes, f := g.e.Machine.Nodes, g.claim.Mode.Precision
	n, at := &nodes[i], emulate.PointOf(nodes, i)
	switch {
	case at == 0:
		return false, nil
	case of[i] != f: // convolutions round what they read
		return slices.ContainsFunc(nodes,
			func(r operator.Node) bool { return r.Op == operator.OpConv && slices.Contains(r.In, i) }), nil
	case n.Op == operator.OpAct && n.Act == act.ReLU, n.Op == operator.OpOther && emulate.KindOf(n.Other) == emulate.Moves:
		return false, nil // what comes in is rounded, and comes out as it is
	case n.Op == operator.OpConv && n.Bias != nil && g.claim.Points&emulate.AtBias != 0 &&
		slices.ContainsFunc(n.Bias.Data, func(v float64) bool { return v != 0 }):
		bias = n.Bias.Data
	}
	return at != emulate.AtOut, bias
}
