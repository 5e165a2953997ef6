package layers

import (
	"iter"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// folded has the answers of a device that multiplies the weights of convolution i with the
// factors of the batch norm j behind it, and leaves the norm out: what follows the
// convolution is the norm's output. None, and j = 0, where there is no such norm, or the
// norm itself is recorded.
func (g *layerGate) folded(i int, l *evidence.LayerFile, in layerValue) (answers iter.Seq[*answer], j int) {
	if g.folds == nil {
		g.folds = emulate.Folds(g.m.Nodes)
	}
	j = g.folds[i]
	if j == 0 || l.Nodes[j] != nil || in.bound != nil {
		return nil, 0
	}
	n := emulate.Fold(&g.m.Nodes[i], &g.m.Nodes[j])
	return g.convolved(&n, in, g.foldedBy(i, j, &n)), j
}

// unsure is by how much a device's weights and biases may differ.
type unsure struct{ weights, bias []float64 }

// foldedBy is how far a device's own folding of norm j into convolution i may be from n. In
// float32, a weight is a product with a quotient by a root, four roundings in all, and a bias
// has one more sum. Where that is rounded to operands, what is beside a tie may have the
// other neighbour.
func (g *layerGate) foldedBy(i, j int, n *operator.Node) *unsure {
	conv, norm := &g.m.Nodes[i], &g.m.Nodes[j]
	f, _, err := n.Formats(g.mode, fp16.Float32)
	half := err == nil && f.Half()
	off := func(v, by float64) float64 {
		switch {
		case !half && f != fp16.TF32:
			return by
		case emulate.Boundary(f, v) <= by:
			return f.Ulp(v)
		}
		return 0
	}
	u := &unsure{make([]float64, len(n.Weight.Data)), make([]float64, len(n.Bias.Data))}
	for k, v := range n.Weight.Data {
		u.weights[k] = off(v, 4*g.u*math.Abs(v))
	}
	for c, v := range n.Bias.Data {
		terms := math.Abs(norm.Bias.Data[c])
		a := norm.Weight.Data[c] / math.Sqrt(norm.Variance.Data[c]+norm.Eps)
		terms += math.Abs(norm.Mean.Data[c] * a)
		if conv.Bias != nil {
			terms += math.Abs(conv.Bias.Data[c] * a)
		}
		if by := float64(5 * g.u * terms); half {
			u.bias[c] = off(v, by)
		} else {
			u.bias[c] = by
		}
	}
	return u
}

// loosen adds what is unsure of the weights and biases to the bounds and deviations.
func (s *sums) loosen(by *unsure) {
	if by == nil {
		return
	}
	shape := s.weights.Shape
	of := tensor.Of(fp16.Float64, by.weights, shape...)
	most := s.run(mapped(s.x, math.Abs), of).Data
	square := func(v float64) float64 { return float64(v * v) }
	squares := s.run(mapped(s.x, square), mapped(of, square)).Data
	hw := s.y.H() * s.y.W()
	for k := range s.bound {
		b := by.bias[k/hw%s.y.C()]
		s.bound[k] += most[k] + b
		s.sd[k] = measure.RootSum(s.sd[k], measure.RootSum(math.Sqrt(squares[k]), b))
	}
}
