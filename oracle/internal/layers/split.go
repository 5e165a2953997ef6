package layers

import (
	"math"

	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// splits reports whether norm i may be two operations, of which the first stores what is
// normalized in the half type that the norm has (see emulate.Machine.SplitNorm), and whether
// its input in is known well enough to say what comes of it.
func (g *layerGate) splits(i int, in layerValue) bool {
	f := g.of[i]
	return emulate.Splits(g.m.Nodes[i]) && in.bound == nil && f.Half()
}

// splitAnswer is the answer of such a norm, z = (x-mu)/sqrt(V), y = f(z) w + b. A z that is
// beside a tie may be rounded otherwise: it is in the interval, and the chance of it in flip.
func (g *layerGate) splitAnswer(i int, in layerValue) *answer {
	n, x, f := &g.m.Nodes[i], in.Tensor, g.of[i]
	all := make([]float64, 5*len(x.Data))
	part := func(k int) []float64 { return all[k*len(x.Data) : (k+1)*len(x.Data)] }
	a := &answer{how: "norm before its scale in " + f.String(), wide: usualSlack, mid: part(0), lo: part(1),
		hi: part(2), sd: part(3), flip: part(4)}
	hw := x.H() * x.W()
	size := hw * x.C() / n.Groups
	for at := 0; at < len(x.Data); at += size {
		s := g.statistics(n, x, at, size, in)
		for k := at; k < at+size; k++ {
			v, c := x.Data[k], k/hw%x.C()
			d := math.Abs(v - s.mean)
			ends := [3]float64{float64(2 * math.Abs(s.mean) * s.root), float64(math.Abs(v) * s.root), float64(d * s.root)}
			bound := float64(s.root*(float64(d*(s.rho+3*g.u))+s.dm)) + float64(g.u*(ends[0]+ends[1]+ends[2])) + tiny
			sd := measure.RootSum(measure.RootSum(s.root*s.sdMean, s.root*d*s.sdRoot),
				roundingSD*g.u*2*measure.RootSum(ends[0], measure.RootSum(ends[1], ends[2])))
			z := float64((v - s.mean) * s.root)
			y := span{z - bound, z, z + bound, sd, 0}.round(f).times(n.Weight.Data[c]).blur(g.u,
				roundingSD*g.u).plus(certain(n.Bias.Data[c])).blur(g.u, roundingSD*g.u)
			a.mid[k], a.lo[k], a.hi[k], a.sd[k], a.flip[k] = y.mid, y.lo, y.hi, y.sd, y.flip
		}
	}
	return a
}

// split returns what is known of norm i, which left no record, if it is such a one: the
// numbers not rounded again. A flip moves a number by an ulp of z, and so is part of its
// deviation.
func (g *layerGate) split(i int, ways [][]layerValue) []layerValue {
	var all []layerValue
	for _, in := range ways {
		if !g.splits(i, in[0]) {
			continue
		}
		a := g.splitAnswer(i, in[0])
		for k, chance := range a.flip {
			a.sd[k] = measure.RootSum(a.sd[k], math.Sqrt(chance)*(a.hi[k]-a.lo[k]))
		}
		a.flip = nil
		all = append(all, unrecorded(func(yield func(*answer) bool) { yield(a) }, g.of[i], g.shapes[i])[isKept])
	}
	return all
}
